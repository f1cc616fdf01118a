package clientproto

import (
	"errors"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
)

// The factories of Hazelcast's own classes.
const (
	factoryPredicates  = -20
	factoryAggregators = -29
	factoryProjections = -30
)

// maxPredicateDepth bounds predicates in predicates; what compiles them has a bound of its own.
const maxPredicateDepth = 64

// predicate reads the predicate of a request. Null holds for everything.
func (q *call) predicate(name string) (query.Predicate, error) { return predicateOf(q.data(name)) }

func predicateOf(d data) (query.Predicate, error) {
	if d.isNull() {
		return query.True(), nil
	}
	r := newObjectReader(d)
	p := r.predicate(0)
	if r.err != nil {
		return p, r.err
	}
	if _, err := query.Compile(p); err != nil {
		return p, queryError(err)
	}
	return p, nil
}

// queryError gives what is wrong with a question, or is too much of an answer, the code that clients expect.
func queryError(err error) error {
	if errors.Is(err, grid.ErrBadRequest) || errors.Is(err, grid.ErrTooLarge) {
		return fail(codeQuery, "%v", err)
	}
	return err
}

// predicate reads one. Source: the classes of com.hazelcast.query.impl.predicates, fields in the order in which they write themselves.
func (r *objectReader) predicate(depth int) query.Predicate {
	if depth <= maxPredicateDepth && r.named() {
		return r.built(depth)
	}
	factory, class := r.identified()
	switch {
	case r.err != nil:
		return query.False()
	case depth > maxPredicateDepth:
		r.fail("predicates are nested deeper than %d", maxPredicateDepth)
		return query.False()
	case factory != factoryPredicates:
		r.err = errNoClass("a predicate", factory, class)
		return query.False()
	}
	switch class {
	case 0:
		p, err := query.Parse(r.text())
		if err != nil && r.err == nil {
			r.err = queryError(err)
		}
		return p
	case 1:
		return query.And(r.predicates(depth)...)
	case 8:
		return r.instanceOf(r.text())
	case 10:
		return query.Not(r.predicate(depth + 1))
	case 11:
		return query.Or(r.predicates(depth)...)
	case 13:
		return query.False()
	case 14:
		return query.True()
	}
	return r.comparison(class)
}

// built reads what Java's PredicateBuilder has made, behind its head. It is the only predicate of Hazelcast's that is written under its name.
func (r *objectReader) built(depth int) query.Predicate {
	const builder = "com.hazelcast.query.impl.PredicateBuilderImpl"
	if class := r.text(); class != builder && r.err == nil {
		r.err = fail(codeSerialization, "a predicate of class %.100q is not known to the members", class)
	}
	_ = r.text() // the attribute that was spoken of last
	list := r.predicates(depth)
	if len(list) == 0 {
		r.fail("a predicate builder without a predicate")
		return query.False()
	}
	return list[0] // more than one are there if it was not finished, and only the first counts
}

// javaTypes are the type ids of values that are of a class of Java.
var javaTypes = map[string][]int32{
	"java.lang.Byte": {typeByte}, "java.lang.Boolean": {typeBool}, "java.lang.Character": {-5}, "java.lang.Short": {typeShort},
	"java.lang.Integer": {typeInt}, "java.lang.Long": {typeLong}, "java.lang.Float": {typeFloat}, "java.lang.Double": {typeDouble},
	"java.lang.Number": {typeByte, typeShort, typeInt, typeLong, typeFloat, typeDouble, -26, -27}, "java.lang.String": {imap.TypeString},
	"java.util.UUID": {-21}, "java.util.Date": {-25}, "java.math.BigInteger": {-26}, "java.math.BigDecimal": {-27},
	"java.util.ArrayList": {-29}, "java.util.LinkedList": {-30}, "java.util.List": {-29, -30}, "java.time.LocalDate": {-51},
	"java.time.LocalTime": {-52}, "java.time.LocalDateTime": {-53}, "java.time.OffsetDateTime": {-54},
	"com.hazelcast.core.HazelcastJsonValue": {imap.TypeJSON},
}

