package query

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"gridnode/grid"
)

// AggregateOp is what an [Aggregation] computes. The numbers are part of the wire form.
type AggregateOp uint8

// The aggregations. Each is over an attribute of the entries; without one, over the values themselves. An attribute with [any] gives as many
// values as it has. Count and Distinct count null, too, all others leave it out.
const (
	Count         AggregateOp = iota + 1 // how many: an Int
	Distinct                             // the different values, each once, in order
	Min                                  // the least value, in the order of Compare; null without any
	Max                                  // the greatest value
	MinBy                                // the entry with the least value; of several, the one with the least key
	MaxBy                                // the entry with the greatest value; of several, the one with the least key
	SumInteger                           // of integers: an Int. What has a fraction, and doubles, are refused
	SumDouble                            // of numbers, as doubles: a Double
	SumFixed                             // of numbers, cut towards zero: an Int
	AverageNumber                        // of numbers: a Double; null without any
	SumExact                             // of numbers, exactly: a Decimal, 0 without any
)

// Limits of an aggregation's state in one partition.
const (
	MaxDistinct      = 1 << 16
	maxDistinctBytes = 4 << 20
)

// Aggregation is a figure over entries, as plain data.
type Aggregation struct {
	Op        AggregateOp
	Attribute string // empty: the value
}

// State is what an aggregation has found so far. States of different entries are combined by [State.Combine], in any order, with the same
// result: sums of integers are exact in 128 bits; those of doubles depend on the order in their last digits, as floating point does.
type State struct {
	agg  Aggregation
	path attribute

	count    uint64 // values that were taken
	hi, lo   uint64 // exact sum of integers, two's complement
	sum      float64
	best     Value  // SumExact: the sum
	key      []byte // MinBy, MaxBy: of the best entry
	value    []byte
	distinct map[Value]Value
	bytes    int
}

// NewState returns the empty state of an aggregation. The error names what is wrong with it.
func (a Aggregation) NewState() (*State, error) {
	if a.Op < Count || a.Op > SumExact {
		return nil, fmt.Errorf("%w: aggregation %d is not known", grid.ErrBadRequest, a.Op)
	}
	s := &State{agg: a}
	if a.Attribute == "" {
		return s, nil
	}
	var err error
	s.path, err = parsePath(a.Attribute)
	return s, err
}

// Add takes an entry. Its key and value may be kept and must not change.
func (s *State) Add(r *Record) error {
	key, value := r.key.data, r.value.data
	var err error
	s.path.each(r, func(v Value) bool {
		err = s.take(v, key, value)
		return err != nil
	})
	return err
}

func (s *State) take(v Value, key, value []byte) error {
	switch s.agg.Op {
	case Count:
		s.count++
		return nil
	case Distinct:
		return s.addDistinct(v)
	}
	if v.IsNull() {
		return nil
	}
	switch s.agg.Op {
	case Min, Max, MinBy, MaxBy:
		s.offer(v, key, value)
		return nil
	}
	if !v.numeric() {
		return fmt.Errorf("%w: aggregation of %q: %s is no number", grid.ErrBadRequest, s.agg.Attribute, shorten(v.String()))
	}
	s.count++
	return s.addNumber(v)
}

// offer keeps the value if it is better than the best so far.
func (s *State) offer(v Value, key, value []byte) {
	c := Compare(v, s.best)
	if s.agg.Op == Min || s.agg.Op == MinBy {
		c = -c
	}
	better := s.count == 0 || c > 0 || c == 0 && string(key) < string(s.key)
	s.count++
	if !better {
		return
	}
	s.best, s.key, s.value = v, key, nil
	if s.agg.Op == MinBy || s.agg.Op == MaxBy {
		s.value = value
	}
}

func (s *State) addDistinct(v Value) error {
	n := v.norm()
	if _, ok := s.distinct[n]; ok {
		return nil
	}
	if s.distinct == nil {
		s.distinct = map[Value]Value{}
	}
	s.bytes += 16 + len(v.text)
	if len(s.distinct) == MaxDistinct || s.bytes > maxDistinctBytes {
		return fmt.Errorf("%w: more than %d distinct values, or than %d bytes of them, of %q", grid.ErrTooLarge, MaxDistinct, maxDistinctBytes, s.agg.Attribute)
	}
	s.distinct[n] = v
	return nil
}

func (s *State) addNumber(v Value) error {
	switch {
	case s.agg.Op == SumExact:
		return s.addDecimal(v)
	case s.agg.Op == SumDouble:
		s.sum += v.Double()
		return nil
	case v.kind == Decimal && s.agg.Op == AverageNumber:
		s.sum += v.Double()
		return nil
	case v.kind == Decimal:
		whole, isWhole, fits := v.truncated()
		if !isWhole && s.agg.Op == SumInteger {
			return fmt.Errorf("%w: sum of integers of %q: %s is none", grid.ErrBadRequest, s.agg.Attribute, v)
		}
		if !fits {
			return fmt.Errorf("%w: sum of %q: %s needs more than 64 bits", grid.ErrTooLarge, s.agg.Attribute, shorten(v.String()))
		}
		v = whole
	}
	if v.kind == Double {
		switch s.agg.Op {
		case SumInteger:
			return fmt.Errorf("%w: sum of integers of %q: %s is none", grid.ErrBadRequest, s.agg.Attribute, v)
		case AverageNumber:
			s.sum += v.Double()
			return nil
		}
		f := v.Double()
		if math.IsNaN(f) || f < -(1<<63) || f >= 1<<63 {
			return fmt.Errorf("%w: fixed-point sum of %q: %s has no 64-bit integer", grid.ErrBadRequest, s.agg.Attribute, v)
		}
		v = IntOf(int64(f))
	}
	var high uint64
	if v.kind == Int && v.Int() < 0 {
		high = math.MaxUint64
	}
	s.addExact(high, v.bits)
	return nil
}

