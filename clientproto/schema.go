package clientproto

import (
	"fmt"
	"strings"
)

// kind is the type of a field of a request.
type kind uint8

const (
	kBool kind = iota + 1 // of fixed size, in the initial frame
	kByte
	kInt
	kLong
	kUUID
	kString // frames
	kData
	kBytes
	kStrings
	kDataList
	kEntries
	kPairs    // pairs of ints
	kSkipped  // a structure that is kept as its frames
	kNullable = 0x80
)

func (k kind) nullable() bool { return k&kNullable != 0 }
func (k kind) plain() kind    { return k &^ kNullable }

// kinds are the words of the table for them; a question mark behind one means that it may be null.
var kinds = map[string]kind{
	"bool": kBool, "byte": kByte, "int": kInt, "long": kLong, "uuid": kUUID, "string": kString, "data": kData, "bytes": kBytes,
	"[string]": kStrings, "[data]": kDataList, "{data}": kEntries, "[pair]": kPairs, "struct": kSkipped,
}

// field is one field of a request.
type field struct {
	name  string
	kind  kind
	since bool // not every client sends it
}

// spec describes one request.
type spec struct {
	id     uint32
	name   string
	fields []field
}

// specs are all requests that are known, by their id.
var specs = map[uint32]*spec{}

func init() {
	for _, table := range []string{clientTable, mapTable, memberTable} {
		for line := range strings.Lines(table) {
			if line = strings.TrimSpace(line); line != "" {
				s := parseSpec(line)
				specs[s.id] = s
			}
		}
	}
}

// parseSpec reads a line of a table: id, name, and name:kind of each field; a field that not every client sends begins with a plus.
func parseSpec(line string) *spec {
	words := strings.Fields(line)
	s := &spec{name: words[1]}
	if _, err := fmt.Sscanf(words[0], "%x", &s.id); err != nil {
		panic("clientproto: " + line)
	}
	for _, w := range words[2:] {
		name, word, _ := strings.Cut(w, ":")
		f := field{name: strings.TrimPrefix(name, "+"), since: strings.HasPrefix(name, "+")}
		bare, null := strings.CutSuffix(word, "?")
		if f.kind = kinds[bare]; f.kind == 0 {
			panic("clientproto: " + line)
		}
		if null {
			f.kind |= kNullable
		}
		s.fields = append(s.fields, f)
	}
	return s
}

// The requests of the client service.
const clientTable = `
000100 Client.authentication uuid:uuid version:byte +routing:byte +direct:bool cluster:string user:string? password:string? type:string clientVersion:string name:string labels:[string]
000200 Client.authenticationCustom uuid:uuid version:byte +routing:byte +direct:bool cluster:string credentials:bytes type:string clientVersion:string name:string labels:[string]
000300 Client.addClusterViewListener
000400 Client.createProxy name:string service:string
000500 Client.destroyProxy name:string service:string
000600 Client.addPartitionLostListener localOnly:bool
000700 Client.removePartitionLostListener id:uuid
000800 Client.getDistributedObjects
000900 Client.addDistributedObjectListener localOnly:bool
000a00 Client.removeDistributedObjectListener id:uuid
000b00 Client.ping
000c00 Client.statistics timestamp:long attributes:string metrics:bytes
000e00 Client.createProxies proxies:struct
000f00 Client.localBackupListener
001000 Client.triggerPartitionAssignment
001100 Client.addMigrationListener localOnly:bool
001200 Client.removeMigrationListener id:uuid
001300 Client.sendSchema schema:struct
001400 Client.fetchSchema schemaId:long
001500 Client.sendAllSchemas schemas:struct
`

// The requests of the management center's service.
const memberTable = `
200500 MC.getMemberConfig
`

