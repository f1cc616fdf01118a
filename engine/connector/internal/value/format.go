package value

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Formats are the forms of dates and times as texts. The zero value is the default: yyyy-MM-dd, HH:mm:ss and both with a blank or a T
// between them, each time with or without a fraction of a second. Rows hold the default forms, whatever the form in a file is, so that what one
// connector has read another can write in a form of its own. The exception are patterns that say less or more than a value of their type is,
// such as one without a year or with a zone: texts of such a form stay as they are.
type Formats struct {
	date, time, timestamp *layout // nil: the default
}

// layout is one Java date pattern as Go knows it.
type layout struct {
	pattern  string
	layouts  []string // to read with
	exact    bool     // the text must be what the layout itself would write, so no digit may lack
	write    string   // the first layout, with hourMark for an hour without a leading zero, which Go's layouts do not have
	fraction int      // digits of a second
	inRows   string   // the layout that rows hold; "": the text as it is
}

const hourMark = "\ue000"

func (l *layout) format(v time.Time) string {
	return strings.ReplaceAll(v.Format(l.write), hourMark, strconv.Itoa(v.Hour()))
}

var (
	defaultDate      = &layout{pattern: "yyyy-MM-dd", layouts: []string{time.DateOnly}, exact: true}
	defaultTime      = &layout{pattern: "HH:mm:ss", layouts: []string{time.TimeOnly}}
	defaultTimestamp = &layout{pattern: "yyyy-MM-dd HH:mm:ss", layouts: []string{time.DateTime, "2006-01-02T15:04:05"}}
)

// ReadFormats reads the options date_format, time_format and datetime_format.
func ReadFormats(r *option.Reader) Formats {
	return Formats{
		date:      readFormat(r, "date_format", plugin.Date),
		time:      readFormat(r, "time_format", plugin.Time),
		timestamp: readFormat(r, "datetime_format", plugin.Timestamp),
	}
}

// given returns the format of a type, or nil if there is none but the default.
func (f Formats) given(t plugin.Type) *layout {
	switch t {
	case plugin.Date:
		return f.date
	case plugin.Time:
		return f.time
	case plugin.Timestamp:
		return f.timestamp
	}
	return nil
}

// defaultOf returns the default format of a type that has one, or nil.
func defaultOf(t plugin.Type) *layout {
	switch t {
	case plugin.Date:
		return defaultDate
	case plugin.Time:
		return defaultTime
	case plugin.Timestamp:
		return defaultTimestamp
	}
	return nil
}

// Has says whether a format was given for a type.
func (f Formats) Has(t plugin.Type) bool { return f.given(t) != nil }

// Read returns what rows hold for a date, time or timestamp of these formats, or an error if the text is none. Texts of other types are
// returned as they are.
func (f Formats) Read(t plugin.Type, text string) (string, error) {
	l := f.given(t)
	if l == nil {
		l = defaultOf(t)
	}
	if l == nil {
		return text, nil
	}
	v, err := l.parse(t, text)
	if err != nil || l.inRows == "" {
		return text, err
	}
	return v.Format(l.inRows), nil
}

// Write returns the text in these formats of what rows hold.
func (f Formats) Write(t plugin.Type, text string) (string, error) {
	l := f.given(t)
	switch {
	case l == nil:
		return text, nil
	case l.inRows == "":
		_, err := l.parse(t, text)
		return text, err
	}
	v, err := defaultOf(t).parse(t, text)
	if err != nil {
		return "", fmt.Errorf("%w, and cannot be written as %s", err, l.pattern)
	}
	return l.format(v), nil
}

