package value

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"gridnode/engine/plugin"
)

// AppendText appends a value that is not null as text: the shortest digits that give the same number again, bytes as base64.
func AppendText(dst []byte, t plugin.Type, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(dst, v...)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, t, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case []byte:
		return base64.StdEncoding.AppendEncode(dst, v)
	}
	return fmt.Append(dst, v)
}

// AppendJSON appends a value as JSON. A decimal is a number with all its digits; a number that JSON does not have is null.
func AppendJSON(dst []byte, t plugin.Type, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		if t == plugin.Decimal {
			return append(dst, v...)
		}
		return AppendQuoted(dst, v)
	case []byte:
		dst = append(dst, '"')
		return append(base64.StdEncoding.AppendEncode(dst, v), '"')
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(dst, "null"...)
		}
	}
	return AppendText(dst, t, v)
}

// appendFloat writes a number without an exponent, except where that would be unreadably long.
func appendFloat(dst []byte, t plugin.Type, f float64) []byte {
	bits := 64
	if t == plugin.Float {
		bits = 32
	}
	form := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(dst, f, form, -1, bits)
}

// AppendQuoted appends a text as a JSON string, without the escapes that only HTML needs.
func AppendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}
