package imap

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
	"gridnode/imap/query"
)

// Limits of what one call returns when it is not paged.
const (
	MaxResult      = 1 << 20 // entries
	maxResultBytes = 256 << 20
	removersAtOnce = 16
)

// Page asks for a part of what a predicate finds: at most Limit results, behind the cursor of the page before. With Limit 0 it is all there
// is, in no particular order, up to [MaxResult]; more is an error. A page ends early once its results have Bytes, or 256 MiB.
type Page struct {
	Limit int
	Bytes int
	After Cursor
}

// Cursor is where a page ended. The zero Cursor is before the first.
type Cursor struct {
	partition grid.PartitionID
	key       []byte
	end       bool
	only      bool // it ends with its partition
}

// CursorIn returns a cursor behind a key of one partition, which may be gone meanwhile; nil: before its first. What it goes through ends with the
// partition.
func CursorIn(p grid.PartitionID, key Data) Cursor { return Cursor{partition: p, key: key, only: true} }

// Key is the key where the page ended; nil if it ended with a partition.
func (c Cursor) Key() Data { return c.key }

// End reports whether nothing comes behind the cursor.
func (c Cursor) End() bool { return c.end }

// String returns the cursor as a text for [ParseCursor]; empty for the first and the last.
func (c Cursor) String() string {
	if c.end || c.partition == 0 && c.key == nil {
		return ""
	}
	b := binary.AppendUvarint(nil, uint64(c.partition))
	if c.key != nil {
		b = append(append(b, 1), c.key...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads the text of a cursor.
func ParseCursor(text string) (Cursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	p, n := binary.Uvarint(b)
	if text == "" {
		return Cursor{}, nil
	}
	if err != nil || n <= 0 || p >= grid.MaxPartitions || len(b) > MaxKey+16 || n < len(b) && b[n] != 1 {
		return Cursor{}, fmt.Errorf("%w: the cursor is none that an earlier page gave", grid.ErrBadRequest)
	}
	c := Cursor{partition: grid.PartitionID(p)}
	if n < len(b) {
		c.key = append([]byte{}, b[n+1:]...)
	}
	return c, nil
}

// EntriesWhere returns entries for which the predicate holds. A page goes on where the one before ended, so over all pages an entry that is
// there throughout comes exactly once; a scan is no snapshot.
func (m *Map) EntriesWhere(ctx context.Context, where query.Predicate, page Page) ([]Entry, Cursor, error) {
	rep, next, err := m.asked(ctx, where, ask{Want: wantEntries}, page)
	out := make([]Entry, len(rep.Entries))
	for i, e := range rep.Entries {
		out[i] = e.entry()
	}
	return out, next, err
}

// KeysWhere returns the keys of entries for which the predicate holds: see [Map.EntriesWhere].
func (m *Map) KeysWhere(ctx context.Context, where query.Predicate, page Page) ([]Data, Cursor, error) {
	rep, next, err := m.asked(ctx, where, ask{Want: wantKeys}, page)
	out := make([]Data, len(rep.Entries))
	for i, e := range rep.Entries {
		out[i] = e.Key
	}
	return out, next, err
}

// ValuesWhere returns the values of entries for which the predicate holds: see [Map.EntriesWhere].
func (m *Map) ValuesWhere(ctx context.Context, where query.Predicate, page Page) ([]Data, Cursor, error) {
	rep, next, err := m.asked(ctx, where, ask{Want: wantValues}, page)
	out := make([]Data, len(rep.Entries))
	for i, e := range rep.Entries {
		out[i] = e.Value
	}
	return out, next, err
}

// Project returns attributes of the entries for which the predicate holds, a row for each: see [Map.EntriesWhere].
func (m *Map) Project(ctx context.Context, where query.Predicate, page Page, attributes ...string) ([][]query.Value, Cursor, error) {
	if _, err := query.NewProjection(attributes...); err != nil {
		return nil, Cursor{}, err
	}
	rep, next, err := m.asked(ctx, where, ask{Want: wantRows, Attributes: attributes}, page)
	if err != nil {
		return nil, Cursor{}, err
	}
	out := make([][]query.Value, len(rep.Rows))
	for i, row := range rep.Rows {
		if out[i], err = query.DecodeValues(row); err != nil {
			return nil, Cursor{}, err
		}
	}
	return out, next, nil
}

// In returns the map for questions that are asked of some partitions alone: RemoveWhere, Aggregate, and those for results without a limit.
func (m *Map) In(partitions ...grid.PartitionID) *Map {
	n := *m
	n.in = slices.Compact(slices.Sorted(slices.Values(partitions)))
	return &n
}

// question checks a predicate and returns the operation that asks it.
func (m *Map) question(kind opKind, where query.Predicate, a ask) (op, error) {
	if err := m.check(Key{Data: String("")}, nil); err != nil {
		return op{}, err
	}
	if _, err := query.Compile(where); err != nil {
		return op{}, err
	}
	a.Where = where.Append(nil)
	o := m.op(kind)
	o.Limit, o.Ask = scanPage, &a
	return o, nil
}

func (m *Map) asked(ctx context.Context, where query.Predicate, a ask, page Page) (askReply, Cursor, error) {
	o, err := m.question(opQuery, where, a)
	switch {
	case err != nil:
		return askReply{}, Cursor{}, err
	case page.Limit < 0:
		return askReply{}, Cursor{}, fmt.Errorf("%w: a page of %d entries", grid.ErrBadRequest, page.Limit)
	case page.Limit > 0:
		return m.page(ctx, o, page)
	case page.After.partition != 0 || page.After.key != nil || page.After.end || page.After.only:
		return askReply{}, Cursor{}, fmt.Errorf("%w: a cursor without a limit", grid.ErrBadRequest)
	}
	var all askReply
	bytes := 0
	err = m.everywhere(ctx, o, func(rep askReply) error {
		bytes += rep.size()
		all.Entries, all.Rows = append(all.Entries, rep.Entries...), append(all.Rows, rep.Rows...)
		if n := len(all.Entries) + len(all.Rows); n > MaxResult || bytes > maxResultBytes {
			return fmt.Errorf("%w: more than %d results, or than %d bytes of them; ask for pages", grid.ErrTooLarge, MaxResult, maxResultBytes)
		}
		return nil
	})
	if err != nil {
		return askReply{}, Cursor{}, err
	}
	return all, Cursor{end: true}, nil
}

// size is the bytes of the results.
func (r askReply) size() (n int) {
	for _, e := range r.Entries {
		n += len(e.Key) + len(e.Value)
	}
	for _, row := range r.Rows {
		n += len(row)
	}
	return n
}

// page goes through the partitions in their order until the page is full.
func (m *Map) page(ctx context.Context, o op, page Page) (askReply, Cursor, error) {
	n := m.g.inv.Partitions()
	if n == 0 {
		return askReply{}, Cursor{}, grid.ErrNotJoined
	}
	if m.in != nil {
		return askReply{}, Cursor{}, fmt.Errorf("%w: a page of some partitions", grid.ErrBadRequest)
	}
	var all askReply
	c, bytes := page.After, 0
	if page.Bytes <= 0 {
		page.Bytes = maxResultBytes
	}
	for !c.end && len(all.Entries)+len(all.Rows) < page.Limit && bytes < page.Bytes {
		if int(c.partition) >= n {
			return all, Cursor{end: true}, nil
		}
		o.Key, o.Ask.Most = c.key, page.Limit-len(all.Entries)-len(all.Rows)
		reply, err := m.g.inv.Read(ctx, c.partition, o.own())
		if err != nil {
			return askReply{}, Cursor{}, err
		}
		rep, err := decode[askReply](reply)
		if err != nil {
			return askReply{}, Cursor{}, err
		}
		all.Entries, all.Rows = append(all.Entries, rep.Entries...), append(all.Rows, rep.Rows...)
		bytes += rep.size()
		if c.key = rep.Last; !rep.More {
			c = Cursor{partition: c.partition + 1, end: c.only || int(c.partition)+1 == n}
		}
	}
	return all, c, nil
}

// everywhere asks all partitions that the map is for, and those that have more again, and calls take from one goroutine.
func (m *Map) everywhere(ctx context.Context, o op, take func(askReply) error) error {
	type cursor struct {
		p    grid.PartitionID
		last []byte
	}
	var more []cursor
	each := func(p grid.PartitionID, reply []byte) error {
		rep, err := decode[askReply](reply)
		if err != nil {
			return err
		}
		if rep.More {
			more = append(more, cursor{p, rep.Last})
		}
		return take(rep)
	}
	for _, p := range m.in {
		more = append(more, cursor{p: p})
	}
	if m.in == nil {
		if err := m.g.inv.InvokeAll(ctx, encode(o), each); err != nil {
			return err
		}
	}
	for len(more) > 0 {
		c := more[len(more)-1]
		more = more[:len(more)-1]
		o.Key = c.last
		reply, err := m.g.inv.Read(ctx, c.p, o.own())
		if err != nil {
			return err
		}
		if err := each(c.p, reply); err != nil {
			return err
		}
	}
	return nil
}

// Aggregate returns a figure over the entries for which the predicate holds.
func (m *Map) Aggregate(ctx context.Context, where query.Predicate, agg query.Aggregation) (query.Result, error) {
	total, err := agg.NewState()
	if err != nil {
		return query.Result{}, err
	}
	a := ask{Aggregate: agg.Op}
	if agg.Attribute != "" {
		a.Attributes = []string{agg.Attribute}
	}
	o, err := m.question(opAggregate, where, a)
	if err != nil {
		return query.Result{}, err
	}
	err = m.everywhere(ctx, o, func(rep askReply) error {
		part, err := agg.Decode(rep.State)
		if err != nil {
			return err
		}
		return total.Combine(part)
	})
	if err != nil {
		return query.Result{}, err
	}
	return total.Result()
}

// RemoveWhere removes the entries for which the predicate holds, each decided when it is removed, and returns how many. After an error some
// may have been removed; of kind Indeterminate, more than were counted. The call may be made again. Entries that somebody else has locked
// stay. Through [Map.Fenced] it is refused when it comes to an entry that is not under that lock.
func (m *Map) RemoveWhere(ctx context.Context, where query.Predicate) (int, error) {
	if m.store() != nil {
		return m.removeWhereThrough(ctx, where)
	}
	o, err := m.question(opRemoveWhere, where, ask{})
	if err != nil {
		return 0, err
	}
	n := m.g.inv.Partitions()
	if n == 0 {
		return 0, grid.ErrNotJoined
	}
	removed := make([]int, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(removersAtOnce)
	for p := range grid.PartitionID(n) {
		if m.in == nil || slices.Contains(m.in, p) {
			g.Go(func() error { return m.removeIn(ctx, p, o, &removed[p]) })
		}
	}
	err = g.Wait()
	total := 0
	for _, n := range removed {
		total += n
	}
	return total, err
}

func (m *Map) removeIn(ctx context.Context, p grid.PartitionID, o op, removed *int) error {
	for {
		reply, err := m.g.inv.Write(ctx, p, o.own(), 0)
		if err != nil {
			return err
		}
		rep, err := decode[askReply](reply)
		if err != nil {
			return err
		}
		*removed += rep.Removed
		if o.Key = rep.Last; !rep.More {
			return nil
		}
	}
}
