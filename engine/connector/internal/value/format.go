package value

import (
	"fmt"
	"strings"
	"time"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Formats are the forms of dates and times as texts. The zero value is the default: yyyy-MM-dd, HH:mm:ss and both with a blank or a T
// between them, each time with or without a fraction of a second.
type Formats struct {
	date, time, timestamp *layout // nil: the default
}

// layout is one Java date pattern as Go knows it.
type layout struct {
	pattern string
	layouts []string
	exact   bool // the text must be what the layout itself would write, so no digit may lack
}

var (
	defaultDate      = &layout{pattern: "yyyy-MM-dd", layouts: []string{time.DateOnly}, exact: true}
	defaultTime      = &layout{pattern: "HH:mm:ss", layouts: []string{time.TimeOnly}}
	defaultTimestamp = &layout{pattern: "yyyy-MM-dd HH:mm:ss", layouts: []string{time.DateTime, "2006-01-02T15:04:05"}}
)

// ReadFormats reads the options date_format, time_format and datetime_format.
func ReadFormats(r *option.Reader) Formats {
	return Formats{
		date:      readFormat(r, "date_format"),
		time:      readFormat(r, "time_format"),
		timestamp: readFormat(r, "datetime_format"),
	}
}

// Any says whether any format was given.
func (f Formats) Any() bool { return f.date != nil || f.time != nil || f.timestamp != nil }

// Check returns an error if a text is not a date, time or timestamp of these formats. For other types there is nothing to check.
func (f Formats) Check(t plugin.Type, text string) error {
	var l *layout
	switch t {
	case plugin.Date:
		l = or(f.date, defaultDate)
	case plugin.Time:
		l = or(f.time, defaultTime)
	case plugin.Timestamp:
		l = or(f.timestamp, defaultTimestamp)
	default:
		return nil
	}
	for _, form := range l.layouts {
		v, err := time.Parse(form, text)
		if err == nil && (!l.exact || v.Format(form) == text) {
			return nil
		}
	}
	return fmt.Errorf("%s is not a %s of the form %s", Show(text), t, l.pattern)
}

func or(l, def *layout) *layout {
	if l != nil {
		return l
	}
	return def
}

func readFormat(r *option.Reader, name string) *layout {
	pattern := r.String(name, "")
	if pattern == "" {
		return nil
	}
	form, exact, err := goLayout(pattern)
	if err != nil {
		r.Fail(name, "is %q: %s", pattern, err)
	}
	return &layout{pattern: pattern, layouts: []string{form}, exact: exact}
}

// letters maps the letters of Java date patterns to Go's layouts.
var letters = map[string]string{
	"yyyy": "2006", "yy": "06", "uuuu": "2006", "MM": "01", "M": "1", "MMM": "Jan", "MMMM": "January", "dd": "02", "d": "2", "HH": "15",
	"H": "15", "hh": "03", "h": "3", "mm": "04", "m": "4", "ss": "05", "s": "5", "a": "PM", "EEE": "Mon", "EEEE": "Monday",
	"XXX": "Z07:00", "Z": "-0700", "DDD": "002",
}

// Layout translates a Java date pattern, such as yyyy.MM.dd, to what [time.Time.Format] takes.
func Layout(pattern string) (string, error) {
	form, _, err := goLayout(pattern)
	return form, err
}

// goLayout translates a Java date pattern. exact is false where Go reads more forms than it writes.
func goLayout(pattern string) (form string, exact bool, err error) {
	var b strings.Builder
	exact = true
	for rest := pattern; rest != ""; {
		token, text := nextToken(rest)
		rest = rest[len(token):]
		if text != "" {
			if err := literal(&b, text); err != nil {
				return "", false, err
			}
			continue
		}
		part := letters[token]
		if token[0] == 'S' && len(token) <= 9 && strings.HasSuffix(b.String(), ".") {
			part = strings.Repeat("0", len(token))
		}
		if part == "" {
			return "", false, fmt.Errorf("%q is not supported", token)
		}
		exact = exact && token != "H"
		b.WriteString(part)
	}
	return b.String(), exact, nil
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

// literal adds text that stands for itself. Digits and words that mean something in Go's layouts are refused.
func literal(b *strings.Builder, text string) error {
	if strings.ContainsAny(text, "0123456789_") || len(text) > 1 && probe.Format(text) != text {
		return fmt.Errorf("the text %q in it is not supported", text)
	}
	b.WriteString(text)
	return nil
}
