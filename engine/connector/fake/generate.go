package fake

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// generator makes one value of a field.
type generator func(r *rand.Rand) any

// rowMaker returns what makes row i of a subtask. It is for one goroutine.
func (s *Source) rowMaker(subtask int) func(i int64) plugin.Row {
	seed := rand.NewPCG(0, 0)
	random := rand.New(seed)
	return func(i int64) plugin.Row {
		if s.counter < 0 {
			seed.Seed(uint64(i), uint64(subtask)+1)
		} else {
			i += int64(subtask)*s.rows + 1
			seed.Seed(uint64(i), 0)
		}
		row := make(plugin.Row, len(s.generators))
		for j, g := range s.generators {
			if j == s.counter {
				row[j] = i
				continue
			}
			row[j] = g(random)
		}
		return row
	}
}

// readGenerators reads the options of all types and returns the generators of the schema's fields.
func readGenerators(r *option.Reader, schema plugin.Schema) []generator {
	byType := map[plugin.Type]generator{
		plugin.Boolean:   func(r *rand.Rand) any { return r.IntN(2) == 1 },
		plugin.String:    readString(r),
		plugin.Bytes:     readBytes(r),
		plugin.Date:      func(r *rand.Rand) any { return randomTime(r).Format(time.DateOnly) },
		plugin.Time:      func(r *rand.Rand) any { return randomTime(r).Format(time.TimeOnly) },
		plugin.Timestamp: func(r *rand.Rand) any { return randomTime(r).Format(time.DateTime) },
	}
	for _, t := range []plugin.Type{plugin.TinyInt, plugin.SmallInt, plugin.Int, plugin.BigInt} {
		byType[t] = readInteger(r, t)
	}
	byType[plugin.Float] = readFloat(r, plugin.Float, math.MaxFloat32)
	byType[plugin.Double] = readFloat(r, plugin.Double, math.MaxFloat64)
	r.Int("map.size", 5, 0, maxLength) // no field can be a map or an array, so there is nothing to size
	r.Int("array.size", 5, 0, maxLength)
	out := make([]generator, len(schema.Fields))
	for i, f := range schema.Fields {
		out[i] = byType[f.Type]
		if f.Type == plugin.Decimal {
			out[i] = decimals(f)
		}
	}
	return out
}

// readTemplate reads the mode and the template of a type. It returns nil if values come from a range; then ranged names its options.
func readTemplate(r *option.Reader, t plugin.Type, ranged ...string) generator {
	mode, template := string(t)+".fake.mode", string(t)+".template"
	has := r.Has(template)
	switch r.Choice(mode, "", "range", "template") {
	case "range":
		if has {
			r.Fail(template, "has no effect when %q is \"range\"", mode)
		}
		return nil
	case "template":
		r.Need(template)
	}
	if !has {
		return nil
	}
	for _, o := range ranged {
		if r.Has(o) {
			r.Fail(o, "has no effect when %q lists the values", template)
		}
	}
	var values []any
	for i, v := range r.List(template) {
		x, err := convert(plugin.Field{Type: t, Decl: string(t)}, v)
		if err != nil {
			r.Fail(template, "has a wrong value at position %d: %s", i, err)
		}
		values = append(values, x)
	}
	return func(r *rand.Rand) any { return values[r.IntN(len(values))] }
}

func readInteger(r *option.Reader, t plugin.Type) generator {
	low, high := string(t)+".min", string(t)+".max"
	if g := readTemplate(r, t, low, high); g != nil {
		return g
	}
	most := largest(t)
	a, b := r.Int(low, 0, -most-1, most), r.Int(high, most, -most-1, most)
	if a > b {
		r.Fail(low, "is %d, more than %q, which is %d", a, high, b)
	}
	span := uint64(b) - uint64(a) + 1 // 0 for all 64-bit numbers
	return func(r *rand.Rand) any {
		if span == 0 {
			return int64(r.Uint64())
		}
		return int64(uint64(a) + r.Uint64N(span))
	}
}

func readFloat(r *option.Reader, t plugin.Type, most float64) generator {
	low, high := string(t)+".min", string(t)+".max"
	if g := readTemplate(r, t, low, high); g != nil {
		return g
	}
	a, b := r.Float(low, 0, -most, most), r.Float(high, most, -most, most)
	if a > b {
		r.Fail(low, "is %g, more than %q, which is %g", a, high, b)
	}
	return func(r *rand.Rand) any {
		x := r.Float64()
		f := min(max(a*(1-x)+b*x, a), b) // rounding may lead beyond
		if t == plugin.Float {
			f = float64(float32(f))
		}
		return f
	}
}

func readString(r *option.Reader) generator {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if g := readTemplate(r, plugin.String, "string.length"); g != nil {
		return g
	}
	n := r.Int("string.length", 5, 0, maxLength)
	return func(r *rand.Rand) any {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
}

func readBytes(r *option.Reader) generator {
	n := r.Int("bytes.length", 5, 0, maxLength)
	return func(r *rand.Rand) any {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
}

// decimals makes numbers with all the digits that the field has after the point, and some of those before it.
func decimals(f plugin.Field) generator {
	digits, scale := value.Precision(f)
	if digits == 0 {
		digits, scale = 10, 2
	}
	return func(r *rand.Rand) any {
		whole := "0"
		if n := min(digits-scale, 18); n > 0 {
			whole = strconv.FormatInt(r.Int64N(int64(math.Pow10(1+r.IntN(n)))), 10)
		}
		if scale == 0 {
			return whole
		}
		var b strings.Builder
		b.WriteString(whole)
		b.WriteByte('.')
		for range scale {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
}

// randomTime returns a second between 1970 and 2030.
func randomTime(r *rand.Rand) time.Time { return time.Unix(r.Int64N(60*365*24*3600), 0).UTC() }
