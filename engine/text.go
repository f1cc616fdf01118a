package engine

import "unicode/utf8"

// shorten cuts a text to at most limit bytes, at the end of a character, and says so.
func shorten(s string, limit int) string {
	const more = " [...]"
	if len(s) <= limit {
		return s
	}
	cut := max(limit-len(more), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}
