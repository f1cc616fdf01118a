package imap

import (
	"context"
	"fmt"

	"gridnode/grid"
	"gridnode/imap/query"
)

// Processor decides what becomes of an entry. It runs at the primary, under the partition's lock: it has to be quick and must not wait for
// anything, least of all for the grid. What it decides travels to the backups, not the function, so it may ask a clock or throw dice. It may
// be called again for one call of ExecuteOnKey, if nothing of the first time was kept. An error refuses the call and changes nothing.
type Processor func(p Processing) (Processed, error)

// Processing is what a processor gets. It must change none of it.
type Processing struct {
	Entry      // as it is; absent with Version 0
	Arg   Data // the caller's
}

// Processed is what a processor makes of an entry. The zero value leaves the entry as it is.
type Processed struct {
	Put    Data  // the new value; nil: none
	Remove bool  // remove the entry; Put is ignored then
	Life   *Life // of the entry with Put; nil: an entry that there was keeps its own, a new one gets the map's default
	Reply  Data  // for the caller
}

// procOp is the part of an operation that calls a processor, for each of the keys.
type procOp struct {
	Name string
	Arg  []byte
	Keys [][]byte
	If   []byte   // a predicate's wire form: entries for which it does not hold, and absent ones, are left alone; nil: none are
	Plan bool     // answer what it would do, and do nothing
	Do   *planned // do this, which was planned for the only key
}

// planned is what a processor made of an entry. It is done in two steps where a store has to be told in between.
type planned struct {
	Seen   uint64 // version of the entry; 0: absent
	Put    []byte
	Remove bool
	Life   *Life
	Reply  []byte
	Not    bool // the entry was left alone
}

// process runs a processor on entries of one map, and returns its replies in the order of the keys.
func (x *execution) process(o op) (any, error) {
	if o.Proc == nil {
		return nil, fmt.Errorf("%w: a call of a processor without its part", grid.ErrBadMessage)
	}
	fn := x.s.home.cfg.Processors[o.Proc.Name]
	if fn == nil {
		return nil, fmt.Errorf("%w: the primary has no entry processor %q", grid.ErrRefused, o.Proc.Name)
	}
	if o.Proc.Plan || o.Proc.Do != nil {
		return x.processInSteps(fn, o)
	}
	for _, key := range o.Proc.Keys {
		if barred, err := x.barred(ref{Map: o.Map, Key: key}); barred {
			return nil, err
		}
	}
	replies := make([][]byte, len(o.Proc.Keys))
	seen := make(map[string]bool, len(o.Proc.Keys))
	for i, key := range o.Proc.Keys {
		if seen[string(key)] {
			return nil, fmt.Errorf("%w: a key twice in one call of entry processor %q", grid.ErrBadRequest, o.Proc.Name)
		}
		seen[string(key)] = true
		var err error
		if replies[i], err = x.processOne(fn, ref{Map: o.Map, Key: key}, o.Proc); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func (x *execution) processOne(fn Processor, k ref, p *procOp) ([]byte, error) {
	r := x.look(k)
	plan, err := x.plan(fn, k, r, p)
	if err == nil && !plan.Not {
		err = x.carryOut(k, r, plan)
	}
	return plan.Reply, err
}

// meant reports whether a processor is to run on the entry.
func (x *execution) meant(k ref, r *record, p *procOp) (bool, error) {
	if p.If == nil || r == nil {
		return p.If == nil, nil
	}
	match, err := x.s.home.matchers.of(p.If)
	if err != nil {
		return false, err
	}
	rec := query.NewRecordOf(k.Key, r.value, x.s.schemas())
	fits := match.Match(rec)
	if id := rec.Missing(); id != 0 {
		return false, fmt.Errorf("%w: schema %d of a compact value in map %s is not known here yet", grid.ErrNotReady, id, k.Map)
	}
	return fits, nil
}

// plan calls the processor.
func (x *execution) plan(fn Processor, k ref, r *record, p *procOp) (planned, error) {
	if ok, err := x.meant(k, r, p); err != nil || !ok {
		return planned{Not: true}, err
	}
	out, err := callProcessor(fn, p.Name, Processing{Entry: x.reply(k, r).entry(), Arg: p.Arg})
	if err != nil {
		return planned{}, err
	}
	if !out.Remove && len(out.Put) > MaxValue {
		return planned{}, fmt.Errorf("%w: entry processor %q made a value of %d bytes, the limit is %d", grid.ErrTooLarge, p.Name, len(out.Put), MaxValue)
	}
	if out.Life != nil {
		if err := out.Life.check(); err != nil {
			return planned{}, err
		}
	}
	plan := planned{Put: out.Put, Remove: out.Remove, Life: out.Life, Reply: out.Reply}
	if r != nil {
		plan.Seen = r.version
	}
	return plan, nil
}

// carryOut does what a processor wants.
func (x *execution) carryOut(k ref, r *record, p planned) error {
	switch {
	case p.Remove:
		if r != nil {
			x.remove(k, false)
		}
	case p.Put == nil:
		if r != nil {
			x.s.touch(r, x.now)
		}
	case p.Life == nil && r != nil:
		x.changes = append(x.changes, change{Map: k.Map, Key: k.Key, Value: p.Put, Kind: changeValue})
	default:
		var l Life
		if p.Life != nil {
			l = *p.Life
		}
		x.put(k, p.Put, l)
	}
	return nil
}

// callProcessor runs foreign code. If it panics, the member lives on.
func callProcessor(fn Processor, name string, p Processing) (out Processed, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: entry processor %q panicked: %v", grid.ErrInternal, name, r)
		}
	}()
	if out, err = fn(p); err != nil {
		err = fmt.Errorf("%w: entry processor %q: %v", grid.ErrRefused, name, err)
	}
	return out, err
}

