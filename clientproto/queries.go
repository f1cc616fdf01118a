package clientproto

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"gridnode/imap"
	"gridnode/imap/query"
)

// The classes of aggregators whose results are written in a form of their own.
const (
	classDistinct  = 5
	classesAverage = 16 // of any number; 6, 10 and 12 are those of one type
	classFixedSum  = 8

	classBigIntegerSum = 3
	classMaxBy         = 17
	classMinBy         = 18
	classResultSet     = 19 // of the factory of aggregators: a set of values
	typeObjectArray    = -28
)

// where is the predicate of a request; requests without one ask for everything. If it is for some partitions, so is q.imap from then on.
func (q *call) where() (query.Predicate, error) {
	for _, f := range q.spec.fields {
		if f.name == "predicate" && f.kind == kData {
			d := q.data("predicate")
			target, err := q.places(d)
			if err != nil {
				return query.False(), err
			}
			return predicateOf(target)
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
	var d imap.Data
	if class == classDistinct && (a.Attribute == "" || a.Attribute == "this") {
		d, err = q.distinctValues(ctx, p)
	} else {
		var res query.Result
		if res, err = q.imap().Aggregate(ctx, p, a); err == nil {
			d, err = aggregated(class, res)
		}
	}
	if err != nil {
		return nil, queryError(err)
	}
	return q.valueOrNull(d)
}

// distinctValues is the set of the values themselves, as they were stored.
func (q *call) distinctValues(ctx context.Context, p query.Predicate) (imap.Data, error) {
	list, _, err := q.imap().ValuesWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b imap.Data) int { return bytes.Compare(a, b) })
	return resultSet(slices.CompactFunc(list, func(a, b imap.Data) bool { return bytes.Equal(a, b) }))
}

// aggregated is the result as the client reads it: sums and averages in the type that the aggregator's class says.
func aggregated(class int32, res query.Result) (imap.Data, error) {
	switch class {
	case classDistinct:
		values := make([]imap.Data, len(res.Values))
		for i, v := range res.Values {
			values[i] = serialized(v)
		}
		return resultSet(values)
	case classMaxBy, classMinBy:
		if res.Key == nil {
			return nil, nil
		}
		return mapEntry(res.Key, res.Entry)
	case 7, 9, 6, 10, 12, classesAverage:
		if res.Value.IsNull() && class != 7 && class != 9 {
			return nil, nil
		}
		return doubleData(res.Value.Double()), nil
	case classFixedSum, 11, 13, 4:
		return longData(res.Value.Int()), nil
	case classBigIntegerSum:
		unscaled, scale := res.Value.Decimal()
		if scale != 0 {
			return nil, fail(codeQuery, "the sum %s is no integer", res.Value)
		}
		return serialized(query.BigIntegerOf(unscaled)), nil
	}
	return serialized(res.Value), nil
}

func project(ctx context.Context, q *call) ([]byte, error) {
	p, err := q.where()
	if err != nil {
		return nil, err
	}
	attributes, entries, err := q.projection()
	if err != nil {
		return nil, err
	}
	if entries {
		return q.wholeEntries(ctx, p)
	}
	if slices.ContainsFunc(attributes, wholeAttribute) {
		return q.projectHere(ctx, p, attributes)
	}
	rows, _, err := q.imap().Project(ctx, p, imap.Page{}, attributes...)
	if err != nil {
		return nil, queryError(err)
	}
	a := q.answer()
	a.open()
	for _, row := range rows {
		value(a, projected(row))
	}
	a.close()
	return a.bytes(), nil
}

// wholeAttribute reports whether the attribute is all of a key or value, which is returned as it was stored, whatever it is.
func wholeAttribute(a string) bool { return a == "this" || a == "__key" }

// projectHere is a projection of entries that have been fetched as they are.
func (q *call) projectHere(ctx context.Context, where query.Predicate, attributes []string) ([]byte, error) {
	list, _, err := q.imap().EntriesWhere(ctx, where, imap.Page{})
	if err != nil {
		return nil, queryError(err)
	}
	p, err := query.NewProjection(attributes...)
	if err != nil {
		return nil, queryError(err)
	}
	datas := make([]imap.Data, len(list))
	for i, x := range list {
		if datas[i], err = q.projectEntry(p, attributes, x); err != nil {
			return nil, err
		}
	}
	return q.datas(datas)
}

// projectEntry is what a projection makes of an entry.
func (q *call) projectEntry(p *query.Projection, attributes []string, x imap.Entry) (imap.Data, error) {
	r := q.c.s.cfg.Maps.Record(x)
	row := p.Project(r)
	if err := unread(r); err != nil {
		return nil, err
	}
	whole := map[string]imap.Data{"this": x.Value, "__key": x.Key}
	if len(row) == 1 {
		if d, ok := whole[attributes[0]]; ok {
			return d, nil
		}
		return serialized(row[0]), nil
	}
	d := imap.Data(binary.BigEndian.AppendUint32(nil, uint32(typeObjectArray&0xffffffff)))
	d = binary.BigEndian.AppendUint32(d, uint32(len(row)))
	for i, v := range row {
		one, ok := whole[attributes[i]]
		if !ok {
			one = serialized(v)
		}
		var err error
		if d, err = embed(d, one); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// projected is the row of a projection as the client reads it: a value if it has one attribute, else an array.
func projected(row []query.Value) imap.Data {
	if len(row) == 1 {
		return serialized(row[0])
	}
	d := imap.Data(binary.BigEndian.AppendUint32(nil, uint32(typeObjectArray&0xffffffff)))
	d = binary.BigEndian.AppendUint32(d, uint32(len(row)))
	for _, v := range row {
		d = appendObject(d, v)
	}
	return d
}

// wholeEntries is the answer of the projection that changes nothing.
func (q *call) wholeEntries(ctx context.Context, p query.Predicate) ([]byte, error) {
	list, _, err := q.imap().EntriesWhere(ctx, p, imap.Page{})
	if err != nil {
		return nil, queryError(err)
	}
	datas := make([]imap.Data, len(list))
	for i, e := range list {
		if datas[i], err = mapEntry(e.Key, e.Value); err != nil {
			return nil, err
		}
	}
	return q.datas(datas)
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
	case 1, 2: // a bitmap's questions are those of a hash index: is it this value, or one of these
		cfg.Type = query.Hash
	default:
		return nil, fail(codeUnsupported, "indexes of type %d are not supported, only sorted (0), hash (1) and bitmap (2)", kind)
	}
	return q.done(queryError(q.c.s.cfg.Maps.AddIndex(ctx, q.text("name"), cfg)))
}