func (l *layout) parse(t plugin.Type, text string) (time.Time, error) {
	for _, form := range l.layouts {
		v, err := time.Parse(form, text)
		if err == nil && (!l.exact || v.Format(form) == text || l.format(v) == text) {
			return v, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is not a %s of the form %s", Show(text), t, l.pattern)
}

func readFormat(r *option.Reader, name string, t plugin.Type) *layout {
	pattern := r.String(name, "")
	if pattern == "" {
		return nil
	}
	l, err := newLayout(pattern)
	if err != nil {
		r.Fail(name, "is %q: %s", pattern, err)
		return nil
	}
	if inRows := l.defaultForm(t); l.saysAll(inRows) {
		l.inRows = inRows
	}
	return l
}

// defaultForm returns the default layout of a type, with the fraction of a second that l has.
func (l *layout) defaultForm(t plugin.Type) string {
	form := defaultOf(t).layouts[0]
	if t != plugin.Date && l.fraction > 0 {
		form += "." + strings.Repeat("0", l.fraction)
	}
	return form
}

// complete is a time of which a part shows if a layout lacks it, but for the seconds. Its zone shows if a layout has one.
var complete = time.Date(2012, time.December, 25, 15, 59, 0, 0, time.FixedZone("", 5400))

// saysAll says whether texts of this layout and of another one can be made of each other.
func (l *layout) saysAll(other string) bool {
	text := l.format(complete)
	v, err := time.Parse(l.layouts[0], text)
	if err != nil || v.Format(other) != complete.Format(other) {
		return false
	}
	back, err := time.Parse(other, v.Format(other))
	return err == nil && l.format(back) == text
}

// letters maps the letters of Java date patterns to Go's layouts.
var letters = map[string]string{
	"yyyy": "2006", "yy": "06", "uuuu": "2006", "MM": "01", "M": "1", "MMM": "Jan", "MMMM": "January", "dd": "02", "d": "2", "HH": "15",
	"H": "15", "hh": "03", "h": "3", "mm": "04", "m": "4", "ss": "05", "s": "5", "a": "PM", "EEE": "Mon", "EEEE": "Monday",
	"XXX": "Z07:00", "Z": "-0700", "DDD": "002",
}

// Layout translates a Java date pattern, such as yyyy.MM.dd, to what [time.Time.Format] takes.
func Layout(pattern string) (string, error) {
	l, err := newLayout(pattern)
	if err != nil {
		return "", err
	}
	return l.layouts[0], nil
}

// newLayout translates a Java date pattern.
func newLayout(pattern string) (*layout, error) {
	var b, write strings.Builder
	l := &layout{pattern: pattern, exact: true}
	for rest := pattern; rest != ""; {
		token, text := nextToken(rest)
		rest = rest[len(token):]
		if text != "" {
			if err := checkLiteral(text); err != nil {
				return nil, err
			}
			b.WriteString(text)
			write.WriteString(text)
			continue
		}
		part := letters[token]
		if token[0] == 'S' && len(token) <= 9 && strings.HasSuffix(b.String(), ".") {
			part, l.fraction = strings.Repeat("0", len(token)), len(token)
		}
		if part == "" {
			return nil, fmt.Errorf("%q is not supported", token)
		}
		b.WriteString(part)
		if token == "H" {
			part = hourMark
		}
		write.WriteString(part)
	}
	l.layouts, l.write = []string{b.String()}, write.String()
	return l, nil
}

// nextToken cuts a run of one letter, a quoted text or one other character off a pattern. text is what stands for itself, and empty for
// letters and for a quote that is not closed.
func nextToken(s string) (token, text string) {
	switch c := s[0]; {
	case c == '\'':
		end := strings.IndexByte(s[1:], '\'')
		switch end {
		case -1:
			return s, ""
		case 0:
			return s[:2], "'"
		}
		return s[:end+2], s[1 : end+1]
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		rest := strings.TrimLeft(s, s[:1])
		return s[:len(s)-len(rest)], ""
	}
	return s[:1], s[:1]
}

// probe is a time that no layout element writes as the element itself.
var probe = time.Date(2012, time.December, 25, 3, 59, 58, 0, time.UTC)

// checkLiteral refuses, of text that stands for itself, digits and words that mean something in Go's layouts.
func checkLiteral(text string) error {
	if strings.ContainsAny(text, "0123456789_") || len(text) > 1 && probe.Format(text) != text {
		return fmt.Errorf("the text %q in it is not supported", text)
	}
	return nil
}
