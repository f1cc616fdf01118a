package query

// span is a set of values of one attribute: those worth one of eq, or, without eq, those between two bounds of one class.
type span struct {
	eq       []Value
	low, top Value // null: no bound
	class    Kind
}

// Plan is a way to find all entries that a predicate can hold for. It may find more.
type Plan struct {
	ix    *Index
	cost  int
	parts []*Plan // of an OR: all of them
	spans []span  // for the first attributes of ix
}

// Costs order plans when there is a choice; they are ranks, not figures.
const (
	costHash = iota + 1
	costSortedAll
	costSortedSome
	costIn
	costRange
	costOr
)

// NewPlan returns the best plan to find what m can hold for by the indexes, or nil if they do not help.
func NewPlan(m *Matcher, indexes []*Index) *Plan {
	if len(indexes) == 0 {
		return nil
	}
	return planOf(m.p, indexes)
}

func planOf(p Predicate, indexes []*Index) *Plan {
	switch p.Op {
	case OpAnd:
		return planAnd(p.Args, indexes)
	case OpOr:
		return planOr(p.Args, indexes)
	}
	return planAnd([]Predicate{p}, indexes)
}

func planOr(args []Predicate, indexes []*Index) *Plan {
	out := &Plan{cost: costOr}
	for _, a := range args {
		part := planOf(a, indexes)
		if part == nil {
			return nil
		}
		out.parts = append(out.parts, part)
		out.cost = max(out.cost, costOr+part.cost)
	}
	return out
}

// planAnd uses the index that narrows best: for an AND, what any one of its conditions leaves is enough.
func planAnd(args []Predicate, indexes []*Index) *Plan {
	spans := map[string]span{}
	var best *Plan
	for _, a := range args {
		if a.Op == OpAnd || a.Op == OpOr {
			best = cheaper(best, planOf(a, indexes))
			continue
		}
		s, ok := spanOf(a)
		if !ok {
			continue
		}
		if had, ok := spans[a.Attribute]; !ok || len(had.eq) == 0 && len(s.eq) > 0 {
			spans[a.Attribute] = s
		} else if len(had.eq) == 0 && len(s.eq) == 0 && had.class == s.class && !hasAny(a.Attribute) {
			spans[a.Attribute] = had.and(s)
		}
	}
	for _, ix := range indexes {
		best = cheaper(best, ix.plan(spans))
	}
	return best
}

// hasAny reports whether two conditions on the attribute may be met by two different values of it.
func hasAny(path string) bool {
	a, err := parsePath(path)
	return err != nil || a.multi
}

func cheaper(a, b *Plan) *Plan {
	if a == nil || b != nil && b.cost < a.cost {
		return b
	}
	return a
}

// and narrows a range by another of the same class.
func (s span) and(o span) span {
	if s.low.IsNull() || !o.low.IsNull() && Compare(o.low, s.low) > 0 {
		s.low = o.low
	}
	if s.top.IsNull() || !o.top.IsNull() && Compare(o.top, s.top) < 0 {
		s.top = o.top
	}
	return s
}

// spanOf returns the values for which a condition can hold.
func spanOf(p Predicate) (span, bool) {
	v := func(i int) Value {
		if i < len(p.Values) {
			return p.Values[i]
		}
		return Value{}
	}
	switch p.Op {
	case OpEqual, OpIn:
		return span{eq: p.Values}, len(p.Values) > 0
	case OpIsNull:
		return span{eq: []Value{{}}}, true
	case OpLess, OpLessEqual:
		return span{top: v(0), class: v(0).class()}, !v(0).IsNull()
	case OpGreater, OpGreaterEqual:
		return span{low: v(0), class: v(0).class()}, !v(0).IsNull()
	case OpBetween:
		return span{low: v(0), top: v(1), class: v(0).class()}, ordered(v(0), v(1))
	case OpLike:
		prefix := newLike(p.Pattern).prefix()
		if prefix == "" {
			return span{}, false
		}
		last := len(prefix) - 1 // a byte of UTF-8, so one more is a byte, too
		return span{low: TextOf(prefix), top: TextOf(prefix[:last] + string([]byte{prefix[last] + 1})), class: Text}, true
	}
	return span{}, false
}

// plan returns how the index narrows by conditions on its attributes, or nil.
func (ix *Index) plan(spans map[string]span) *Plan {
	p := &Plan{ix: ix, cost: costHash}
	if ix.tree != nil {
		p.cost = costSortedAll
	}
	for _, a := range ix.cfg.Attributes {
		s, ok := spans[a]
		if !ok {
			break
		}
		p.spans = append(p.spans, s)
		switch {
		case len(s.eq) == 0:
			p.cost = costRange
		case len(s.eq) > 1:
			p.cost = max(p.cost, costIn)
		}
		if len(s.eq) != 1 && len(ix.cfg.Attributes) > 1 {
			break
		}
	}
	last := len(p.spans) - 1
	switch {
	case last < 0:
		return nil
	case ix.tree == nil && (last+1 < len(ix.paths) || len(p.spans[last].eq) == 0):
		return nil
	case last+1 < len(ix.paths):
		p.cost = max(p.cost, costSortedSome)
	}
	return p
}

// Each calls fn with the keys that the plan finds, some perhaps more than once.
func (p *Plan) Each(fn func(key string)) {
	for _, part := range p.parts {
		part.Each(fn)
	}
	if p.ix == nil {
		return
	}
	prefix := make([]Value, 0, len(p.spans))
	last := len(p.spans) - 1
	for _, s := range p.spans[:last] {
		prefix = append(prefix, s.eq[0].norm())
	}
	s := p.spans[last]
	if len(s.eq) == 0 {
		p.ix.between(prefix, s, fn)
		return
	}
	for _, v := range s.eq {
		p.ix.equal(append(prefix, v.norm()), fn)
	}
}

func (ix *Index) equal(t []Value, fn func(string)) {
	if ix.hash != nil {
		for key := range ix.hash[hashKey(t)] {
			fn(key)
		}
		return
	}
	ix.tree.each(
		func(x []Value) bool { return compareTuples(x, t) < 0 },
		func(x []Value) bool { return compareTuples(x, t) > 0 },
		fn)
}

func (ix *Index) between(prefix []Value, s span, fn func(string)) {
	n := len(prefix)
	ix.tree.each(
		func(x []Value) bool {
			if c := compareTuples(x, prefix); c != 0 {
				return c < 0
			}
			return x[n].class() < s.class || x[n].class() == s.class && !s.low.IsNull() && Compare(x[n], s.low) < 0
		},
		func(x []Value) bool {
			if c := compareTuples(x, prefix); c != 0 {
				return c > 0
			}
			return x[n].class() > s.class || x[n].class() == s.class && !s.top.IsNull() && Compare(x[n], s.top) > 0
		},
		fn)
}
