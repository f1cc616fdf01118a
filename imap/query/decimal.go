package query

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Limits of decimals. What is beyond them counts as null: a scale alone can make a number of a few bytes endless.
const (
	maxUnscaled = 4 << 10 // bytes
	maxScale    = 10_000  // either way
)

// bigInteger is the width of a decimal that is a big integer where it was stored.
const bigInteger = 1

// DecimalOf returns unscaled × 10^-scale; null if it is beyond the limits of decimals.
func DecimalOf(unscaled *big.Int, scale int32) Value {
	if unscaled.BitLen() > 8*maxUnscaled || scale > maxScale || scale < -maxScale {
		return Value{}
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 16), uint32(scale))
	return Value{kind: Decimal, text: string(append(b, twosComplement(unscaled)...))}
}

// BigIntegerOf is DecimalOf for an integer that is to be given back as one.
func BigIntegerOf(i *big.Int) Value {
	v := DecimalOf(i, 0)
	if v.kind == Decimal {
		v.width = bigInteger
	}
	return v
}

// IsBigInteger reports whether a Decimal was a big integer where it was stored.
func (v Value) IsBigInteger() bool { return v.kind == Decimal && v.width == bigInteger }

// Decimal returns what a Decimal is worth, as unscaled × 10^-scale; 0 for other kinds.
func (v Value) Decimal() (unscaled *big.Int, scale int32) {
	if v.kind != Decimal || len(v.text) < 4 {
		return new(big.Int), 0
	}
	return integerOf([]byte(v.text[4:])), int32(binary.BigEndian.Uint32([]byte(v.text)))
}

// twosComplement is an integer as Java writes it: big-endian, with a sign, as short as can be, but a byte at least.
func twosComplement(i *big.Int) []byte {
	if i.Sign() >= 0 {
		b := i.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	n := len(new(big.Int).Not(i).Bytes())
	size := max(n, 1)
	b := new(big.Int).Add(i, new(big.Int).Lsh(big.NewInt(1), uint(8*size))).Bytes()
	for len(b) < size {
		b = append([]byte{0}, b...)
	}
	if b[0]&0x80 == 0 {
		b = append([]byte{0xff}, b...)
	}
	return b
}

// integerOf reads what twosComplement wrote; no bytes are 0.
func integerOf(b []byte) *big.Int {
	i := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return i
}

var ten = big.NewInt(10)

func pow10(n int32) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// exact is a finite number as unscaled × 10^-scale. A double that is no integer is worth the shortest decimal that reads as it: 0.1, not what
// its bits are in full. That keeps the order of doubles, and of doubles and integers.
func (v Value) exact() (unscaled *big.Int, scale int32) {
	switch v.kind {
	case Int:
		return big.NewInt(v.Int()), 0
	case Uint:
		return new(big.Int).SetUint64(v.bits), 0
	case Decimal:
		return v.Decimal()
	}
	f := v.Double()
	if f == math.Trunc(f) {
		i, _ := new(big.Float).SetFloat64(f).Int(nil)
		return i, 0
	}
	d, _ := parseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return d.Decimal()
}

// compareDecimals compares numbers of which one is a Decimal.
func compareDecimals(a, b Value) int {
	for _, side := range []struct {
		v    Value
		sign int
	}{{a, 1}, {b, -1}} {
		if f := side.v.Double(); side.v.kind == Double && (math.IsNaN(f) || math.IsInf(f, 1)) {
			return side.sign
		} else if side.v.kind == Double && math.IsInf(f, -1) {
			return -side.sign
		}
	}
	x, xs := a.exact()
	y, ys := b.exact()
	if x.Sign() != y.Sign() || x.Sign() == 0 {
		return cmp.Compare(x.Sign(), y.Sign())
	}
	switch {
	case xs < ys:
		x.Mul(x, pow10(ys-xs))
	case ys < xs:
		y.Mul(y, pow10(xs-ys))
	}
	return x.Cmp(y)
}

// normDecimal is norm for a Decimal: an integer or a double where one is worth the same, else without zeros at its end.
func (v Value) normDecimal() Value {
	unscaled, scale := v.Decimal()
	if unscaled.Sign() == 0 {
		return Value{kind: Int}
	}
	for digit := new(big.Int); ; scale-- {
		next, rest := new(big.Int).QuoRem(unscaled, ten, digit)
		if rest.Sign() != 0 {
			break
		}
		unscaled = next
	}
	if scale <= 0 {
		i := new(big.Int).Mul(unscaled, pow10(-scale))
		switch {
		case i.IsInt64():
			return Value{kind: Int, bits: uint64(i.Int64())}
		case i.IsUint64():
			return Value{kind: Uint, bits: i.Uint64()}
		}
		if f, accuracy := new(big.Float).SetInt(i).Float64(); accuracy == big.Exact && !math.IsInf(f, 0) {
			return Value{kind: Double, bits: math.Float64bits(f)}
		}
		return DecimalOf(unscaled, scale)
	}
	out := DecimalOf(unscaled, scale)
	if f := out.Double(); f != math.Trunc(f) && compareDecimals(out, DoubleOf(f)) == 0 {
		return Value{kind: Double, bits: math.Float64bits(f)}
	}
	return out
}

// decimalText is a Decimal's digits.
func (v Value) decimalText() string {
	unscaled, scale := v.Decimal()
	digits := unscaled.String()
	if scale == 0 {
		return digits
	}
	const plain = 60
	if scale < 0 || scale > plain {
		return digits + "E" + strconv.Itoa(int(-scale))
	}
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if missing := int(scale) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	at := len(digits) - int(scale)
	return sign + digits[:at] + "." + digits[at:]
}

// parseDecimal reads digits with a point and an exponent.
func parseDecimal(s string) (Value, bool) {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	e := 0
	if hasExponent {
		var err error
		if e, err = strconv.Atoi(strings.TrimPrefix(exponent, "+")); err != nil || e > 2*maxScale || e < -2*maxScale {
			return Value{}, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimPrefix(whole, "+") + fraction
	if len(digits) > 3*maxUnscaled || strings.ContainsAny(digits[min(1, len(digits)):], "+-_") || strings.HasPrefix(digits, "_") {
		return Value{}, false
	}
	unscaled, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return Value{}, false
	}
	v := DecimalOf(unscaled, int32(len(fraction)-e))
	return v, v.kind == Decimal
}

// truncated is what a Decimal is worth towards zero, as an integer of at most 64 bits.
func (v Value) truncated() (i Value, whole, ok bool) {
	unscaled, scale := v.Decimal()
	rest := new(big.Int)
	if scale > 0 {
		unscaled.QuoRem(unscaled, pow10(scale), rest)
	} else if scale < 0 {
		unscaled.Mul(unscaled, pow10(-scale))
	}
	switch {
	case unscaled.IsInt64():
		return IntOf(unscaled.Int64()), rest.Sign() == 0, true
	case unscaled.IsUint64():
		return UintOf(unscaled.Uint64()), rest.Sign() == 0, true
	}
	return Value{}, rest.Sign() == 0, false
}

// addExactly adds two finite numbers; null if the sum is beyond the limits of decimals.
func addExactly(a, b Value) Value {
	x, xs := a.exact()
	y, ys := b.exact()
	switch {
	case xs < ys:
		x, xs = x.Mul(x, pow10(ys-xs)), ys
	case ys < xs:
		y = y.Mul(y, pow10(xs-ys))
	}
	return DecimalOf(x.Add(x, y), xs)
}