// The requests of the map service.
const mapTable = `
010100 Map.put threadId:long ttl:long name:string key:data value:data
010200 Map.get threadId:long name:string key:data
010300 Map.remove threadId:long name:string key:data
010400 Map.replace threadId:long name:string key:data value:data
010500 Map.replaceIfSame threadId:long name:string key:data test:data value:data
010600 Map.containsKey threadId:long name:string key:data
010700 Map.containsValue name:string value:data
010800 Map.removeIfSame threadId:long name:string key:data value:data
010900 Map.delete threadId:long name:string key:data
010a00 Map.flush name:string
010b00 Map.tryRemove threadId:long timeout:long name:string key:data
010c00 Map.tryPut threadId:long timeout:long name:string key:data value:data
010d00 Map.putTransient threadId:long ttl:long name:string key:data value:data
010e00 Map.putIfAbsent threadId:long ttl:long name:string key:data value:data
010f00 Map.set threadId:long ttl:long name:string key:data value:data
011000 Map.lock threadId:long ttl:long referenceId:long name:string key:data
011100 Map.tryLock threadId:long lease:long timeout:long referenceId:long name:string key:data
011200 Map.isLocked name:string key:data
011300 Map.unlock threadId:long referenceId:long name:string key:data
011400 Map.addInterceptor name:string interceptor:data
011500 Map.removeInterceptor name:string id:string
011600 Map.addEntryListenerToKeyWithPredicate includeValue:bool flags:int localOnly:bool name:string key:data predicate:data
011700 Map.addEntryListenerWithPredicate includeValue:bool flags:int localOnly:bool name:string predicate:data
011800 Map.addEntryListenerToKey includeValue:bool flags:int localOnly:bool name:string key:data
011900 Map.addEntryListener includeValue:bool flags:int localOnly:bool name:string
011a00 Map.removeEntryListener id:uuid name:string
011b00 Map.addPartitionLostListener localOnly:bool name:string
011c00 Map.removePartitionLostListener id:uuid name:string
011d00 Map.getEntryView threadId:long name:string key:data
011e00 Map.evict threadId:long name:string key:data
011f00 Map.evictAll name:string
012000 Map.loadAll replace:bool name:string
012100 Map.loadGivenKeys replace:bool name:string keys:[data]
012200 Map.keySet name:string
012300 Map.getAll name:string keys:[data]
012400 Map.values name:string
012500 Map.entrySet name:string
012600 Map.keySetWithPredicate name:string predicate:data
012700 Map.valuesWithPredicate name:string predicate:data
012800 Map.entriesWithPredicate name:string predicate:data
012900 Map.addIndex name:string index:struct
012a00 Map.size name:string
012b00 Map.isEmpty name:string
012c00 Map.putAll +triggerMapLoader:bool name:string entries:{data}
012d00 Map.clear name:string
012e00 Map.executeOnKey threadId:long name:string processor:data key:data
012f00 Map.submitToKey threadId:long name:string processor:data key:data
013000 Map.executeOnAllKeys name:string processor:data
013100 Map.executeWithPredicate name:string processor:data predicate:data
013200 Map.executeOnKeys name:string processor:data keys:[data]
013300 Map.forceUnlock referenceId:long name:string key:data
013400 Map.keySetWithPagingPredicate name:string predicate:struct
013500 Map.valuesWithPagingPredicate name:string predicate:struct
013600 Map.entriesWithPagingPredicate name:string predicate:struct
013700 Map.fetchKeys batch:int name:string pointers:[pair]
013800 Map.fetchEntries batch:int name:string pointers:[pair]
013900 Map.aggregate name:string aggregator:data
013a00 Map.aggregateWithPredicate name:string aggregator:data predicate:data
013b00 Map.project name:string projection:data
013c00 Map.projectWithPredicate name:string projection:data predicate:data
013d00 Map.fetchNearCacheInvalidationMetadata uuid:uuid names:[string]
013e00 Map.removeAll name:string predicate:data
013f00 Map.addNearCacheInvalidationListener flags:int localOnly:bool name:string
014000 Map.fetchWithQuery batch:int name:string pointers:[pair] projection:data predicate:data
014300 Map.setTtl ttl:long name:string key:data
014400 Map.putWithMaxIdle threadId:long ttl:long maxIdle:long name:string key:data value:data
014500 Map.putTransientWithMaxIdle threadId:long ttl:long maxIdle:long name:string key:data value:data
014600 Map.putIfAbsentWithMaxIdle threadId:long ttl:long maxIdle:long name:string key:data value:data
014700 Map.setWithMaxIdle threadId:long ttl:long maxIdle:long name:string key:data value:data
`
