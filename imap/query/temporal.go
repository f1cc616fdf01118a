package query

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// The type ids of Hazelcast's serializers for decimals, times and UUIDs.
const (
	typeUUID           int32 = -21
	typeJavaDate       int32 = -25
	typeBigInteger     int32 = -26
	typeBigDecimal     int32 = -27
	typeLocalDate      int32 = -51
	typeLocalTime      int32 = -52
	typeLocalDateTime  int32 = -53
	typeOffsetDateTime int32 = -54
)

// Values of times keep, as their text, bytes that are in the order of what they stand for:
//
//	Date           year, month, day
//	Time           hour, minute, second, nanosecond
//	DateTime       both
//	OffsetDateTime second since 1970, nanosecond, offset in seconds: of one moment, that with the lesser local time comes first, as in Java
//	Instant        millisecond since 1970
//
// with the sign of the first number, and of the offset, flipped.
const (
	signOf32 = 1 << 31
	signOf64 = 1 << 63
)

// fields reads numbers of fixed sizes, one behind the other.
type fields struct {
	p  []byte
	ok bool
}

func (f *fields) take(n int) uint64 {
	if len(f.p) < n {
		f.ok, f.p = false, nil
		return 0
	}
	var wide [8]byte
	copy(wide[8-n:], f.p[:n])
	f.p = f.p[n:]
	return binary.BigEndian.Uint64(wide[:])
}

func (f *fields) date(yearSize int) (out []byte, valid bool) {
	year := int32(f.take(yearSize))
	if yearSize == 2 {
		year = int32(int16(year))
	}
	month, day := byte(f.take(1)), byte(f.take(1))
	return append(binary.BigEndian.AppendUint32(nil, uint32(year)^signOf32), month, day), month >= 1 && month <= 12 && day >= 1 && day <= 31
}

func (f *fields) time() (out []byte, valid bool) {
	h, m, s, nanos := byte(f.take(1)), byte(f.take(1)), byte(f.take(1)), uint32(f.take(4))
	return binary.BigEndian.AppendUint32([]byte{h, m, s}, nanos), h < 24 && m < 60 && s < 60 && nanos < 1e9
}

// typedValue reads a decimal, time or UUID as its serializer writes it, or as it lies in compact fields, which is the same. What no such value can
// be is null. ok is false if bytes are missing or the type is another.
func typedValue(typ int32, p []byte) (v Value, rest []byte, ok bool) { return readTyped(typ, p, 4) }

// readTyped is typedValue for years of so many bytes: portable fields have two.
func readTyped(typ int32, p []byte, yearSize int) (v Value, rest []byte, ok bool) {
	f := fields{p, true}
	var b []byte
	valid := true
	switch typ {
	case typeBigInteger, typeBigDecimal:
		return readDecimal(typ, p)
	case typeUUID:
		v.kind, b = UUID, append(binary.BigEndian.AppendUint64(nil, f.take(8)), binary.BigEndian.AppendUint64(nil, f.take(8))...)
	case typeJavaDate:
		v.kind, b = Instant, binary.BigEndian.AppendUint64(nil, f.take(8)^signOf64)
	case typeLocalDate:
		v.kind = Date
		b, valid = f.date(yearSize)
	case typeLocalTime:
		v.kind = Time
		b, valid = f.time()
	case typeLocalDateTime, typeOffsetDateTime:
		v.kind = DateTime
		day, validDay := f.date(yearSize)
		clock, validClock := f.time()
		b, valid = append(day, clock...), validDay && validClock
		if typ == typeOffsetDateTime {
			v.kind = OffsetDateTime
			offset := int32(f.take(4))
			valid = valid && offset >= -18*3600 && offset <= 18*3600
			b = withOffset(b, offset)
		}
	default:
		return Value{}, nil, false
	}
	if !f.ok {
		return Value{}, nil, false
	}
	if !valid {
		return Value{}, f.p, true
	}
	v.text = string(b)
	return v, f.p, true
}

func readDecimal(typ int32, p []byte) (Value, []byte, bool) {
	body, rest, ok := sized(p)
	if !ok || typ == typeBigDecimal && len(rest) < 4 {
		return Value{}, nil, false
	}
	unscaled := big.NewInt(0)
	if len(body) <= maxUnscaled {
		unscaled = integerOf(body)
	}
	if typ == typeBigInteger {
		if len(body) > maxUnscaled {
			return Value{}, rest, true
		}
		return BigIntegerOf(unscaled), rest, true
	}
	scale := int32(binary.BigEndian.Uint32(rest))
	if len(body) > maxUnscaled {
		return Value{}, rest[4:], true
	}
	return DecimalOf(unscaled, scale), rest[4:], true
}

