package clientproto

import (
	"context"
	"fmt"
	"math"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
)

// Clients go through a partition in pages. Where a page ended they keep as pairs of numbers, of which only the last one's sign means something to
// them: negative is the end. Here the pairs hold the key behind which to go on.

// maxBatch bounds the entries of a page.
const maxBatch = 100_000

// startPointer is the first of the pairs of a client that begins.
const startPointer = math.MaxInt32

// pointersOf are the pairs for a key: three bytes in each number, so that none is negative, and its length at the end.
func pointersOf(key imap.Data) [][2]int32 {
	out := make([][2]int32, 0, len(key)/6+2)
	for i := 0; i < len(key); i += 6 {
		var p [2]int32
		for j := range min(6, len(key)-i) {
			p[j/3] |= int32(key[i+j]) << (8 * (j % 3))
		}
		out = append(out, p)
	}
	return append(out, [2]int32{int32(len(key)), 0})
}

// keyOfPointers is the key of pairs; nil for a client that begins.
func keyOfPointers(list [][2]int32) (imap.Data, error) {
	if len(list) == 0 || list[0][0] == startPointer {
		return nil, nil
	}
	n := int(list[len(list)-1][0])
	if n < 1 || n > imap.MaxKey || len(list) != (n+5)/6+1 {
		return nil, fail(codeIllegalArgument, "the iteration goes on from where none was")
	}
	key := make(imap.Data, n)
	for i := range key {
		key[i] = byte(list[i/6][i%6/3] >> (8 * (i % 3)))
	}
	return key, nil
}

// iterate is a handler of one page of a partition. An entry that is there throughout comes exactly once.
func iterate(item func(e *encoder, x imap.Entry)) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		entries, pairs, err := q.fetch(ctx, query.True())
		if err != nil {
			return nil, err
		}
		a := q.answer()
		writePairs(a, pairs)
		a.open()
		for _, x := range entries {
			item(a, x)
		}
		a.close()
		return a.bytes(), nil
	}
}

// fetch returns the entries of the page that the request asks for, and the pairs with which the next one begins.
func (q *call) fetch(ctx context.Context, where query.Predicate) ([]imap.Entry, [][2]int32, error) {
	list, _ := q.field("pointers").([][2]int32)
	after, err := keyOfPointers(list)
	if err != nil {
		return nil, nil, err
	}
	batch := q.long("batch")
	if batch < 1 {
		return nil, nil, fail(codeIllegalArgument, "a page of %d entries", batch)
	}
	page := imap.Page{Limit: int(min(batch, maxBatch)), After: imap.CursorIn(grid.PartitionID(q.m.partition()), after)}
	entries, next, err := q.imap().EntriesWhere(ctx, where, page)
	if err != nil {
		return nil, nil, queryError(err)
	}
	pairs := [][2]int32{{-1, 0}}
	if !next.End() {
		pairs = pointersOf(next.Key())
	}
	return entries, pairs, nil
}

func writePairs(a *encoder, pairs [][2]int32) {
	a.begin(0)
	for _, p := range pairs {
		a.int32(p[0])
		a.int32(p[1])
	}
}

// fetchWhere is a page of what a projection makes of the entries that a predicate holds for.
func fetchWhere(ctx context.Context, q *call) ([]byte, error) {
	where, err := q.predicate("predicate")
	if err != nil {
		return nil, err
	}
	attributes, whole, err := q.projection()
	if err != nil {
		return nil, err
	}
	var p *query.Projection
	if !whole {
		if p, err = query.NewProjection(attributes...); err != nil {
			return nil, queryError(err)
		}
	}
	entries, pairs, err := q.fetch(ctx, where)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.open()
	for _, x := range entries {
		d := imap.Data(nil)
		if whole {
			d, err = mapEntry(x.Key, x.Value)
		} else {
			d, err = q.projectEntry(p, attributes, x)
		}
		if err != nil {
			return nil, err
		}
		value(a, d)
	}
	a.close()
	writePairs(a, pairs)
	return a.bytes(), nil
}

// unread is the error for an entry whose schema is not here yet.
func unread(r *query.Record) error {
	if id := r.Missing(); id != 0 {
		return fmt.Errorf("%w: schema %d of a compact value is not known here yet", grid.ErrNotReady, id)
	}
	return nil
}
