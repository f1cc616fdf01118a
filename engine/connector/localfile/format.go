// Package localfile holds the source and the sink LocalFile: text, CSV and JSON files on a member's file system.
package localfile

import (
	"slices"
	"strconv"
	"strings"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin/option"
)

// The forms of a file.
const (
	textFormat = "text"
	csvFormat  = "csv"
	jsonFormat = "json"
)

const (
	byteOrderMark    = "\xef\xbb\xbf"
	defaultDelimiter = "\x01" // of text fields
	defaultNull      = `\N`   // in text
)

// fileFormat is what source and sink must agree on to understand a file in the same way.
type fileFormat struct {
	kind           string
	fieldDelimiter string
	rowDelimiter   string
	null           *string // the text that stands for null; nil: none
	formats        value.Formats
}

// readFormat reads the options of a format. def is the default of file_format_type; "" makes it required.
func readFormat(r *option.Reader, def string) fileFormat {
	if def == "" {
		r.Need("file_format_type")
	}
	f := fileFormat{kind: r.Choice("file_format_type", def, textFormat, csvFormat, jsonFormat), formats: value.ReadFormats(r)}
	r.Alias("field_delimiter", "delimiter")
	f.fieldDelimiter = unescape(r.Text("field_delimiter", f.defaultFieldDelimiter()))
	f.rowDelimiter = unescape(r.Text("row_delimiter", "\n"))
	if r.Has("null_format") {
		null := r.Text("null_format", "")
		f.null = &null
	} else if f.kind == textFormat {
		null := defaultNull
		f.null = &null
	}
	r.Choice("encoding", "UTF-8", "UTF-8", "UTF8")
	r.Choice("compress_codec", "none", "none")
	f.check(r)
	return f
}

func (f fileFormat) defaultFieldDelimiter() string {
	if f.kind == csvFormat {
		return ","
	}
	return defaultDelimiter
}

// check finds delimiters that make a file ambiguous, and options that the format has no use for.
func (f fileFormat) check(r *option.Reader) {
	if f.kind == jsonFormat {
		for _, name := range []string{"field_delimiter", "null_format"} {
			if r.Has(name) {
				r.Fail(name, "has no effect when \"file_format_type\" is \"json\"")
			}
		}
	}
	if f.kind != textFormat && f.rowDelimiter != "\n" && f.rowDelimiter != "\r\n" {
		r.Fail("row_delimiter", "must be \\n or \\r\\n when \"file_format_type\" is %q", f.kind)
	}
	switch {
	case f.fieldDelimiter == "":
		r.Fail("field_delimiter", "is empty")
	case f.rowDelimiter == "":
		r.Fail("row_delimiter", "is empty")
	case f.kind == csvFormat && strings.ContainsAny(f.fieldDelimiter, "\"\r\n"):
		r.Fail("field_delimiter", "must not have a quote or a line break in it")
	case strings.Contains(f.fieldDelimiter, f.rowDelimiter) || strings.Contains(f.rowDelimiter, f.fieldDelimiter):
		r.Fail("field_delimiter", "and \"row_delimiter\" must not contain each other")
	}
	if f.null == nil {
		return
	}
	if n := *f.null; strings.Contains(n, f.fieldDelimiter) || strings.Contains(n, f.rowDelimiter) || f.kind == csvFormat && strings.ContainsAny(n, "\"\r\n") {
		r.Fail("null_format", "is %q; it must not have a delimiter or a quote in it", n)
	}
}

// unescape reads the escapes \t, \n, \r, \\, \ooo (octal), \xhh and \uhhhh, which configs use for delimiters. Any other backslash stands for
// itself.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		text, n := escape(s[i+1:])
		b.WriteString(text)
		i += 1 + n
	}
	return b.String()
}

// escape reads what stands behind a backslash: the text that is meant, and how many bytes say so.
func escape(s string) (text string, length int) {
	if s == "" {
		return `\`, 0
	}
	simple := map[byte]string{'t': "\t", 'n': "\n", 'r': "\r", '\\': `\`}
	if t, ok := simple[s[0]]; ok {
		return t, 1
	}
	digits, base, skip := 3, 8, 0
	switch s[0] {
	case 'x':
		digits, base, skip = 2, 16, 1
	case 'u':
		digits, base, skip = 4, 16, 1
	}
	if len(s) < skip+digits {
		return `\`, 0
	}
	n, err := strconv.ParseUint(s[skip:skip+digits], base, 16)
	if err != nil || n > 0x7f && s[0] != 'u' {
		return `\`, 0
	}
	return string(rune(n)), skip + digits
}

// dotted returns a file name's extension with a dot in front.
func dotted(extension string) string {
	if extension == "" || strings.HasPrefix(extension, ".") {
		return extension
	}
	return "." + extension
}

// only notes an error if an option is given although the format is not one of those that have a use for it.
func (f fileFormat) only(r *option.Reader, name string, kinds ...string) {
	if r.Has(name) && !slices.Contains(kinds, f.kind) {
		r.Fail(name, "has no effect when \"file_format_type\" is %q", f.kind)
	}
}
