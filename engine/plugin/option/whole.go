package option

import (
	"regexp"
	"strconv"
	"strings"
)

// maxExponent is more than any number of 64 bits needs.
const maxExponent = 400

var numberParts = regexp.MustCompile(`^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?$`)

// Whole returns the digits of a whole number that is written with a fraction of zeros or with an exponent, as JSON lets numbers be: 10.0 and 1e1
// are 10. It works on the digits, so that nothing is rounded. ok is false for a number that is not whole, and for a text that is no number.
func Whole(s string) (digits string, ok bool) {
	m := numberParts.FindStringSubmatch(s)
	if m == nil {
		return "", false
	}
	exponent := 0
	if m[4] != "" {
		var err error
		if exponent, err = strconv.Atoi(m[4]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return "", false
		}
	}
	all, point := m[2]+m[3], len(m[2])+exponent
	if point > len(all) {
		all += strings.Repeat("0", point-len(all))
	}
	point = max(point, 0)
	if strings.Trim(all[point:], "0") != "" {
		return "", false
	}
	if digits = strings.TrimLeft(all[:point], "0"); digits == "" {
		return "0", true
	}
	return m[1] + digits, true
}
