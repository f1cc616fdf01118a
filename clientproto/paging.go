package clientproto

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
)

// Comparator orders entries: it is negative if a comes before b. It may be called by several goroutines at once. Entries that are the same to it
// come in the order of their keys' bytes.
type Comparator func(a, b imap.Entry) int

// NewComparator makes a comparator of a client's object: see [ProcessorName] for what arg is. It refuses what it cannot read.
type NewComparator func(arg imap.Data) (Comparator, error)

// paging is a PagingPredicateHolder.
type paging struct {
	size, page int
	by         string     // the attribute that orders
	order      Comparator // that orders instead; nil: none
	name       string     // of order
	where      query.Predicate
	in         map[grid.PartitionID]bool // nil: in all partitions
}

// pagingPredicate reads one. The anchors that clients send back are not needed: every page is found anew.
func (q *call) pagingPredicate() (p paging, err error) {
	r := q.structured("predicate")
	head, err := r.plain()
	if err != nil || len(head) < 9 {
		return paging{}, cmp.Or(err, errMalformed)
	}
	p = paging{size: int(int32(binary.LittleEndian.Uint32(head))), page: int(int32(binary.LittleEndian.Uint32(head[4:]))), where: query.True()}
	if p.size < 1 || p.page < 0 {
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
		if p.order, p.name, err = q.comparator(d); err != nil {
			return p, err
		}
	}
	if p.in, err = q.pagedPartitions(r); err != nil {
		return p, err
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

// comparator makes the comparator that the object stands for.
func (q *call) comparator(d data) (Comparator, string, error) {
	name, arg, err := className(d)
	if err != nil {
		return nil, "", err
	}
	create := q.c.s.cfg.Comparators[name]
	if create == nil {
		return nil, name, fail(codeIllegalArgument, "the member has no comparator %q", name)
	}
	order, err := create(arg)
	if err == nil && order == nil {
		err = errors.New("it was not made")
	}
	if err != nil {
		return nil, name, fail(codeIllegalArgument, "comparator %q: %v", name, err)
	}
	return order, name, nil
}

// pagedPartitions reads the keys that say in which partitions to look, if there are any: one, or, for newer clients, several.
func (q *call) pagedPartitions(r *reader) (map[grid.PartitionID]bool, error) {
	if !r.more() || r.frames[r.at].is(flagEnd) {
		return nil, nil
	}
	one, err := r.variable(kData | kNullable)
	if err != nil {
		return nil, err
	}
	var keys []data
	if r.more() && !r.frames[r.at].is(flagEnd) {
		several, err := r.variable(kDataList | kNullable)
		if err != nil {
			return nil, err
		}
		keys, _ = several.([]data)
	}
	if d, _ := one.(data); !d.isNull() {
		keys = append(keys, d)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	in := map[grid.PartitionID]bool{}
	for _, k := range keys {
		p, ok := q.c.s.cfg.Maps.Partition(keyOf(k))
		if !ok {
			return nil, grid.ErrNotJoined
		}
		in[p] = true
	}
	return in, nil
}

// paged is a handler of a page: in the comparator's order, or in the natural one of keys or values, whichever the client iterates over.
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
		if p.in != nil {
			list = slices.DeleteFunc(list, func(x imap.Entry) bool {
				id, ok := q.c.s.cfg.Maps.Partition(imap.Key{Data: x.Key})
				return !ok || !p.in[id]
			})
		}
		if p.order != nil {
			err = p.sort(list)
		} else {
			err = sortBy(q.c.s.cfg.Maps, list, p.by)
		}
		if err != nil {
			return nil, err
		}
		return q.page(p, list, item)
	}
}

// page answers the page of the list.
func (q *call) page(p paging, list []imap.Entry, item func(e *encoder, x imap.Entry)) ([]byte, error) {
	from := len(list)
	if p.page <= len(list)/p.size {
		from = p.page * p.size
	}
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

// sort orders entries as the program's comparator says. If that panics, the member lives on.
func (p paging) sort(list []imap.Entry) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fail(codeQuery, "comparator %q panicked: %v", p.name, r)
		}
	}()
	slices.SortFunc(list, func(a, b imap.Entry) int { return cmp.Or(p.order(a, b), slices.Compare(a.Key, b.Key)) })
	return nil
}

// sortBy orders entries by an attribute and, where that is the same, by their keys.
func sortBy(g *imap.Grid, list []imap.Entry, attribute string) error {
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
		r := g.Record(x)
		all[i] = keyed{p.Project(r)[0], x}
		if err := unread(r); err != nil {
			return err
		}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(query.Compare(a.by, b.by), slices.Compare(a.Key, b.Key))
	})
	for i, x := range all {
		list[i] = x.Entry
	}
	return nil
}