func (r *objectReader) instanceOf(class string) query.Predicate {
	if class == "java.lang.Object" {
		return query.True()
	}
	ids := javaTypes[class]
	if ids == nil && r.err == nil {
		r.err = fail(codeQuery, "class %q is not known here: values of the client's own classes have no class", class)
	}
	return query.Typed(ids...)
}

func (r *objectReader) predicates(depth int) []query.Predicate {
	list := make([]query.Predicate, 0, r.count())
	for range cap(list) {
		list = append(list, r.predicate(depth+1))
	}
	return list
}

func (r *objectReader) comparison(class int32) query.Predicate {
	p := query.Predicate{Attribute: r.text()}
	switch class {
	case 2:
		to, from := r.value(), r.value()
		p.Op, p.Values = query.OpBetween, []query.Value{from, to}
	case 3, 9:
		p.Op, p.Values = query.OpEqual, []query.Value{r.value()}
		if class == 9 {
			p.Op = query.OpNotEqual
		}
	case 4:
		p.Values = []query.Value{r.value()}
		equal, less := r.bool(), r.bool()
		p.Op = map[[2]bool]query.Op{
			{false, true}: query.OpLess, {true, true}: query.OpLessEqual, {false, false}: query.OpGreater, {true, false}: query.OpGreaterEqual,
		}[[2]bool{equal, less}]
	case 5, 6, 12:
		if r.absent() { // the pattern, which fits null then
			p.Op = query.OpIsNull
			break
		}
		p.Op = map[int32]query.Op{5: query.OpLike, 6: query.OpILike, 12: query.OpRegex}[class]
		p.Pattern = r.text()
	case 7:
		p.Op = query.OpIn
		for range r.count() {
			p.Values = append(p.Values, r.value())
		}
	default:
		r.err = fail(codeUnsupported, "predicates of class %d are not supported", class)
	}
	return p
}

// aggregation reads the aggregator of a request, and which of the ways to write its result the client expects.
func (q *call) aggregation() (query.Aggregation, int32, error) {
	r := newObjectReader(q.data("aggregator"))
	factory, class := r.identified()
	if r.err != nil {
		return query.Aggregation{}, 0, r.err
	}
	op, ok := map[int32]query.AggregateOp{
		1: query.SumExact, 3: query.SumExact,
		4: query.Count, 5: query.Distinct, 6: query.AverageNumber, 7: query.SumDouble, 8: query.SumFixed, 9: query.SumDouble,
		10: query.AverageNumber, 11: query.SumInteger, 12: query.AverageNumber, 13: query.SumInteger, 14: query.Max, 15: query.Min,
		16: query.AverageNumber, 17: query.MaxBy, 18: query.MinBy,
	}[class]
	if factory == factoryAggregators && (class == 0 || class == 2) {
		return query.Aggregation{}, 0, fail(codeUnsupported, "averages of decimals (class %d) are not supported; numberAvg gives a double", class)
	}
	if factory != factoryAggregators || !ok {
		return query.Aggregation{}, 0, errNoClass("an aggregator", factory, class)
	}
	a := query.Aggregation{Op: op, Attribute: r.text()}
	return a, class, r.err
}

// projection reads the attributes that a projection takes, or that it takes whole entries.
func (q *call) projection() (attributes []string, entries bool, err error) {
	r := newObjectReader(q.data("projection"))
	factory, class := r.identified()
	switch {
	case r.err != nil:
	case factory == factoryProjections && class == 0:
		attributes = []string{r.text()}
	case factory == factoryProjections && class == 1:
		attributes = r.texts()
	case factory == factoryProjections && class == 2:
		entries = true
	default:
		r.err = errNoClass("a projection", factory, class)
	}
	return attributes, entries, r.err
}
