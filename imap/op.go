package imap

import (
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
)

// op is one operation on one partition.
type op struct {
	Kind  opKind
	Map   string // of all kinds but opTxn, opGetMany, opStats
	Key   []byte // opGet, opWrite; opScan: where to go on, nil from the start
	Write *write
	Txn   *txn
	Keys  []ref // opGetMany
	Limit int   // opScan: bytes of one answer
}

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
	TTL     time.Duration // 0: no end
	WantOld bool
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

// change is one step of an effect: the entry gets the value, or is removed.
type change struct {
	Map    string
	Key    []byte
	Remove bool
	Value  []byte
	TTL    time.Duration // from the moment of applying; 0: no end
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

// mapStats are the figures of one map in one partition.
type mapStats struct {
	Map     string
	Entries int
	Bytes   int64
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
