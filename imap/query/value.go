package query

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Kind is the class of a [Value].
type Kind uint8

// The kinds, in their order. Int, Uint, Double and Decimal are one class, numbers: they compare by what they are worth.
const (
	Null Kind = iota
	Bool
	Int       // fits 64 bits with a sign
	Uint      // fits 64 bits without a sign only
	Double    // IEEE 754, 64 bits
	Text      // UTF-8
	Binary    // bytes
	Composite // an object or array: a value to show, not to compare

	Decimal        // a number of any size, exactly
	Date           // without a time
	Time           // of a day
	DateTime       // without an offset
	OffsetDateTime // with one
	Instant        // a moment, to a millisecond
	UUID
)

// Value is the value of an attribute. It is comparable by ==, but what is worth the same may differ by that: see [Compare]. The zero Value is
// null.
type Value struct {
	kind  Kind
	width uint8  // bytes of a number as it was stored; 0: unknown
	bits  uint64 // Bool, Int, Uint, Double
	text  string // Text, Binary; Composite: its JSON text; later kinds: see there
}

// BoolOf returns a truth value.
func BoolOf(b bool) Value {
	if b {
		return Value{kind: Bool, bits: 1}
	}
	return Value{kind: Bool}
}

// IntOf returns an integer.
func IntOf(i int64) Value { return Value{kind: Int, width: 8, bits: uint64(i)} }

func sizedInt(i int64, width uint8) Value { return Value{kind: Int, width: width, bits: uint64(i)} }

// UintOf returns an integer without a sign.
func UintOf(u uint64) Value {
	if u <= math.MaxInt64 {
		return IntOf(int64(u))
	}
	return Value{kind: Uint, width: 8, bits: u}
}

// DoubleOf returns a floating-point number.
func DoubleOf(f float64) Value { return Value{kind: Double, width: 8, bits: math.Float64bits(f)} }

// TextOf returns a string.
func TextOf(s string) Value { return Value{kind: Text, text: s} }

// BinaryOf returns a byte string.
func BinaryOf(b []byte) Value { return Value{kind: Binary, text: string(b)} }

// Kind returns the value's kind.
func (v Value) Kind() Kind { return v.kind }

// Width is how many bytes a number had where it was stored, so that it can be given back in its own type; 0: unknown.
func (v Value) Width() int { return int(v.width) }

// IsNull reports whether there is no value.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool returns a Bool's truth; false for other kinds.
func (v Value) Bool() bool { return v.kind == Bool && v.bits == 1 }

// Int returns an Int's value; 0 for other kinds.
func (v Value) Int() int64 {
	if v.kind == Int {
		return int64(v.bits)
	}
	return 0
}

// Uint returns what a Uint, or an Int that is not negative, is worth; 0 for others.
func (v Value) Uint() uint64 {
	if v.kind == Uint || v.kind == Int && int64(v.bits) >= 0 {
		return v.bits
	}
	return 0
}

// Double returns a number as a float64, rounded if need be; 0 for other kinds.
func (v Value) Double() float64 {
	switch v.kind {
	case Int:
		return float64(int64(v.bits))
	case Uint:
		return float64(v.bits)
	case Double:
		return math.Float64frombits(v.bits)
	case Decimal:
		f, _ := strconv.ParseFloat(v.decimalText(), 64) // infinite if it is beyond a double
		return f
	}
	return 0
}

// Text returns the string of a Text or Binary, the JSON text of a Composite; "" for other kinds.
func (v Value) Text() string { return v.text }

// numeric reports whether the value is a number.
func (v Value) numeric() bool {
	return v.kind == Int || v.kind == Uint || v.kind == Double || v.kind == Decimal
}

// class is what values are compared within.
func (v Value) class() Kind {
	if v.numeric() {
		return Int
	}
	return v.kind
}

// Equal reports whether both are worth the same: null equals null, numbers compare by worth, and a composite equals nothing.
func Equal(a, b Value) bool {
	return a.class() == b.class() && a.kind != Composite && Compare(a, b) == 0
}

// ordered reports whether one of the two can be greater: both are of one class that has an order.
func ordered(a, b Value) bool {
	return a.class() == b.class() && a.kind != Null && a.kind != Composite
}

// Compare is a total order: by class (null, truth, numbers, text, bytes, composites, times), then by worth. Integers and doubles are compared
// exactly, whatever their size; with a decimal, a double is worth the shortest decimal that reads as it. NaN equals itself and is greater than
// all other numbers. Text is in the order of its UTF-8 bytes. Times are compared with those of their kind only.
func Compare(a, b Value) int {
	if c := cmp.Compare(a.class(), b.class()); c != 0 {
		return c
	}
	switch a.class() {
	case Null:
		return 0
	case Bool:
		return cmp.Compare(a.bits, b.bits)
	case Int:
		return compareNumbers(a, b)
	}
	return strings.Compare(a.text, b.text)
}

