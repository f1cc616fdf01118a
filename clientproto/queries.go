package clientproto

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"gridnode/imap"
	"gridnode/imap/query"
)

// The classes of aggregators whose results are written in a form of their own.
const (
	classDistinct   = 5
	classesAverage  = 16 // of any number; 6, 10 and 12 are those of one type
	classFixedSum   = 8
	classMaxBy      = 17
	classMinBy      = 18
	classResultSet  = 19 // of the factory of aggregators: a set of values
	typeObjectArray = -28
)

// where is the predicate of a request; requests without one ask for everything.
func (q *call) where() (query.Predicate, error) {
	for _, f := range q.spec.fields {
		if f.name == "predicate" && f.kind == kData {
			return q.predicate("predicate")
		}
	}
	return query.True(), nil
}

// asked is a handler of a question: its predicate is read, and what is wrong with the question gets its code.
func asked(answer func(ctx context.Context, q *call, p query.Predicate) ([]byte, error)) handler {
	return reading(func(ctx context.Context, q *call) ([]byte, error) {
		p, err := q.where()
		if err != nil {
			return nil, err
		}
		b, err := answer(ctx, q, p)
		return b, queryError(err)
	})
}

func keySet(ctx context.Context, q *call, p query.Predicate) ([]byte, error) {
	list, _, err := q.imap().KeysWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, err
	}
	return q.datas(list)
}

func values(ctx context.Context, q *call, p query.Predicate) ([]byte, error) {
	list, _, err := q.imap().ValuesWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, err
	}
	return q.datas(list)
}

func entrySet(ctx context.Context, q *call, p query.Predicate) ([]byte, error) {
	list, _, err := q.imap().EntriesWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, err
	}
	return q.entries(list)
}

func removeWhere(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	_, err = q.imap().RemoveWhere(ctx, p)
	return q.done(err)
}

func aggregate(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	a, class, err := q.aggregation()
	if err != nil {
		return nil, err
	}
	if class == classMaxBy || class == classMinBy {
		return nil, fail(codeUnsupported, "aggregators that return an entry are not supported")
	}
	res, err := q.imap().Aggregate(ctx, p, a)
	if err != nil {
		return nil, queryError(err)
	}
	return q.valueOrNull(aggregated(class, res))
}

// aggregated is the result as the client reads it: sums and averages in the type that the aggregator's class says.
func aggregated(class int32, res query.Result) imap.Data {
	switch class {
	case classDistinct:
		return resultSet(res.Values)
	case 7, 9, 6, 10, 12, classesAverage:
		if res.Value.IsNull() && class != 7 && class != 9 {
			return nil
		}
		return doubleData(res.Value.Double())
	case classFixedSum, 11, 13, 4:
		return longData(res.Value.Int())
	}
	return serialized(res.Value)
}

// resultSet is a set of values as the members' own class for it writes them.
func resultSet(values []query.Value) imap.Data {
	d := binary.BigEndian.AppendUint32(nil, uint32(0xfffffffe)) // identified
	d = append(d, 1)
	d = binary.BigEndian.AppendUint32(d, uint32(int64(factoryAggregators)&0xffffffff))
	d = binary.BigEndian.AppendUint32(d, classResultSet)
	d = binary.BigEndian.AppendUint32(d, uint32(len(values)))
	for _, v := range values {
		d = appendObject(d, v)
	}
	return d
}

// appendObject appends a value within an object; null is a type of its own.
func appendObject(d imap.Data, v query.Value) imap.Data {
	if v.IsNull() {
		return binary.BigEndian.AppendUint32(d, 0)
	}
	return append(d, serialized(v)...)
}

func project(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	attributes, err := q.projection()
	if err != nil {
		return nil, err
	}
	rows, _, err := q.imap().Project(ctx, p, imap.Page{}, attributes...)
	if err != nil {
		return nil, queryError(err)
	}
	a := q.answer()
	a.open()
	for _, row := range rows {
		if len(attributes) == 1 {
			value(a, serialized(row[0]))
			continue
		}
		d := imap.Data(binary.BigEndian.AppendUint32(nil, uint32(typeObjectArray&0xffffffff)))
		d = binary.BigEndian.AppendUint32(d, uint32(len(row)))
		for _, v := range row {
			d = appendObject(d, v)
		}
		value(a, d)
	}
	a.close()
	return a.bytes(), nil
}

// structured returns a reader of a structure that the table keeps as its frames.
func (q *call) structured(name string) *reader {
	frames, _ := q.field(name).([]frame)
	return &reader{frames: frames}
}

// addIndex reads an IndexConfig: its type in the first frame, then its name and attributes; what is for bitmap indexes is passed over.
func addIndex(ctx context.Context, q *call) ([]byte, error) {
	r := q.structured("index")
	head, err := r.plain()
	if err != nil || len(head) < 4 {
		return nil, cmp.Or(err, errMalformed)
	}
	if _, err := r.variable(kString | kNullable); err != nil {
		return nil, err
	}
	list, err := r.variable(kStrings)
	if err != nil {
		return nil, err
	}
	cfg := imap.IndexConfig{}
	cfg.Attributes, _ = list.([]string)
	switch kind := binary.LittleEndian.Uint32(head); kind {
	case 0:
		cfg.Type = query.Sorted
	case 1:
		cfg.Type = query.Hash
	default:
		return nil, fail(codeUnsupported, "indexes of type %d are not supported, only sorted (0) and hash (1)", kind)
	}
	return q.done(queryError(q.c.s.cfg.Maps.AddIndex(ctx, q.text("name"), cfg)))
}