// clock is a local date and time as Go has it.
func clock(dateTime []byte) time.Time {
	year := int32(binary.BigEndian.Uint32(dateTime) ^ signOf32)
	return time.Date(int(year), time.Month(dateTime[4]), int(dateTime[5]), int(dateTime[6]), int(dateTime[7]), int(dateTime[8]),
		int(binary.BigEndian.Uint32(dateTime[9:])), time.UTC)
}

func withOffset(dateTime []byte, offset int32) []byte {
	t := clock(dateTime)
	b := binary.BigEndian.AppendUint64(nil, uint64(t.Unix()-int64(offset))^signOf64)
	b = binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
	return binary.BigEndian.AppendUint32(b, uint32(offset)^signOf32)
}

// moment is an OffsetDateTime or Instant as Go has it.
func (v Value) moment() time.Time {
	b := []byte(v.text)
	if v.kind == Instant {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(b) ^ signOf64)).UTC()
	}
	offset := int32(binary.BigEndian.Uint32(b[12:]) ^ signOf32)
	return time.Unix(int64(binary.BigEndian.Uint64(b)^signOf64), int64(binary.BigEndian.Uint32(b[8:]))).In(time.FixedZone("", int(offset)))
}

// textBytes is how many bytes the text of a kind of fixed size has.
var textBytes = map[Kind]int{Date: 6, Time: 7, DateTime: 13, OffsetDateTime: 16, Instant: 8, UUID: 16}

// checked is the value if its text can be that of its kind, else null: for values of untrusted bytes.
func (v Value) checked() Value {
	if v.kind == Decimal {
		if len(v.text) < 5 {
			return Value{}
		}
		big := v.width
		u, scale := v.Decimal()
		v = DecimalOf(u, scale)
		if big == bigInteger && scale == 0 && v.kind == Decimal {
			v.width = bigInteger
		}
		return v
	}
	if n := textBytes[v.kind]; n != 0 && len(v.text) != n {
		return Value{}
	}
	return v
}

// literals are the words before a text in quotes that stands for a decimal, time or UUID in a where text, by kind.
var literals = map[Kind]string{
	Decimal: "DECIMAL", Date: "DATE", Time: "TIME", DateTime: "TIMESTAMP", OffsetDateTime: "TIMESTAMP", Instant: "INSTANT", UUID: "UUID",
}

// Layouts of times in texts.
const (
	layoutDate = "2006-01-02"
	layoutTime = "15:04:05.999999999"
	layoutZone = "Z07:00:00"
)

// plain is the text of a value that has a literal, without quotes.
func (v Value) plain() string {
	b := []byte(v.text)
	switch v.kind {
	case Decimal:
		return v.decimalText()
	case UUID:
		h := hex.EncodeToString(b)
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case Date:
		return isoDate(clock(append(b, make([]byte, 7)...)))
	case Time:
		return clock(append([]byte{0x80, 0, 0, 0, 1, 1}, b...)).Format(layoutTime)
	case DateTime:
		t := clock(b)
		return isoDate(t) + "T" + t.Format(layoutTime)
	}
	t := v.moment()
	zone := strings.TrimSuffix(t.Format(layoutZone), ":00")
	return isoDate(t) + "T" + t.Format(layoutTime) + zone
}

// isoDate is Go's form of a date but for years that have not four digits.
func isoDate(t time.Time) string {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Sprintf("%+05d-%02d-%02d", y, t.Month(), t.Day())
	}
	return t.Format(layoutDate)
}

// literal reads the text behind one of the words.
func literal(word, text string) (Value, error) {
	wrong := func(form string) (Value, error) {
		return Value{}, fmt.Errorf("%s takes a text like '%s'", word, form)
	}
	switch word {
	case "DECIMAL":
		if v, ok := parseDecimal(text); ok {
			return v, nil
		}
		return wrong("12.50")
	case "UUID":
		b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil || len(b) != 16 || len(text) != 36 {
			return wrong("123e4567-e89b-12d3-a456-426614174000")
		}
		return Value{kind: UUID, text: string(b)}, nil
	case "DATE":
		t, rest, ok := cutDate(text)
		if !ok || rest != "" {
			return wrong("2024-12-31")
		}
		return Value{kind: Date, text: string(dateTimeOf(t)[:6])}, nil
	case "TIME":
		t, ok := parseClock(text)
		if !ok {
			return wrong("23:59:59.999")
		}
		return Value{kind: Time, text: string(dateTimeOf(t)[6:])}, nil
	}
	v, ok := parseTimestamp(text)
	switch {
	case !ok || word == "INSTANT" && v.kind != OffsetDateTime:
		return wrong("2024-12-31T23:59:59+01:00")
	case word == "INSTANT":
		return Value{kind: Instant, text: string(binary.BigEndian.AppendUint64(nil, uint64(v.moment().UnixMilli())^signOf64))}, nil
	}
	return v, nil
}

