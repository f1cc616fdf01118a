package value

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gridnode/engine/plugin"
	"gridnode/engine/plugin/option"
)

// Converter turns texts and JSON into the values of one field.
type Converter struct {
	field            plugin.Field
	precision, scale int // of a decimal; 0, 0: any
	formats          Formats
}

// NewConverter returns the converter of a field.
func NewConverter(f plugin.Field, formats Formats) *Converter {
	c := &Converter{field: f, formats: formats}
	c.precision, c.scale = Precision(f)
	return c
}

// FromText returns the value that a text stands for. An empty text is a value of strings and bytes only. The error shows the text.
func (c *Converter) FromText(s string) (any, error) {
	switch t := c.field.Type; t {
	case plugin.String:
		return s, nil
	case plugin.Boolean:
		switch {
		case strings.EqualFold(s, "true"):
			return true, nil
		case strings.EqualFold(s, "false"):
			return false, nil
		}
		return nil, c.bad(s)
	case plugin.TinyInt, plugin.SmallInt, plugin.Int, plugin.BigInt:
		n, err := strconv.ParseInt(s, 10, Bits(t))
		if errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%s is out of the range of %s", Show(s), t)
		}
		if err != nil {
			return nil, c.bad(s)
		}
		return n, nil
	case plugin.Float, plugin.Double:
		return c.float(s)
	case plugin.Decimal:
		return c.decimal(s)
	case plugin.Bytes:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("%s is not base64, the form of bytes", Show(s))
		}
		return b, nil
	default:
		return c.formats.Read(t, s)
	}
}

// FromJSON returns the value that one JSON value stands for. A text may hold a number; a string field takes any JSON value, as its text.
func (c *Converter) FromJSON(raw []byte) (any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("there is no value")
	}
	switch raw[0] {
	case 'n':
		return nil, nil
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return c.FromText(s)
	case '{', '[':
		if c.field.Type != plugin.String {
			return nil, c.bad(string(raw))
		}
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return nil, err
		}
		return b.String(), nil
	}
	return c.fromScalar(string(raw))
}

// fromScalar converts a JSON number, true or false.
func (c *Converter) fromScalar(s string) (any, error) {
	isBool := s == "true" || s == "false"
	switch t := c.field.Type; t {
	case plugin.String:
		return s, nil
	case plugin.Boolean:
		if !isBool {
			return nil, c.bad(s)
		}
		return s == "true", nil
	case plugin.TinyInt, plugin.SmallInt, plugin.Int, plugin.BigInt:
		if digits, whole := option.Whole(s); whole {
			s = digits
		}
		return c.FromText(s)
	case plugin.Float, plugin.Double, plugin.Decimal:
		if isBool {
			return nil, c.bad(s)
		}
		return c.FromText(s)
	}
	return nil, c.bad(s)
}

// Bits returns the size of an integer type.
func Bits(t plugin.Type) int {
	switch t {
	case plugin.TinyInt:
		return 8
	case plugin.SmallInt:
		return 16
	case plugin.Int:
		return 32
	}
	return 64
}

func (c *Converter) float(s string) (any, error) {
	bits := 64
	if c.field.Type == plugin.Float {
		bits = 32
	}
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" { // no hexadecimal, no infinity, no NaN: JSON has none of them either
		return nil, c.bad(s)
	}
	f, err := strconv.ParseFloat(s, bits)
	if errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("%s is out of the range of %s", Show(s), c.field.Type)
	}
	if err != nil {
		return nil, c.bad(s)
	}
	return f, nil
}

func (c *Converter) bad(s string) error {
	return fmt.Errorf("%s is not a value of type %s", Show(s), c.field.Decl)
}

// Show quotes a text for an error message, cut to a readable length.
func Show(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
}