func compareNumbers(a, b Value) int {
	switch {
	case a.kind == Decimal || b.kind == Decimal:
		return compareDecimals(a, b)
	case a.kind == Double && b.kind == Double:
		return compareDoubles(a.Double(), b.Double())
	case a.kind == Double:
		return -compareToDouble(b, a.Double())
	case b.kind == Double:
		return compareToDouble(a, b.Double())
	case a.kind != b.kind: // a Uint is greater than any Int
		return cmp.Compare(a.kind, b.kind)
	case a.kind == Uint:
		return cmp.Compare(a.bits, b.bits)
	}
	return cmp.Compare(int64(a.bits), int64(b.bits))
}

func compareDoubles(a, b float64) int {
	aNaN, bNaN := math.IsNaN(a), math.IsNaN(b)
	switch {
	case aNaN && bNaN:
		return 0
	case aNaN:
		return 1
	case bNaN:
		return -1
	}
	return cmp.Compare(a, b)
}

// compareToDouble compares an integer with a double without rounding either.
func compareToDouble(i Value, f float64) int {
	const two63, two64 = 1 << 63, 1 << 64
	switch {
	case math.IsNaN(f):
		return -1
	case i.kind == Uint:
		switch {
		case f >= two64:
			return -1
		case f < two63:
			return 1
		}
		return cmp.Compare(i.bits, uint64(f)) // so large a double is a whole number
	case f >= two63:
		return -1
	case f < -two63:
		return 1
	}
	whole := int64(f) // towards zero
	if c := cmp.Compare(int64(i.bits), whole); c != 0 {
		return c
	}
	return cmp.Compare(0, f-float64(whole))
}

// norm returns the one value that stands for all that are worth the same, so that == and Equal agree on it.
func (v Value) norm() Value {
	v.width = 0
	if v.kind == Decimal {
		return v.normDecimal()
	}
	if v.kind != Double {
		return v
	}
	f := v.Double()
	switch {
	case math.IsNaN(f):
		return Value{kind: Double, bits: math.Float64bits(math.NaN())}
	case f != math.Trunc(f):
	case f >= -(1<<63) && f < 1<<63:
		return Value{kind: Int, bits: uint64(int64(f))}
	case f >= 1<<63 && f < 1<<64:
		return Value{kind: Uint, bits: uint64(f)}
	}
	return v
}

// numberOf reads a number as JSON writes it. An integer beyond 64 bits becomes a double, as does one that is beyond a double an infinity.
func numberOf(s string) (Value, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return IntOf(i), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return UintOf(u), true
	}
	f, err := strconv.ParseFloat(s, 64)
	if ne, ok := err.(*strconv.NumError); ok && ne.Err != strconv.ErrRange {
		return Value{}, false
	}
	return DoubleOf(f), true
}

// String returns the value as a where text has it.
func (v Value) String() string {
	switch v.kind {
	case Null:
		return "NULL"
	case Bool:
		return strings.ToUpper(strconv.FormatBool(v.Bool()))
	case Int:
		return strconv.FormatInt(v.Int(), 10)
	case Uint:
		return strconv.FormatUint(v.bits, 10)
	case Double:
		return doubleText(v.Double())
	case Binary:
		return "X'" + hex.EncodeToString([]byte(v.text)) + "'"
	}
	if word := literals[v.kind]; word != "" {
		return word + " " + quote(v.plain())
	}
	return quote(v.text)
}

// doubleText keeps a double apart from an integer of its worth.
func doubleText(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eNI") {
		s += ".0"
	}
	return s
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// MarshalJSON returns the value as JSON: bytes in base64, a number that JSON has not as a string, times and UUIDs as texts.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case Null:
		return []byte("null"), nil
	case Bool:
		return strconv.AppendBool(nil, v.Bool()), nil
	case Int:
		return strconv.AppendInt(nil, v.Int(), 10), nil
	case Uint:
		return strconv.AppendUint(nil, v.bits, 10), nil
	case Double:
		if f := v.Double(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return json.Marshal(f)
		}
		return json.Marshal(strconv.FormatFloat(v.Double(), 'g', -1, 64))
	case Text:
		return json.Marshal(v.text)
	case Binary:
		return json.Marshal([]byte(v.text))
	case Composite:
		return []byte(v.text), nil
	case Decimal:
		return []byte(v.plain()), nil
	}
	return json.Marshal(v.plain())
}
