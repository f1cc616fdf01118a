package partition

import (
	"time"

	"gridnode/grid"
	"gridnode/grid/pack"
)

// The messages that are sent for every call write and read themselves; see [pack.Out].

const invokeFields = 4

// EncodeMsgpack implements [pack.Writes].
func (m invokeMsg) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, invokeFields)
	out.Int(int64(m.Partition))
	out.Bytes(m.Op)
	out.Struct(&m.Request)
	out.Int(int64(m.Wait))
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (m *invokeMsg) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, invokeFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			m.Partition = grid.PartitionID(in.Int())
		case 1:
			m.Op = in.Bytes()
		case 2:
			in.Struct(&m.Request)
		case 3:
			m.Wait = time.Duration(in.Int())
		}
	})
}

const requestFields = 4

// EncodeMsgpack implements [pack.Writes].
func (q *Request) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, requestFields)
	out.String(string(q.Client))
	out.Uint(q.Seq)
	out.Uint(q.Low)
	out.Bool(q.Again)
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (q *Request) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, requestFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			q.Client = grid.MemberID(in.String())
		case 1:
			q.Seq = in.Uint()
		case 2:
			q.Low = in.Uint()
		case 3:
			q.Again = in.Bool()
		}
	})
}

const effectsFields = 4

// EncodeMsgpack implements [pack.Writes].
func (m effectsMsg) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, effectsFields)
	out.Int(int64(m.Partition))
	out.Uint(uint64(m.Epoch))
	out.Uint(uint64(m.Prev))
	out.Len(len(m.Effects))
	for i := range m.Effects {
		out.Struct(&m.Effects[i])
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (m *effectsMsg) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, effectsFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			m.Partition = grid.PartitionID(in.Int())
		case 1:
			m.Epoch = grid.Epoch(in.Uint())
		case 2:
			m.Prev = grid.Epoch(in.Uint())
		case 3:
			m.Effects = pack.List[Effect](in)
		}
	})
}

const effectFields = 4

// EncodeMsgpack implements [pack.Writes].
func (e *Effect) EncodeMsgpack(enc *pack.Encoder) error {
	out := pack.Into(enc, effectFields)
	out.Uint(e.Seq)
	out.Uint(uint64(e.Epoch))
	out.Bytes(e.Data)
	if e.Outcome == nil {
		out.Nil()
	} else {
		out.Struct(e.Outcome)
	}
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (e *Effect) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, effectFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			e.Seq = in.Uint()
		case 1:
			e.Epoch = grid.Epoch(in.Uint())
		case 2:
			e.Data = in.Bytes()
		case 3:
			e.Outcome = pack.Optional[outcome](in)
		}
	})
}

const outcomeFields = 5

// EncodeMsgpack implements [pack.Writes].
func (o *outcome) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, outcomeFields)
	out.String(string(o.Client))
	out.Uint(o.Seq)
	out.Uint(o.Low)
	out.Bytes(o.Reply)
	out.Bytes(o.Failed)
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (o *outcome) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, outcomeFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			o.Client = grid.MemberID(in.String())
		case 1:
			o.Seq = in.Uint()
		case 2:
			o.Low = in.Uint()
		case 3:
			o.Reply = in.Bytes()
		case 4:
			o.Failed = in.Bytes()
		}
	})
}

const ackFields = 5

// EncodeMsgpack implements [pack.Writes].
func (m ackMsg) EncodeMsgpack(e *pack.Encoder) error {
	out := pack.Into(e, ackFields)
	out.Int(int64(m.Partition))
	out.Uint(uint64(m.Epoch))
	out.Uint(m.Seq)
	out.Uint(uint64(m.Last))
	out.Bool(m.Missing)
	return out.Err
}

// DecodeMsgpack implements [pack.Reads].
func (m *ackMsg) DecodeMsgpack(d *pack.Decoder) error {
	return pack.Fields(d, ackFields, func(in *pack.In, i int) {
		switch i {
		case 0:
			m.Partition = grid.PartitionID(in.Int())
		case 1:
			m.Epoch = grid.Epoch(in.Uint())
		case 2:
			m.Seq = in.Uint()
		case 3:
			m.Last = grid.Epoch(in.Uint())
		case 4:
			m.Missing = in.Bool()
		}
	})
}
