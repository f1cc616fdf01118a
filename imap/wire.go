package imap

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// Operations, effects and the answers to single calls travel in a form of their own: what is seldom set is apart, so that what is common costs no more
// than it must.

// moreOp is what an operation seldom has.
type moreOp struct {
	Bulk  *bulk
	Bare  bool
	Sweep sweep
	Value []byte
	Fence uint64
	Lock  *lockOp
	Proc  *procOp
	Ask   *ask
	Inter *interceptOp
}

func (o *op) more() *moreOp {
	if o.Bulk == nil && !o.Bare && o.Sweep == 0 && o.Value == nil && o.Fence == 0 && o.Lock == nil && o.Proc == nil && o.Ask == nil && o.Inter == nil {
		return nil
	}
	return &moreOp{
		Bulk: o.Bulk, Bare: o.Bare, Sweep: o.Sweep, Value: o.Value, Fence: o.Fence, Lock: o.Lock, Proc: o.Proc, Ask: o.Ask, Inter: o.Inter,
	}
}

func (o *op) with(m *moreOp) {
	o.Bulk, o.Bare, o.Sweep, o.Value, o.Fence = m.Bulk, m.Bare, m.Sweep, m.Value, m.Fence
	o.Lock, o.Proc, o.Ask, o.Inter = m.Lock, m.Proc, m.Ask, m.Inter
}

const opFields = 11

// EncodeMsgpack implements [pack.Writes].
func (o op) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, opFields)
	out.Uint(uint64(o.Kind))
	out.String(o.Map)
	out.Bytes(o.Key)
	if o.Write == nil {
		out.Nil()
	} else {
		out.Struct(o.Write)
	}
	if o.Txn == nil {
		out.Nil()
	} else {
		out.Any(o.Txn)
	}
	if o.Keys == nil {
		out.Nil()
	} else {
		out.Any(o.Keys)
	}
	out.Int(int64(o.Limit))
	out.String(string(o.Who.Via))
	out.String(o.Who.Session)
	out.Int(o.Who.Thread)
	if m := o.more(); m == nil {
		out.Nil()
	} else {
		out.Any(m)
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (o *op) DecodeMsgpack(d *pack.Decoder) error {
	err := pack.Fields(d, opFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			o.Kind = opKind(in.Uint())
		case 1:
			o.Map = in.String()
		case 2:
			o.Key = in.Bytes()
		case 3:
			o.Write = pack.Optional[write](in)
		case 4:
			in.Any(&o.Txn)
		case 5:
			in.Any(&o.Keys)
		case 6:
			o.Limit = int(in.Int())
		case 7:
			o.Who.Via = grid.MemberID(in.String())
		case 8:
			o.Who.Session = in.String()
		case 9:
			o.Who.Thread = in.Int()
		case 10:
			var m *moreOp
			if in.Any(&m); m != nil {
				o.with(m)
			}
		}
	})
	o.complete()
	return err
}

const writeFields = 11

// EncodeMsgpack implements [pack.Writes].
func (w *write) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, writeFields)
	out.Uint(uint64(w.Cond))
	out.Uint(w.Version)
	out.Bytes(w.Old)
	out.Bool(w.Remove)
	out.Bytes(w.Value)
	out.Int(int64(w.TTL))
	out.Bool(w.WantOld)
	out.Int(int64(w.Idle))
	out.Bool(w.Whole)
	out.Bool(w.Keep)
	out.Bool(w.Evict)
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (w *write) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, writeFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			w.Cond = condKind(in.Uint())
		case 1:
			w.Version = in.Uint()
		case 2:
			w.Old = in.Bytes()
		case 3:
			w.Remove = in.Bool()
		case 4:
			w.Value = in.Bytes()
		case 5:
			w.TTL = time.Duration(in.Int())
		case 6:
			w.WantOld = in.Bool()
		case 7:
			w.Idle = time.Duration(in.Int())
		case 8:
			w.Whole = in.Bool()
		case 9:
			w.Keep = in.Bool()
		case 10:
			w.Evict = in.Bool()
		}
	})
}

// moreChange is what a change seldom has.
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

func (c *change) more() *moreChange {
	if c.Idle == 0 && !c.Whole && c.Kind == 0 && c.Cause == 0 && c.Age == 0 && c.Keep == nil && c.Lock == nil && c.Inter == nil {
		return nil
	}
	return &moreChange{c.Idle, c.Whole, c.Kind, c.Cause, c.Age, c.Keep, c.Lock, c.Inter}
}

const changeFields = 6

// EncodeMsgpack implements [pack.Writes].
func (c *change) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, changeFields)
	out.String(c.Map)
	out.Bytes(c.Key)
	out.Bool(c.Remove)
	out.Bytes(c.Value)
	out.Int(int64(c.TTL))
	if m := c.more(); m == nil {
		out.Nil()
	} else {
		out.Any(m)
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (c *change) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, changeFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			c.Map = in.String()
		case 1:
			c.Key = in.Bytes()
		case 2:
			c.Remove = in.Bool()
		case 3:
			c.Value = in.Bytes()
		case 4:
			c.TTL = time.Duration(in.Int())
		case 5:
			var m *moreChange
			if in.Any(&m); m != nil {
				c.Idle, c.Whole, c.Kind, c.Cause, c.Age, c.Keep, c.Lock, c.Inter = m.Idle, m.Whole, m.Kind, m.Cause, m.Age, m.Keep, m.Lock, m.Inter
			}
		}
	})
}

// EncodeMsgpack implements [pack.Writes].
func (e effect) EncodeMsgpack(enc *pack.Encoder) error {
	out := pack.Into(enc, 1)
	out.Len(len(e.Changes))
	for i := range e.Changes {
		out.Struct(&e.Changes[i])
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (e *effect) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, 1, func(in *pack.In, _ int) { e.Changes = pack.List[change](in) })
}

const entryFields = 5

// EncodeMsgpack implements [pack.Writes].
func (r entryReply) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, entryFields)
	out.String(r.Map)
	out.Bytes(r.Key)
	out.Bytes(r.Value)
	out.Uint(r.Version)
	out.Int(int64(r.TTL))
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (r *entryReply) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, entryFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			r.Map = in.String()
		case 1:
			r.Key = in.Bytes()
		case 2:
			r.Value = in.Bytes()
		case 3:
			r.Version = in.Uint()
		case 4:
			r.TTL = time.Duration(in.Int())
		}
	})
}

const writeReplyFields = 3

// EncodeMsgpack implements [pack.Writes].
func (r writeReply) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, writeReplyFields)
	out.Bool(r.Applied)
	out.Uint(r.Version)
	if r.Found == nil {
		out.Nil()
		return out.Err
	}
	out.Len(len(r.Found))
	for i := range r.Found {
		out.Struct(&r.Found[i])
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (r *writeReply) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, writeReplyFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			r.Applied = in.Bool()
		case 1:
			r.Version = in.Uint()
		case 2:
			r.Found = pack.List[entryReply](in)
		}
	})
}