func dateTimeOf(t time.Time) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(int32(t.Year()))^signOf32)
	b = append(b, byte(t.Month()), byte(t.Day()), byte(t.Hour()), byte(t.Minute()), byte(t.Second()))
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// cutDate reads a date, whose year may have a sign and more than four digits, and returns what follows.
func cutDate(s string) (t time.Time, rest string, ok bool) {
	head, rest, _ := strings.Cut(strings.Replace(s, " ", "T", 1), "T")
	toMonth := strings.LastIndexByte(head, '-')
	if toMonth < 0 {
		return t, "", false
	}
	toYear := strings.LastIndexByte(head[:toMonth], '-')
	if toYear < 0 {
		return t, "", false
	}
	year, err1 := strconv.Atoi(head[:toYear])
	month, err2 := strconv.Atoi(head[toYear+1 : toMonth])
	day, err3 := strconv.Atoi(head[toMonth+1:])
	if err1 != nil || err2 != nil || err3 != nil || year < -999_999_999 || year > 999_999_999 {
		return t, "", false
	}
	t = time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t, rest, isoDate(t) == head
}

func parseClock(s string) (time.Time, bool) {
	for _, layout := range []string{"15:04:05.999999999", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseTimestamp reads a date and a time, and an offset if there is one.
func parseTimestamp(s string) (Value, bool) {
	day, rest, ok := cutDate(s)
	if !ok {
		return Value{}, false
	}
	offset, zoned := 0, false
	if at := strings.IndexAny(rest, "Z+-"); at >= 0 {
		zone := rest[at:]
		rest, zoned = rest[:at], true
		z, err := time.Parse("Z07:00", zone)
		if err != nil {
			if z, err = time.Parse(layoutZone, zone); err != nil {
				return Value{}, false
			}
		}
		if _, offset = z.Zone(); offset > 18*3600 || offset < -18*3600 {
			return Value{}, false
		}
	}
	t, ok := parseClock(rest)
	if !ok {
		return Value{}, false
	}
	b := append(dateTimeOf(day)[:6], dateTimeOf(t)[6:]...)
	if !zoned {
		return Value{kind: DateTime, text: string(b)}, true
	}
	return Value{kind: OffsetDateTime, text: string(withOffset(b, int32(offset)))}, true
}

// Serialized returns a decimal, time or UUID as its serializer writes it: a type id and a payload. ok is false for other kinds.
func (v Value) Serialized() (typ int32, payload []byte, ok bool) {
	b := []byte(v.text)
	date := func(year int32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(year)), rest...)
	}
	switch v.kind {
	case Decimal:
		out := binary.BigEndian.AppendUint32(nil, uint32(len(b)-4))
		out = append(out, b[4:]...)
		if v.width == bigInteger {
			return typeBigInteger, out, true
		}
		return typeBigDecimal, append(out, b[:4]...), true
	case UUID:
		return typeUUID, b, true
	case Instant:
		return typeJavaDate, binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(b)^signOf64), true
	case Time:
		return typeLocalTime, b, true
	case Date:
		return typeLocalDate, date(int32(binary.BigEndian.Uint32(b)^signOf32), b[4:]...), true
	case DateTime:
		return typeLocalDateTime, date(int32(binary.BigEndian.Uint32(b)^signOf32), b[4:]...), true
	case OffsetDateTime:
		t := v.moment()
		_, offset := t.Zone()
		local := dateTimeOf(t)
		out := date(int32(t.Year()), local[4:]...)
		return typeOffsetDateTime, binary.BigEndian.AppendUint32(out, uint32(offset)), true
	}
	return 0, nil, false
}

// TypedOf reads a decimal, time or UUID that a serializer has written, and returns what follows. ok is false if it is none, or bytes are missing.
func TypedOf(typ int32, payload []byte) (v Value, rest []byte, ok bool) {
	return typedValue(typ, payload)
}