func (s *State) addDecimal(v Value) error {
	if f := v.Double(); v.kind == Double && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return fmt.Errorf("%w: exact sum of %q: %s is no number that can be added", grid.ErrBadRequest, s.agg.Attribute, v)
	}
	if s.best.IsNull() {
		s.best = IntOf(0)
	}
	sum := addExactly(s.best, v)
	if sum.IsNull() {
		return fmt.Errorf("%w: the sum of %q is beyond the limits of decimals", grid.ErrTooLarge, s.agg.Attribute)
	}
	s.best = sum
	return nil
}

func (s *State) addExact(hi, lo uint64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

// Combine adds what another state of the same aggregation has found.
func (s *State) Combine(o *State) error {
	if s.agg != o.agg {
		return fmt.Errorf("%w: states of different aggregations", grid.ErrBadMessage)
	}
	if o.count > 0 {
		switch s.agg.Op {
		case Min, Max, MinBy, MaxBy:
			n := s.count + o.count
			s.offer(o.best, o.key, o.value)
			s.count = n
			return nil
		case SumExact:
			s.count += o.count
			return s.addDecimal(o.best)
		}
	}
	s.count += o.count
	s.sum += o.sum
	s.addExact(o.hi, o.lo)
	for _, v := range o.distinct {
		if err := s.addDistinct(v); err != nil {
			return err
		}
	}
	return nil
}

// Result is what an aggregation comes to.
type Result struct {
	Value      Value
	Values     []Value // Distinct
	Key, Entry []byte  // MinBy, MaxBy: key and value; nil if there is no entry
}

// Result returns what has been found. A sum of integers beyond 64 bits is an error.
func (s *State) Result() (Result, error) {
	switch s.agg.Op {
	case Count:
		return Result{Value: IntOf(int64(s.count))}, nil
	case Distinct:
		return Result{Values: sortedValues(s.distinct)}, nil
	case Min, Max:
		return Result{Value: s.best}, nil
	case MinBy, MaxBy:
		return Result{Value: s.best, Key: s.key, Entry: s.value}, nil
	case SumDouble:
		return Result{Value: DoubleOf(s.sum)}, nil
	case SumExact:
		return Result{Value: addExactly(s.best, IntOf(0))}, nil
	case AverageNumber:
		if s.count == 0 {
			return Result{}, nil
		}
		return Result{Value: DoubleOf((s.exact() + s.sum) / float64(s.count))}, nil
	}
	if s.hi != uint64(int64(s.lo)>>63) {
		return Result{}, fmt.Errorf("%w: the sum of %q needs more than 64 bits", grid.ErrTooLarge, s.agg.Attribute)
	}
	return Result{Value: IntOf(int64(s.lo))}, nil
}

// exact is the sum of integers as a double.
func (s *State) exact() float64 {
	hi, lo, sign := s.hi, s.lo, 1.0
	if int64(hi) < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		sign = -1
	}
	return sign * (float64(hi)*(1<<64) + float64(lo))
}

// Append appends the state's wire form to dst.
func (s *State) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.count)
	for _, u := range []uint64{s.hi, s.lo, math.Float64bits(s.sum)} {
		dst = binary.BigEndian.AppendUint64(dst, u)
	}
	list := sortedValues(s.distinct)
	if s.best.kind != Null {
		list = []Value{s.best}
	}
	dst = AppendValues(dst, list)
	dst = appendText(dst, string(s.key))
	return appendText(dst, string(s.value))
}

// Decode reads a state of this aggregation of untrusted bytes.
func (a Aggregation) Decode(b []byte) (*State, error) {
	s, err := a.NewState()
	if err != nil {
		return nil, err
	}
	d := decoder{b: b, left: MaxDistinct}
	count, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail("a state without its count")
		return nil, d.err
	}
	d.b = d.b[size:]
	s.count = count
	var sum uint64
	for _, p := range []*uint64{&s.hi, &s.lo, &sum} {
		if raw := d.bytes(8); len(raw) == 8 {
			*p = binary.BigEndian.Uint64(raw)
		}
	}
	s.sum = math.Float64frombits(sum)
	list := d.values()
	s.key, s.value = []byte(d.text(len(b))), []byte(d.text(len(b)))
	if a.Op == Distinct {
		for _, v := range list {
			if err := s.addDistinct(v); err != nil {
				return nil, err
			}
		}
	} else if len(list) == 1 {
		s.best = list[0]
	}
	return s, d.end()
}