// paging is a PagingPredicateHolder.
type paging struct {
	size, page int
	by         string // the attribute that orders
	where      query.Predicate
}

// pagingPredicate reads one. The anchors that clients send back are not needed: every page is found anew.
func (q *call) pagingPredicate() (paging, error) {
	r := q.structured("predicate")
	head, err := r.plain()
	if err != nil || len(head) < 9 {
		return paging{}, cmp.Or(err, errMalformed)
	}
	p := paging{size: int(int32(binary.LittleEndian.Uint32(head))), page: int(int32(binary.LittleEndian.Uint32(head[4:]))), where: query.True()}
	if p.size < 1 || p.page < 0 || p.page > 1<<20 {
		return p, fail(codeIllegalArgument, "page %d of %d entries", p.page, p.size)
	}
	p.by = map[byte]string{0: "__key", 1: "this", 2: "__key"}[head[8]]
	if _, err := r.structure(kSkipped); err != nil {
		return p, err
	}
	inner, err := r.variable(kData | kNullable)
	if err != nil {
		return p, err
	}
	order, err := r.variable(kData | kNullable)
	if err != nil {
		return p, err
	}
	if d, _ := order.(data); !d.isNull() {
		return p, fail(codeUnsupported, "paging with a comparator is not supported: its class is the client's own")
	}
	if d, _ := inner.(data); !d.isNull() {
		in := newObjectReader(d)
		if p.where = in.predicate(0); in.err != nil {
			return p, in.err
		}
		if _, err := query.Compile(p.where); err != nil {
			return p, queryError(err)
		}
	}
	return p, nil
}

// paged is a handler of a page: in the natural order of keys or values, whichever the client iterates over.
func paged(item func(e *encoder, x imap.Entry)) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		p, err := q.pagingPredicate()
		if err != nil {
			return nil, err
		}
		list, _, err := q.imap().EntriesWhere(ctx, p.where, imap.Page{})
		if err != nil {
			return nil, queryError(err)
		}
		if err := sortBy(list, p.by); err != nil {
			return nil, err
		}
		from := min(p.page*p.size, len(list))
		a := q.answer()
		a.open()
		for _, x := range list[from:min(from+p.size, len(list))] {
			item(a, x)
		}
		a.close()
		a.open() // the anchors: none
		a.raw(nil)
		a.open()
		a.close()
		a.close()
		return a.bytes(), nil
	}
}

// sortBy orders entries by an attribute and, where that is the same, by their keys.
func sortBy(list []imap.Entry, attribute string) error {
	p, err := query.NewProjection(attribute)
	if err != nil {
		return fmt.Errorf("paging: %w", err)
	}
	type keyed struct {
		by query.Value
		imap.Entry
	}
	all := make([]keyed, len(list))
	for i, x := range list {
		all[i] = keyed{p.Project(query.NewRecord(x.Key, x.Value))[0], x}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(query.Compare(a.by, b.by), slices.Compare(a.Key, b.Key))
	})
	for i, x := range all {
		list[i] = x.Entry
	}
	return nil
}

// processor is the entry processor of a request: the name under which members know its class, and what it was given.
func (q *call) processor() (name string, arg imap.Data, err error) {
	r := newObjectReader(q.data("processor"))
	factory, class := r.identified()
	if r.err != nil {
		return "", nil, r.err
	}
	return ProcessorName(factory, class), imap.Raw(r.b), nil
}

// ProcessorName is the name under which the members have to know the entry processor of a client's class. Its argument is what the client's
// object wrote of itself.
func ProcessorName(factory, class int32) string {
	return fmt.Sprintf("hazelcast/%d/%d", factory, class)
}

func executeOnKey(ctx context.Context, q *call) ([]byte, error) {
	name, arg, err := q.processor()
	if err != nil {
		return nil, err
	}
	d, err := q.imap().ExecuteOnKey(ctx, q.key(), name, arg)
	if err != nil {
		return nil, err
	}
	return q.valueOrNull(d)
}

func executeOnKeys(ctx context.Context, q *call) ([]byte, error) {
	keys := make([]imap.Key, 0, len(q.list("keys")))
	for _, d := range q.list("keys") {
		keys = append(keys, keyOf(d))
	}
	return q.executeOn(ctx, keys)
}

// executeWhere runs the processor on the entries that are found first, on each by itself.
func executeWhere(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	list, _, err := q.imap().KeysWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, queryError(err)
	}
	keys := make([]imap.Key, len(list))
	for i, k := range list {
		keys[i] = imap.Key{Data: k}
	}
	return q.executeOn(ctx, keys)
}

func (q *call) executeOn(ctx context.Context, keys []imap.Key) ([]byte, error) {
	name, arg, err := q.processor()
	if err != nil {
		return nil, err
	}
	list, err := q.imap().ExecuteOnKeys(ctx, keys, name, arg)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.open()
	for _, e := range list {
		if len(e.Value) > 0 {
			value(a, e.Key)
			value(a, e.Value)
		}
	}
	a.close()
	return a.bytes(), nil
}
