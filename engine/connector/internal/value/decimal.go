package value

import (
	"fmt"
	"strconv"
	"strings"
)

// maxDigits bounds a decimal that is declared without its digits.
const maxDigits = 1000

// decimal checks a decimal and returns its digits as they were, without a plus sign, leading zeros or an exponent: 070.00 gives 70.00, and
// 7E+1 gives 70. Nothing is ever rounded.
func (c *Converter) decimal(s string) (any, error) {
	negative, whole, fraction, ok := splitDecimal(s)
	if !ok {
		return nil, c.bad(s)
	}
	whole = strings.TrimLeft(whole, "0")
	if c.precision > 0 {
		if len(whole) > c.precision-c.scale || len(strings.TrimRight(fraction, "0")) > c.scale {
			return nil, fmt.Errorf("%s does not fit %s", Show(s), c.field.Decl)
		}
	}
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return whole, nil
}

// splitDecimal takes a number apart, with an exponent already applied.
func splitDecimal(s string) (negative bool, whole, fraction string, ok bool) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil || n > maxDigits || n < -maxDigits {
			return false, "", "", false
		}
		mantissa, exponent = s[:i], n
	}
	if mantissa != "" && (mantissa[0] == '-' || mantissa[0] == '+') {
		negative = mantissa[0] == '-'
		mantissa = mantissa[1:]
	}
	whole, fraction, _ = strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > maxDigits {
		return false, "", "", false
	}
	switch point := len(whole) + exponent; {
	case exponent == 0:
	case point <= 0:
		whole, fraction = "", strings.Repeat("0", -point)+digits
	case point >= len(digits):
		whole, fraction = digits+strings.Repeat("0", point-len(digits)), ""
	default:
		whole, fraction = digits[:point], digits[point:]
	}
	return negative, whole, fraction, true
}
