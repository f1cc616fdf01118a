package query

import "fmt"

// Parse reads a where text:
//
//	age >= 18 AND city IN ('a', 'b') AND NOT (name LIKE 'x%' OR name IS NULL)
//
// Words are in any case. AND binds before OR, NOT before both. Comparisons are = (or ==), <> (or !=), <, <=, >, >=, and [NOT] BETWEEN a AND b,
// [NOT] IN (...), [NOT] LIKE, [NOT] ILIKE, [NOT] REGEX, IS [NOT] NULL. An attribute alone stands for attribute = TRUE. Texts are in single
// quotes, attributes with odd characters in double quotes; a quote inside is doubled. An error is a [*SyntaxError], or what [Compile] says.
func Parse(where string) (Predicate, error) {
	p := parser{lexer: lexer{src: where}}
	if len(where) > MaxWhere {
		return Predicate{}, fmt.Errorf("%w", &SyntaxError{Pos: MaxWhere, Text: fmt.Sprintf("longer than %d bytes", MaxWhere)})
	}
	if err := p.advance(); err != nil {
		return Predicate{}, err
	}
	out, err := p.or(1)
	if err != nil {
		return Predicate{}, err
	}
	if p.tok.kind != tokEnd {
		return Predicate{}, p.unexpected("AND, OR or the end")
	}
	if _, err := Compile(out); err != nil {
		return Predicate{}, err
	}
	return out, nil
}

