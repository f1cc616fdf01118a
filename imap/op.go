package imap

import (
	"bytes"
	"fmt"
	"time"

	"gridnode/grid"
	"gridnode/grid/pack"
)

type opKind uint8

const (
	opGet opKind = iota + 1
	opWrite
	opTxn
	opGetMany
	opScan
	opSize
	opStats
	opGetAll
	opPutAll
	opRemoveAll
	opHas
	opHasValue
	opView
	opClear
	opLock
	opProcess
	opIntercept
)

// op is one operation on one partition.
type op struct {
	Kind  opKind
	Map   string // of all kinds but opTxn, opGetMany; opStats: all maps if empty
	Key   []byte // opGet, opWrite, opHas, opView; opScan: where to go on, nil from the start
	Write *write
	Txn   *txn
	Keys  []ref        // opGetMany
	Limit int          // opScan: bytes of one answer
	Bulk  *bulk        // opGetAll, opPutAll, opRemoveAll
	Bare  bool         // opScan: keys without their values
	Sweep sweep        // opClear
	Value []byte       // opHasValue
	Who   who          // of writes and opLock
	Fence uint64       // of writes: the token of the lock that the key must be under; 0: any
	Lock  *lockOp      // opLock
	Proc  *procOp      // opProcess
	Inter *interceptOp // opIntercept
	Ask   *ask         // see op_query.go
}

// Encoded implements [grid.Op].
func (o *op) Encoded() []byte { return encode(*o) }

// own returns the operation as one to be kept: nothing of it is the caller's. The most common kinds stay what they are, so that a store at this
// member need not read them.
func (o op) own() grid.Op {
	if o.Kind != opGet && o.Kind != opWrite {
		return grid.RawOp(encode(o))
	}
	o.Key = bytes.Clone(o.Key)
	if w := o.Write; w != nil { // made for this operation
		w.Old, w.Value = bytes.Clone(w.Old), bytes.Clone(w.Value)
	}
	o.complete()
	return &o
}

// complete names the session of who says none: that of the member.
func (o *op) complete() {
	if o.Who.Session == "" {
		o.Who.Session = string(o.Who.Via)
	}
}

// bulk names several entries of one map: by their keys, or what to put.
type bulk struct {
	Keys [][]byte
	Put  []pair
}

type pair struct {
	Key, Value []byte
	TTL, Idle  time.Duration // as in write
	Whole      bool
}

// sweep says how a whole map is emptied.
type sweep uint8

const (
	sweepClear   sweep = iota + 1 // all entries but locked ones
	sweepEvict                    // the same, to save memory
	sweepDestroy                  // all, and what else is kept of the map
)

// condKind is what a single write asks of the entry.
type condKind uint8

const (
	condNone    condKind = iota
	condAbsent           // no entry
	condPresent          // any entry
	condVersion          // an entry of exactly that version
	condValue            // an entry of exactly that value
)

// write puts or, with Remove, removes one entry.
type write struct {
	Cond    condKind
	Version uint64
	Old     []byte
	Remove  bool
	Value   []byte
	TTL     time.Duration // 0: the map's default; Forever: no end
	WantOld bool
	Idle    time.Duration // like TTL: how long the entry may go unread
	Whole   bool          // of Idle: see [Life]
	Keep    bool          // the value stays, only the time to live changes
	Evict   bool          // with Remove: to save memory; a locked entry stays
}

// ref names an entry within a partition.
type ref struct {
	Map string
	Key []byte
}

type txn struct {
	If     []cond
	Put    []change
	Delete []ref
}

type cond struct {
	Ref     ref
	Version uint64 // 0: absent
}

// changeKind is what a change does that neither puts nor removes one entry.
type changeKind uint8

const (
	changeEntry     changeKind = iota // puts, or with Remove removes
	changeTTL                         // gives the entry a new time to live
	changeAccess                      // the entry was read, Age ago
	changeSweep                       // removes all entries of the map but those of Keep
	changeLock                        // sets or frees a lock
	changeValue                       // gives an entry a new value, and leaves its life as it is
	changeIntercept                   // adds or removes an interceptor
)

// cause says why an entry was removed.
type cause uint8

const (
	causeRemoved cause = iota
	causeExpired
	causeEvicted
	causeDestroyed
)

// change is one step of an effect: the entry gets the value, or is removed, or what Kind says.
type change struct {
	Map    string
	Key    []byte
	Remove bool
	Value  []byte
	TTL    time.Duration // from the moment of applying; 0: no end
	Idle   time.Duration // how long it may go unread; 0: no end
	Whole  bool          // of Idle: see [Life]
	Kind   changeKind
	Cause  cause           // of Remove and changeSweep; of a put: causeExpired if what was there before had expired
	Age    time.Duration   // changeAccess
	Keep   [][]byte        // changeSweep
	Lock   *lockState      // changeLock
	Inter  *interceptState // changeIntercept
}

// effect is what an operation did. All its puts share one version, that of the effect.
type effect struct {
	Changes []change
}

// entryReply is an entry as it was found. Version 0: absent.
type entryReply struct {
	Map     string
	Key     []byte
	Value   []byte
	Version uint64
	TTL     time.Duration // what is left; 0: no end
}

// writeReply answers opWrite and opTxn.
type writeReply struct {
	Applied bool
	Version uint64       // of what was put
	Found   []entryReply // the entries before: asked for by WantOld, or because a condition did not hold
}

type scanReply struct {
	Entries []entryReply
	More    bool // entries follow behind the last of these
}

// viewReply is what is known of an entry beside its value; the moments as milliseconds of the Unix epoch.
type viewReply struct {
	Entry                      entryReply
	Cost                       int64
	Hits                       uint64
	Created, Updated, Accessed int64
	Expires                    int64         // 0: never
	TTL, Idle                  time.Duration // as they were set; 0: no end
}

func encode(v any) []byte {
	b, err := pack.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("imap: encode %T: %v", v, err)) // our own plain structs always encode
	}
	return b
}

func decode[T any](b []byte) (v T, err error) {
	if err := pack.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("%w: %T: %v", grid.ErrBadMessage, v, err)
	}
	return v, nil
}