// revalue gives an entry a new value; its life goes on.
func (s *Store) revalue(c *change, version uint64, now moment) {
	key := string(c.Key)
	old := s.find(c.Map, key)
	if old == nil {
		return
	}
	r := *old
	r.value, r.version, r.updated, r.accessed = c.Value, version, now, now
	if old.timer != nil {
		t := *old.timer
		t.rec, t.told, t.touched, t.place = &r, now, false, -1
		r.timer = &t
	}
	s.put(c.Map, key, &r)
}

// ExecuteOnKey runs a processor, which all members must have under that name, on the entry of a key, present or not, once. It waits for
// locks as a write does.
func (m *Map) ExecuteOnKey(ctx context.Context, k Key, name string, arg Data) (Data, error) {
	list, err := m.ExecuteOnKeys(ctx, []Key{k}, name, arg)
	if err != nil || len(list) != 1 {
		return nil, err
	}
	return list[0].Value, nil
}

// ExecuteOnKeys runs a processor on the entries of several keys. It returns key and reply of each, in no particular order. Up to a thousand
// keys of one partition are one effect; after an error some may have been processed and others not. In a map with a loader, absent entries are
// loaded first, the map's store is told of what the processor has made of an entry before the grid is, and each key is an effect of its own.
func (m *Map) ExecuteOnKeys(ctx context.Context, keys []Key, name string, arg Data) ([]Entry, error) {
	return m.execute(ctx, keys, procOp{Name: name, Arg: arg})
}

// ExecuteWhere runs a processor on the entries for which the predicate holds, when they are found and still when their turn comes: see
// [Map.ExecuteOnKeys].
func (m *Map) ExecuteWhere(ctx context.Context, where query.Predicate, name string, arg Data) ([]Entry, error) {
	list, _, err := m.KeysWhere(ctx, where, Page{})
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(list))
	for i, k := range list {
		keys[i] = Key{Data: k}
	}
	return m.execute(ctx, keys, procOp{Name: name, Arg: arg, If: where.Append(nil)})
}

func (m *Map) execute(ctx context.Context, keys []Key, proc procOp) ([]Entry, error) {
	if m.loader() != nil {
		return m.processThrough(ctx, keys, proc)
	}
	all, err := m.shares(opProcess, len(keys), func(i int) (Key, Data) { return keys[i], proc.Arg }, func(o *op, i int) int {
		if o.Proc == nil {
			o.Proc = &procOp{Name: proc.Name, Arg: proc.Arg, If: proc.If}
		}
		o.Proc.Keys = append(o.Proc.Keys, keys[i].Data)
		return len(keys[i].Data)
	})
	if err != nil {
		return nil, err
	}
	var out []Entry
	err = m.spread(ctx, all, false, func(o *op, reply []byte) error {
		list, err := decode[[][]byte](reply)
		if err == nil && len(list) != len(o.Proc.Keys) {
			err = fmt.Errorf("%w: %d replies for %d keys", grid.ErrBadMessage, len(list), len(o.Proc.Keys))
		}
		if err != nil {
			return err
		}
		for i, k := range o.Proc.Keys {
			out = append(out, Entry{Map: m.name, Key: k, Value: list[i]})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
