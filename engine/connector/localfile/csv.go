package localfile

import (
	"bytes"
	"errors"
	"io"
)

// cell is one field of a CSV or text row.
type cell struct {
	text   []byte
	quoted bool
}

// csvReader cuts CSV lines into records as RFC 4180 has it, and tells quoted fields from others. The delimiter may be longer than one byte, and
// a quote within an unquoted field is an ordinary character.
type csvReader struct {
	*lines
	separator []byte
	start     int    // the line where the record begins
	raw, body []byte // the current line, with and without its end
	pos       int    // in both
	text      []byte // the texts of all fields
	ends      []int  // where each field ends in text
	quoted    []bool
	cells     []cell
}

// record returns the fields of the next record, or io.EOF. They are valid until the following call.
func (c *csvReader) record() ([]cell, error) {
	c.text, c.ends, c.quoted, c.cells = c.text[:0], c.ends[:0], c.quoted[:0], c.cells[:0]
	if err := c.line(); err != nil {
		return nil, err
	}
	c.start = c.number
	for more := true; more; {
		var err error
		if more, err = c.field(); err != nil {
			return nil, err
		}
	}
	begin := 0
	for i, end := range c.ends {
		c.cells = append(c.cells, cell{text: c.text[begin:end], quoted: c.quoted[i]})
		begin = end
	}
	return c.cells, nil
}

func (c *csvReader) line() error {
	raw, err := c.next()
	if err != nil {
		return err
	}
	c.raw, c.body, c.pos = raw, c.trim(raw), 0
	return nil
}

// field reads one field and says whether another follows it.
func (c *csvReader) field() (more bool, err error) {
	rest := c.body[c.pos:]
	quoted := len(rest) > 0 && rest[0] == '"'
	if quoted {
		if err := c.quotedText(); err != nil {
			return false, err
		}
	} else {
		n := bytes.Index(rest, c.separator)
		if n < 0 {
			n = len(rest)
		}
		c.text = append(c.text, rest[:n]...)
		c.pos += n
	}
	c.ends = append(c.ends, len(c.text))
	c.quoted = append(c.quoted, quoted)
	rest = c.body[min(c.pos, len(c.body)):]
	switch {
	case len(rest) == 0:
		return false, nil
	case bytes.HasPrefix(rest, c.separator):
		c.pos += len(c.separator)
		return true, nil
	}
	return false, c.errorf(c.number, "column %d: there is text behind the closing quote", len(c.ends))
}

// quotedText reads a quoted field, over as many lines as it takes, up to its closing quote.
func (c *csvReader) quotedText() error {
	opened := c.number
	for c.pos++; ; {
		n := bytes.IndexByte(c.raw[c.pos:], '"')
		if n >= 0 {
			c.text = append(c.text, c.raw[c.pos:c.pos+n]...)
			c.pos += n + 1
			if c.pos >= len(c.raw) || c.raw[c.pos] != '"' {
				return nil
			}
			c.text = append(c.text, '"')
			c.pos++
			continue
		}
		c.text = append(c.text, c.raw[c.pos:]...)
		if len(c.text) > maxRecord {
			return c.errorf(opened, "the row is longer than %d bytes; is a quote not closed?", maxRecord)
		}
		if err := c.line(); errors.Is(err, io.EOF) {
			return c.errorf(opened, "column %d: the quote is not closed", len(c.ends)+1)
		} else if err != nil {
			return err
		}
	}
}
