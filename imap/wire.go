package imap

import (
	"time"

	"gridnode/grid"
)

// Operations and effects travel in a form of their own: what is seldom set is apart, so that what is common costs no more than it must.

// wireOp is an op as it travels.
type wireOp struct {
	Kind  opKind
	Map   string
	Key   []byte
	Write *write
	Txn   *txn
	Keys  []ref
	Limit int
	Via   string // of Who
	More  *moreOp
}

type moreOp struct {
	Bulk    *bulk
	Bare    bool
	Sweep   sweep
	Value   []byte
	Session string // of Who
	Thread  int64
	Fence   uint64
	Lock    *lockOp
	Proc    *procOp
	Ask     *ask
	Inter   *interceptOp
}

func (o *op) wire() wireOp {
	w := wireOp{Kind: o.Kind, Map: o.Map, Key: o.Key, Write: o.Write, Txn: o.Txn, Keys: o.Keys, Limit: o.Limit, Via: string(o.Who.Via)}
	if o.Bulk != nil || o.Bare || o.Sweep != 0 || o.Value != nil || o.Who.Session != "" || o.Who.Thread != 0 || o.Fence != 0 ||
		o.Lock != nil || o.Proc != nil || o.Ask != nil || o.Inter != nil {
		w.More = &moreOp{
			Bulk: o.Bulk, Bare: o.Bare, Sweep: o.Sweep, Value: o.Value, Session: o.Who.Session, Thread: o.Who.Thread, Fence: o.Fence,
			Lock: o.Lock, Proc: o.Proc, Ask: o.Ask, Inter: o.Inter,
		}
	}
	return w
}

// decodeOp reads an operation. Without a session it is of that of the member.
func decodeOp(raw []byte) (op, error) {
	w, err := decode[wireOp](raw)
	if err != nil {
		return op{}, err
	}
	o := op{Kind: w.Kind, Map: w.Map, Key: w.Key, Write: w.Write, Txn: w.Txn, Keys: w.Keys, Limit: w.Limit}
	o.Who.Via = grid.MemberID(w.Via)
	if m := w.More; m != nil {
		o.Bulk, o.Bare, o.Sweep, o.Value, o.Fence = m.Bulk, m.Bare, m.Sweep, m.Value, m.Fence
		o.Lock, o.Proc, o.Ask, o.Inter = m.Lock, m.Proc, m.Ask, m.Inter
		o.Who.Session, o.Who.Thread = m.Session, m.Thread
	}
	if o.Who.Session == "" {
		o.Who.Session = w.Via
	}
	return o, nil
}

// wireChange is a change as it travels.
type wireChange struct {
	Map    string
	Key    []byte
	Remove bool
	Value  []byte
	TTL    time.Duration
	More   *moreChange
}

type moreChange struct {
	Idle  time.Duration
	Whole bool
	Kind  changeKind
	Cause cause
	Age   time.Duration
	Keep  [][]byte
	Lock  *lockState
	Inter *interceptState
}

type wireEffect struct{ Changes []wireChange }

func (e *effect) wire() wireEffect {
	w := wireEffect{Changes: make([]wireChange, len(e.Changes))}
	for i := range e.Changes {
		c := &e.Changes[i]
		w.Changes[i] = wireChange{Map: c.Map, Key: c.Key, Remove: c.Remove, Value: c.Value, TTL: c.TTL}
		if c.Idle != 0 || c.Kind != 0 || c.Cause != 0 || c.Age != 0 || c.Keep != nil || c.Lock != nil || c.Inter != nil {
			w.Changes[i].More = &moreChange{c.Idle, c.Whole, c.Kind, c.Cause, c.Age, c.Keep, c.Lock, c.Inter}
		}
	}
	return w
}

// change is what travelled.
func (w *wireChange) change() change {
	c := change{Map: w.Map, Key: w.Key, Remove: w.Remove, Value: w.Value, TTL: w.TTL}
	if m := w.More; m != nil {
		c.Idle, c.Whole, c.Kind, c.Cause, c.Age, c.Keep, c.Lock, c.Inter = m.Idle, m.Whole, m.Kind, m.Cause, m.Age, m.Keep, m.Lock, m.Inter
	}
	return c
}
