package query

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gridnode/grid"
)

// MaxWhere is the longest where text, in bytes.
const MaxWhere = 1 << 20

// SyntaxError says where a where text is wrong. It wraps grid.ErrBadRequest.
type SyntaxError struct {
	Pos  int // in characters, from 1
	Text string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("where, position %d: %s", e.Pos, e.Text) }

// Unwrap returns the sentinel.
func (e *SyntaxError) Unwrap() error { return grid.ErrBadRequest }

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokName
	tokWord // a keyword, in upper case
	tokValue
	tokSign
)

type token struct {
	kind  tokenKind
	pos   int // byte offset
	text  string
	value Value
}

func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "the end"
	case tokValue:
		return shorten(t.value.String())
	}
	return shorten(t.text)
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

var keywords = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "IN": true, "BETWEEN": true, "LIKE": true, "ILIKE": true, "REGEX": true, "IS": true, "NULL": true,
	"TRUE": true, "FALSE": true,
}

func pathStart(c rune) bool { return c == '_' || c == '$' || unicode.IsLetter(c) }

func pathRune(c rune) bool {
	return pathStart(c) || unicode.IsDigit(c) || c == '.' || c == '[' || c == ']'
}

// lexer cuts a where text into tokens.
type lexer struct {
	src string
	pos int
}

func (l *lexer) errorAt(pos int, format string, args ...any) error {
	return &SyntaxError{Pos: utf8.RuneCountInString(l.src[:pos]) + 1, Text: fmt.Sprintf(format, args...)}
}

func (l *lexer) next() (token, error) {
	l.pos += len(l.src[l.pos:]) - len(strings.TrimLeftFunc(l.src[l.pos:], unicode.IsSpace))
	start := l.pos
	if start == len(l.src) {
		return token{kind: tokEnd, pos: start}, nil
	}
	c, size := utf8.DecodeRuneInString(l.src[start:])
	switch {
	case (c == 'x' || c == 'X') && strings.HasPrefix(l.src[start+1:], "'"):
		l.pos++
		return l.binary(start)
	case pathStart(c):
		name := l.name(start)
		return l.typed(name)
	case c == '"':
		text, err := l.quoted('"')
		return token{kind: tokName, pos: start, text: text}, err
	case c == '\'':
		text, err := l.quoted('\'')
		return token{kind: tokValue, pos: start, value: TextOf(text)}, err
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		return l.number(start)
	}
	for _, sign := range []string{"<=", ">=", "<>", "!=", "==", "<", ">", "=", "(", ")", ","} {
		if strings.HasPrefix(l.src[start:], sign) {
			l.pos += len(sign)
			return token{kind: tokSign, pos: start, text: sign}, nil
		}
	}
	return token{}, l.errorAt(start, "%q has no meaning here", l.src[start:start+size])
}

func (l *lexer) name(start int) token {
	end := strings.IndexFunc(l.src[start:], func(c rune) bool { return !pathRune(c) })
	if end < 0 {
		end = len(l.src) - start
	}
	l.pos = start + end
	text := l.src[start:l.pos]
	switch upper := strings.ToUpper(text); {
	case upper == "TRUE" || upper == "FALSE":
		return token{kind: tokValue, pos: start, value: BoolOf(upper == "TRUE")}
	case upper == "NULL":
		return token{kind: tokValue, pos: start}
	case keywords[upper]:
		return token{kind: tokWord, pos: start, text: upper}
	}
	return token{kind: tokName, pos: start, text: text}
}

var literalWords = map[string]bool{"DECIMAL": true, "DATE": true, "TIME": true, "TIMESTAMP": true, "INSTANT": true, "UUID": true}

// typed is the value that a word and the text in quotes behind it stand for, or the name as it is.
func (l *lexer) typed(name token) (token, error) {
	word := strings.ToUpper(name.text)
	at := l.pos + len(l.src[l.pos:]) - len(strings.TrimLeftFunc(l.src[l.pos:], unicode.IsSpace))
	if name.kind != tokName || !literalWords[word] || !strings.HasPrefix(l.src[at:], "'") {
		return name, nil
	}
	l.pos = at
	text, err := l.quoted('\'')
	if err != nil {
		return token{}, err
	}
	v, err := literal(word, text)
	if err != nil {
		return token{}, l.errorAt(name.pos, "%v", err)
	}
	return token{kind: tokValue, pos: name.pos, value: v}, nil
}

// quoted reads a text in quotes; two of them inside stand for one.
func (l *lexer) quoted(mark byte) (string, error) {
	start := l.pos
	var b strings.Builder
	for i := start + 1; i < len(l.src); i++ {
		if l.src[i] != mark {
			b.WriteByte(l.src[i])
			continue
		}
		if i+1 < len(l.src) && l.src[i+1] == mark {
			b.WriteByte(mark)
			i++
			continue
		}
		l.pos = i + 1
		return b.String(), nil
	}
	return "", l.errorAt(start, "the text that begins here has no closing %c", mark)
}

func (l *lexer) binary(start int) (token, error) {
	text, err := l.quoted('\'')
	if err != nil {
		return token{}, err
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return token{}, l.errorAt(start, "X'...' takes pairs of hexadecimal digits")
	}
	return token{kind: tokValue, pos: start, value: BinaryOf(b)}, nil
}

func (l *lexer) number(start int) (token, error) {
	i := start
	for i < len(l.src) {
		c := l.src[i]
		sign := (c == '-' || c == '+') && (i == start || l.src[i-1] == 'e' || l.src[i-1] == 'E')
		if !sign && c != '.' && (c < '0' || c > '9') && c != 'e' && c != 'E' && c != 'I' && c != 'n' && c != 'f' && c != 'N' && c != 'a' {
			break
		}
		i++
	}
	l.pos = i
	v, ok := numberOf(strings.TrimPrefix(l.src[start:i], "+"))
	if !ok {
		return token{}, l.errorAt(start, "%s is no number", shorten(l.src[start:i]))
	}
	return token{kind: tokValue, pos: start, value: v}, nil
}
