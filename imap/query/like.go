package query

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// like is a pattern of LIKE: runs of characters, with anything between them.
type like struct {
	runs  [][]rune // oneOf in a run stands for any one character
	plain []string // the run as text, where no oneOf is in it
}

const oneOf rune = -1

// newLike reads a pattern. Backslashes stand for themselves, as in Hazelcast, except those right before a % or _: of these two are one, and the
// last of an odd number takes the meaning from what follows.
func newLike(pattern string) like {
	l := like{runs: [][]rune{nil}}
	add := func(list ...rune) { l.runs[len(l.runs)-1] = append(l.runs[len(l.runs)-1], list...) }
	slashes := 0 // that have been read and not added
	for _, c := range pattern {
		special := c == '%' || c == '_'
		escaped := special && slashes%2 == 1
		switch {
		case c == '\\':
			slashes++
			continue
		case special:
			slashes /= 2
		}
		add(slices.Repeat([]rune{'\\'}, slashes)...)
		slashes = 0
		switch {
		case c == '%' && !escaped:
			l.runs = append(l.runs, nil)
		case c == '_' && !escaped:
			add(oneOf)
		default:
			add(c)
		}
	}
	add(slices.Repeat([]rune{'\\'}, slashes)...)
	for _, run := range l.runs {
		text := ""
		if !strings.ContainsRune(string(run), utf8.RuneError) {
			text = string(run)
		}
		l.plain = append(l.plain, text)
	}
	return l
}

// at returns the length of the run at the start of s; below 0 if it is not there.
func at(s string, run []rune) int {
	n := 0
	for _, c := range run {
		if n >= len(s) {
			return -1
		}
		got, size := utf8.DecodeRuneInString(s[n:])
		if c != oneOf && c != got {
			return -1
		}
		n += size
	}
	return n
}

// find returns where the run first begins in s, and its length there.
func (l like) find(s string, i int) (start, size int) {
	if text := l.plain[i]; text != "" || len(l.runs[i]) == 0 {
		return strings.Index(s, text), len(text)
	}
	for start = 0; start <= len(s); {
		if n := at(s[start:], l.runs[i]); n >= 0 {
			return start, n
		}
		_, step := utf8.DecodeRuneInString(s[start:])
		start += max(step, 1)
	}
	return -1, 0
}

// match takes each run where it first fits, which leaves the most for those behind it; the last has to fit at the end.
func (l like) match(s string) bool {
	n := at(s, l.runs[0])
	last := len(l.runs) - 1
	if n < 0 || last == 0 {
		return n == len(s)
	}
	s = s[n:]
	for i := 1; i < last; i++ {
		start, size := l.find(s, i)
		if start < 0 {
			return false
		}
		s = s[start+size:]
	}
	tail := s
	for range utf8.RuneCountInString(s) - len(l.runs[last]) {
		_, size := utf8.DecodeRuneInString(tail)
		tail = tail[size:]
	}
	return at(tail, l.runs[last]) == len(tail)
}

// prefix is the text that all that fits begins with.
func (l like) prefix() string {
	run := l.runs[0]
	for i, c := range run {
		if c == oneOf || c == utf8.RuneError {
			return string(run[:i])
		}
	}
	return string(run)
}
