package localfile

import (
	"bytes"
	"io"
	"strings"

	"gridnode/engine/connector/internal/value"
	"gridnode/engine/plugin"
)

// rowReader reads the rows of one file. Its errors name the file and the place.
type rowReader interface {
	// next returns a row, or io.EOF.
	next() (plugin.Row, error)
	// at is the place behind the row that next returned last.
	at() mark
	// resume makes a reader that has just opened f go on at a place that at returned for the same file.
	resume(f io.ReadSeeker, m mark) error
}

// open returns the reader of a file's rows, behind its header.
func (s *Source) open(path string, in io.Reader) (rowReader, error) {
	if s.format.kind == jsonFormat {
		return s.openJSON(path, in)
	}
	l, err := newLines(path, in, s.format.rowDelimiter)
	if err != nil {
		return nil, err
	}
	if s.format.kind == csvFormat {
		l.delimiter = []byte("\n") // CRLF is accepted too
	}
	c := &cellRows{source: s, lines: l, positions: make([]int, len(s.columns)), width: s.width}
	for i, col := range s.columns {
		c.positions[i] = col.index
	}
	c.read = c.textCells
	if s.format.kind == csvFormat {
		c.csv = &csvReader{lines: l, separator: []byte(s.format.fieldDelimiter)}
		c.read = func() ([]cell, int, error) { cells, err := c.csv.record(); return cells, c.csv.start, err }
	}
	for range s.skip {
		if _, _, err := c.read(); err == io.EOF {
			return c, nil
		} else if err != nil {
			return nil, err
		}
	}
	if s.header {
		return c, c.readHeader()
	}
	return c, nil
}

// cellRows makes rows of cells of text.
type cellRows struct {
	source    *Source
	lines     *lines
	csv       *csvReader
	read      func() (cells []cell, line int, err error)
	positions []int // of each column in the file, or -1
	width     int   // columns that a row may have
	cells     []cell
}

// textCells cuts a text line at its delimiters.
func (c *cellRows) textCells() ([]cell, int, error) {
	line, err := c.lines.next()
	if err != nil {
		return nil, 0, err
	}
	line = c.lines.trim(line)
	c.cells = c.cells[:0]
	if c.source.wholeLines {
		return append(c.cells, cell{text: line}), c.lines.number, nil
	}
	separator := []byte(c.source.format.fieldDelimiter)
	for {
		text, rest, found := bytes.Cut(line, separator)
		c.cells = append(c.cells, cell{text: text})
		if !found {
			return c.cells, c.lines.number, nil
		}
		line = rest
	}
}

// readHeader finds the columns by their names in the first line.
func (c *cellRows) readHeader() error {
	cells, line, err := c.read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	at := map[string]int{}
	var names []string
	for i, cell := range cells {
		name := string(cell.text)
		names = append(names, name)
		if _, again := at[name]; again && c.source.schema.Index(name) >= 0 {
			return c.lines.errorf(line, "the header has the column %q twice", name)
		}
		at[name] = i
	}
	found := 0
	for i, col := range c.source.columns {
		c.positions[i] = -1
		if p, ok := at[col.name]; ok {
			c.positions[i] = p
			found++
		}
	}
	if found == 0 {
		return c.lines.errorf(line, "the header has none of the schema's columns; it has %d: %s", len(names), value.Show(strings.Join(names, ", ")))
	}
	c.width = len(cells)
	return nil
}

// next implements rowReader.
func (c *cellRows) next() (plugin.Row, error) {
	for {
		cells, line, err := c.read()
		if err != nil {
			return nil, err
		}
		if blank := len(cells) == 1 && len(cells[0].text) == 0 && !cells[0].quoted; blank && c.width > 1 {
			continue
		}
		if len(cells) > c.width {
			return nil, c.lines.errorf(line, "the row has %d columns, and only %d are known", len(cells), c.width)
		}
		return c.row(cells, line)
	}
}

func (c *cellRows) row(cells []cell, line int) (plugin.Row, error) {
	row := make(plugin.Row, len(c.positions))
	for i, p := range c.positions {
		if p < 0 || p >= len(cells) {
			continue
		}
		col, cell := &c.source.columns[i], cells[p]
		if !cell.quoted && (len(cell.text) == 0 && !col.emptyText || c.source.isNull(cell.text)) {
			continue
		}
		v, err := col.convert.FromText(string(cell.text))
		if err != nil {
			return nil, c.lines.errorf(line, "field %q: %w", col.name, err)
		}
		row[i] = v
	}
	return row, nil
}

func (s *Source) isNull(text []byte) bool {
	return s.format.null != nil && string(text) == *s.format.null
}
