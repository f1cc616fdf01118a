package imap

import (
	"fmt"
	"slices"

	"gridnode/grid"
	"gridnode/imap/query"
)

// The operations that ask a partition. They go through its entries page by page, in the order of the keys.
const (
	opQuery opKind = iota + 64
	opAggregate
	opRemoveWhere
	opAttend // since when are changes seen by listeners?
)

// examined bounds the entries that one operation looks at, and so how long it keeps the partition.
const examined = 4096

// want is what an answer is to have of each entry.
type want uint8

const (
	wantEntries want = iota
	wantKeys
	wantValues
	wantRows
)

// ask is what the operations of this file have beside map, key (where to go on) and limit (bytes of one answer).
type ask struct {
	Where      []byte // a predicate's wire form
	Want       want
	Attributes []string // wantRows; opAggregate: one or none
	Aggregate  query.AggregateOp
	Most       int // entries of one answer; 0: as many as fit
}

// askReply answers them. Last is the key of the last entry that was looked at; with More set, there are others behind it.
type askReply struct {
	Entries []entryReply
	Rows    [][]byte // lists of values
	State   []byte   // of an aggregation
	Removed int
	Last    []byte
	More    bool
}

// asking is one such operation while it is executed.
type asking struct {
	x     *execution
	o     op
	match *query.Matcher
	rows  *query.Projection
	state *query.State
	rep   askReply
	bytes int
	taken int
}

func (x *execution) ask(o op) (any, error) {
	if o.Ask == nil {
		return nil, fmt.Errorf("%w: a query without its part", grid.ErrBadMessage)
	}
	x.seeAll()
	a := asking{x: x, o: o}
	var err error
	a.match, err = x.s.home.matchers.of(o.Ask.Where)
	switch {
	case err != nil:
	case o.Kind == opAggregate:
		agg := query.Aggregation{Op: o.Ask.Aggregate}
		if len(o.Ask.Attributes) > 0 {
			agg.Attribute = o.Ask.Attributes[0]
		}
		a.state, err = agg.NewState()
	case o.Kind == opQuery && o.Ask.Want == wantRows:
		a.rows, err = query.NewProjection(o.Ask.Attributes...)
	}
	if err != nil {
		return nil, err
	}
	if err := a.run(); err != nil {
		return nil, err
	}
	if a.state != nil {
		a.rep.State = a.state.Append(nil)
	}
	return a.rep, nil
}

func (a *asking) run() error {
	m := a.x.s.maps[a.o.Map]
	if m == nil {
		return nil
	}
	schemas := a.x.s.schemas()
	keys, more := a.candidates(m)
	for i, k := range keys {
		r := m.records[k]
		a.rep.Last = []byte(k)
		if a.x.s.over(r, a.x.now) {
			continue
		}
		rec := query.NewRecordOf([]byte(k), r.value, schemas)
		var err error
		if a.match.Match(rec) {
			err = a.take(k, r, rec)
		}
		if id := rec.Missing(); id != 0 {
			err = fmt.Errorf("%w: schema %d of a compact value in map %s is not known here yet", grid.ErrNotReady, id, a.o.Map)
		}
		if err != nil {
			return err
		}
		if a.bytes >= a.o.Limit || a.o.Ask.Most > 0 && a.taken >= a.o.Ask.Most {
			a.rep.More = more || i < len(keys)-1
			return nil
		}
	}
	a.rep.More = more
	return nil
}

// candidates returns the least keys behind the one to go on from, at most as many as may be examined, and whether others follow.
func (a *asking) candidates(m *recordMap) (keys []string, more bool) {
	after, from := string(a.o.Key), a.o.Key != nil
	top := ""
	trim := func() {
		slices.Sort(keys)
		if keys = slices.Compact(keys); len(keys) > examined {
			keys, more = keys[:examined], true
			top = keys[examined-1]
		}
	}
	add := func(k string) {
		if from && k <= after || top != "" && k > top || m.records[k] == nil {
			return
		}
		if keys = append(keys, k); len(keys) >= 2*examined {
			trim()
		}
	}
	if plan := query.NewPlan(a.match, a.x.s.indexesOf(a.o.Map, m)); plan != nil {
		plan.Each(add)
	} else {
		for k := range m.records {
			add(k)
		}
	}
	trim()
	return keys, more
}

// remove removes an entry, unless somebody else has locked it.
func (a *asking) remove(k ref) error {
	barred, err := a.x.barred(k)
	if err != nil {
		return err
	}
	if barred {
		a.x.wait = ""
		return nil
	}
	a.x.remove(k, false)
	a.rep.Removed++
	return nil
}

func (a *asking) take(k string, r *record, rec *query.Record) error {
	a.taken++
	if a.o.Kind == opAggregate {
		return a.state.Add(rec)
	}
	a.bytes += len(k) + 24
	if a.o.Kind == opRemoveWhere {
		return a.remove(ref{Map: a.o.Map, Key: []byte(k)})
	}
	e := entryReply{Map: a.o.Map, Key: []byte(k), Value: r.value, Version: r.version, TTL: r.left(a.x.now)}
	switch a.o.Ask.Want {
	case wantRows:
		row := query.AppendValues(nil, a.rows.Project(rec))
		a.rep.Rows = append(a.rep.Rows, row)
		a.bytes += len(row)
		return nil
	case wantKeys:
		e.Value = nil
	case wantValues:
		e.Key = nil
	case wantEntries:
	default:
		return fmt.Errorf("%w: a query that wants %d", grid.ErrBadMessage, a.o.Ask.Want)
	}
	a.bytes += len(e.Value)
	a.rep.Entries = append(a.rep.Entries, e)
	return nil
}