// parser descends with one token ahead.
type parser struct {
	lexer
	tok token
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

func (p *parser) unexpected(want string) error {
	return p.errorAt(p.tok.pos, "found %s, expected %s", p.tok, want)
}

// is reports whether the next token is that word or sign.
func (p *parser) is(text string) bool {
	return (p.tok.kind == tokWord || p.tok.kind == tokSign) && p.tok.text == text
}

// accept takes the next token if it is that word or sign.
func (p *parser) accept(text string) (bool, error) {
	if !p.is(text) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(text string) error {
	ok, err := p.accept(text)
	if err == nil && !ok {
		err = p.unexpected(text)
	}
	return err
}

func (p *parser) or(depth int) (Predicate, error)  { return p.chain("OR", Or, p.and, depth) }
func (p *parser) and(depth int) (Predicate, error) { return p.chain("AND", And, p.not, depth) }

func (p *parser) chain(word string, join func(...Predicate) Predicate, part func(int) (Predicate, error), depth int) (Predicate, error) {
	first, err := part(depth)
	if err != nil || !p.is(word) {
		return first, err
	}
	list := []Predicate{first}
	for p.is(word) {
		if err := p.advance(); err != nil {
			return Predicate{}, err
		}
		next, err := part(depth)
		if err != nil {
			return Predicate{}, err
		}
		list = append(list, next)
	}
	return join(list...), nil
}

func (p *parser) not(depth int) (Predicate, error) {
	if depth > MaxDepth {
		return Predicate{}, p.errorAt(p.tok.pos, "nested deeper than %d", MaxDepth)
	}
	negated, err := p.accept("NOT")
	if err != nil {
		return Predicate{}, err
	}
	if negated {
		inner, err := p.not(depth + 1)
		return Not(inner), err
	}
	open, err := p.accept("(")
	if err != nil {
		return Predicate{}, err
	}
	if open {
		inner, err := p.or(depth + 1)
		if err != nil {
			return Predicate{}, err
		}
		return inner, p.expect(")")
	}
	return p.comparison()
}

var compareOps = map[string]Op{
	"=": OpEqual, "==": OpEqual, "<>": OpNotEqual, "!=": OpNotEqual, "<": OpLess, "<=": OpLessEqual, ">": OpGreater, ">=": OpGreaterEqual,
}

// flipped is the operation with its sides changed.
var flipped = map[Op]Op{OpLess: OpGreater, OpLessEqual: OpGreaterEqual, OpGreater: OpLess, OpGreaterEqual: OpLessEqual}

func (p *parser) comparison() (Predicate, error) {
	left := p.tok
	if left.kind != tokName && left.kind != tokValue {
		return Predicate{}, p.unexpected("an attribute")
	}
	if err := p.advance(); err != nil {
		return Predicate{}, err
	}
	if left.kind == tokName {
		if _, err := parsePath(left.text); err != nil {
			return Predicate{}, p.errorAt(left.pos, "%v", err)
		}
	}
	if p.tok.kind == tokSign && compareOps[p.tok.text] != 0 {
		return p.signed(left)
	}
	if left.kind == tokValue {
		if left.value.kind == Bool {
			if left.value.Bool() {
				return True(), nil
			}
			return False(), nil
		}
		return Predicate{}, p.unexpected("a comparison")
	}
	return p.worded(left.text)
}

// signed reads what follows one side of a comparison by a sign.
func (p *parser) signed(left token) (Predicate, error) {
	op := compareOps[p.tok.text]
	if err := p.advance(); err != nil {
		return Predicate{}, err
	}
	right := p.tok
	switch {
	case left.kind == tokName && right.kind == tokValue:
		return compare(op, left.text, right.value), p.advance()
	case left.kind == tokValue && right.kind == tokName:
		if f := flipped[op]; f != 0 {
			op = f
		}
		return compare(op, right.text, left.value), p.advance()
	case left.kind == tokName && right.kind == tokName:
		return Predicate{}, p.errorAt(right.pos, "two attributes cannot be compared; a text stands in single quotes")
	case left.kind == tokValue && right.kind == tokValue:
		return Predicate{}, p.errorAt(right.pos, "two values cannot be compared; one side has to be an attribute")
	}
	return Predicate{}, p.unexpected("a value")
}

// worded reads what follows an attribute: a word, or nothing.
func (p *parser) worded(attribute string) (Predicate, error) {
	if ok, err := p.accept("IS"); ok || err != nil {
		return p.isNull(attribute, err)
	}
	negated, err := p.accept("NOT")
	if err != nil {
		return Predicate{}, err
	}
	word := p.tok.text
	if p.tok.kind != tokWord || word == "AND" || word == "OR" || word == "NOT" {
		if negated {
			return Predicate{}, p.unexpected("BETWEEN, IN, LIKE, ILIKE or REGEX")
		}
		return EqualTo(attribute, BoolOf(true)), nil
	}
	if err := p.advance(); err != nil {
		return Predicate{}, err
	}
	out, err := p.operation(attribute, word)
	if negated {
		out = Not(out)
	}
	return out, err
}

func (p *parser) operation(attribute, word string) (Predicate, error) {
	switch word {
	case "BETWEEN":
		from, err := p.value()
		if err != nil {
			return Predicate{}, err
		}
		if err := p.expect("AND"); err != nil {
			return Predicate{}, err
		}
		to, err := p.value()
		return Between(attribute, from, to), err
	case "IN":
		list, err := p.list()
		return In(attribute, list...), err
	}
	op := map[string]Op{"LIKE": OpLike, "ILIKE": OpILike, "REGEX": OpRegex}[word]
	if p.tok.kind != tokValue || p.tok.value.kind != Text || op == 0 {
		return Predicate{}, p.unexpected("a pattern in single quotes")
	}
	out := Predicate{Op: op, Attribute: attribute, Pattern: p.tok.value.text}
	if _, err := pattern(out); err != nil {
		return Predicate{}, p.errorAt(p.tok.pos, "%v", err)
	}
	return out, p.advance()
}

func (p *parser) isNull(attribute string, err error) (Predicate, error) {
	if err != nil {
		return Predicate{}, err
	}
	negated, err := p.accept("NOT")
	if err != nil {
		return Predicate{}, err
	}
	if p.tok.kind != tokValue || p.tok.value.kind != Null {
		return Predicate{}, p.unexpected("NULL")
	}
	out := IsNull(attribute)
	if negated {
		out = Not(out)
	}
	return out, p.advance()
}

func (p *parser) value() (Value, error) {
	if p.tok.kind != tokValue {
		return Value{}, p.unexpected("a value")
	}
	v := p.tok.value
	return v, p.advance()
}

func (p *parser) list() ([]Value, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var list []Value
	for !p.is(")") {
		if len(list) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, p.advance()
}
