package localfile

import (
	"bytes"
	"fmt"
	"strings"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// quoteMode says which CSV texts are quoted.
type quoteMode string

const (
	quoteMinimal quoteMode = "MINIMAL" // those that need it, and empty ones, which without quotes would be null
	quoteAll     quoteMode = "ALL"
	quoteNone    quoteMode = "NONE" // none: empty becomes null, and one that needs quotes is an error
)

func readQuoteMode(r *option.Reader) quoteMode {
	return quoteMode(r.Choice("csv_string_quote_mode", string(quoteMinimal), string(quoteMinimal), string(quoteAll), string(quoteNone)))
}

// encoder turns the rows of one schema into the bytes of a file.
type encoder struct {
	format fileFormat
	quote  quoteMode
	fields []plugin.Field
	from   []int // of each field in a row
	keys   [][]byte
}

func (s *Sink) newEncoder(schema plugin.Schema) (*encoder, error) {
	e := &encoder{format: s.format, quote: s.quote, fields: schema.Fields}
	if s.columns != nil {
		from, err := value.Columns(schema, s.columns)
		if err != nil {
			return nil, plugin.Permanentf("option \"sink_columns\" %w", err)
		}
		e.from, e.fields = from, nil
		for _, i := range from {
			e.fields = append(e.fields, schema.Fields[i])
		}
	} else {
		for i := range schema.Fields {
			e.from = append(e.from, i)
		}
	}
	for _, f := range e.fields {
		e.keys = append(e.keys, append(value.AppendQuoted(nil, f.Name), ':'))
	}
	return e, nil
}

// header appends the line of the fields' names.
func (e *encoder) header(dst []byte) ([]byte, error) {
	start := len(dst)
	for i, f := range e.fields {
		var err error
		if dst, err = e.cell(dst, i, plugin.Field{Name: f.Name, Type: plugin.String}, f.Name); err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
	}
	return e.endLine(dst, start)
}

// row appends a row. An error names the field.
func (e *encoder) row(dst []byte, row plugin.Row) ([]byte, error) {
	start := len(dst)
	for i, f := range e.fields {
		if e.from[i] >= len(row) {
			return nil, fmt.Errorf("the row has %d values; field %q is number %d", len(row), f.Name, e.from[i]+1)
		}
		v := row[e.from[i]]
		if s, ok := v.(string); ok && e.format.formats.Has(f.Type) {
			text, err := e.format.formats.Write(f.Type, s)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
			v = text
		}
		if e.format.kind == jsonFormat {
			dst = append(dst, "{,"[min(i, 1)])
			dst = value.AppendJSON(append(dst, e.keys[i]...), f.Type, v)
			continue
		}
		var err error
		if dst, err = e.cell(dst, i, f, v); err != nil {
			return nil, err
		}
	}
	if e.format.kind == jsonFormat {
		dst = append(dst, '}')
	}
	return e.endLine(dst, start)
}

// cell appends the i-th value of a CSV or text line, with the delimiter in front.
func (e *encoder) cell(dst []byte, i int, f plugin.Field, v any) ([]byte, error) {
	if i > 0 {
		dst = append(dst, e.format.fieldDelimiter...)
	}
	if v == nil {
		if e.format.null != nil {
			dst = append(dst, *e.format.null...)
		}
		return dst, nil
	}
	start := len(dst)
	dst = value.AppendText(dst, f.Type, v)
	text := dst[start:]
	if e.format.kind == textFormat {
		return dst, e.checkText(f, text)
	}
	return e.quoteCell(dst, start, f)
}

// quoteCell puts quotes around the text from start on, if it takes them.
func (e *encoder) quoteCell(dst []byte, start int, f plugin.Field) ([]byte, error) {
	text := dst[start:]
	needed := e.needsQuotes(text)
	switch {
	case e.quote == quoteNone && needed && len(text) > 0:
		return nil, fmt.Errorf("field %q: %s cannot be written without quotes", f.Name, value.Show(string(text)))
	case e.quote == quoteNone, !needed && (e.quote != quoteAll || f.Type != plugin.String):
		return dst, nil
	}
	inner := bytes.ReplaceAll(text, []byte(`"`), []byte(`""`))
	dst = append(dst[:start], '"')
	return append(append(dst, inner...), '"'), nil
}

func (e *encoder) needsQuotes(text []byte) bool {
	return len(text) == 0 || text[0] == ' ' || bytes.ContainsAny(text, "\"\r\n") || bytes.IndexByte(text, e.format.fieldDelimiter[0]) >= 0 ||
		e.format.null != nil && string(text) == *e.format.null || bytes.HasPrefix(text, []byte(byteOrderMark))
}

// checkText refuses a text that, without quotes, would be read as something else.
func (e *encoder) checkText(f plugin.Field, text []byte) error {
	reason := ""
	switch {
	case e.format.null != nil && string(text) == *e.format.null:
		reason = "it stands for null"
	case firstAt(text, e.format.fieldDelimiter) != len(text):
		reason = "it has the field delimiter in it"
	case firstAt(text, e.format.rowDelimiter) != len(text):
		reason = "it has the row delimiter in it"
	case bytes.HasPrefix(text, []byte(byteOrderMark)):
		reason = "it begins with a byte order mark"
	default:
		return nil
	}
	return fmt.Errorf("field %q: %s cannot be written as text: %s", f.Name, value.Show(string(text)), reason)
}

// firstAt returns where a delimiter would be found first if it followed the text.
func firstAt(text []byte, delimiter string) int {
	if len(delimiter) == 1 {
		if i := bytes.IndexByte(text, delimiter[0]); i >= 0 {
			return i
		}
		return len(text)
	}
	return strings.Index(string(text)+delimiter, delimiter)
}

func (e *encoder) endLine(dst []byte, start int) ([]byte, error) {
	if e.format.kind == textFormat && e.format.rowDelimiter == "\n" && bytes.HasSuffix(dst[start:], []byte("\r")) {
		return nil, fmt.Errorf("a line that ends with a carriage return cannot be written as text")
	}
	return append(dst, e.format.rowDelimiter...), nil
}
