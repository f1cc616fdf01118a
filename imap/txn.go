package imap

import (
	"context"
	"fmt"
	"time"

	"gridnode/grid"
)

// Ref names an entry of any map.
type Ref struct {
	Map string
	Key Data
}

// Cond is a condition of a [Txn]: the entry has exactly that version, or is absent (0).
type Cond struct {
	Ref     Ref
	Version uint64
}

// Put is a write of a [Txn].
type Put struct {
	Ref   Ref
	Value Data
	TTL   time.Duration
}

// Txn is a partition transaction: if all conditions hold, all puts and deletes are done as one effect, else nothing is. It may touch
// several maps; all its keys live where Place lives.
type Txn struct {
	Place  Data
	If     []Cond
	Put    []Put
	Delete []Ref
}

// TxnResult tells whether a [Txn] was applied. Version is that of all entries that it put. If it was not, Current holds the entries of the
// conditions, in their order, as they are.
type TxnResult struct {
	Applied bool
	Version uint64
	Current []Entry
}

// Txn runs a partition transaction. After an error of kind Indeterminate, the versions tell whether it ran.
func (g *Grid) Txn(ctx context.Context, t Txn) (TxnResult, error) {
	x, err := t.wire()
	if err == nil {
		err = g.txnStores(t)
	}
	if err != nil {
		return TxnResult{}, err
	}
	b, err := g.call(ctx, Key{Place: t.Place, Data: t.Place}, op{Kind: opTxn, Txn: x, Who: who{Via: g.self}}, false)
	if err != nil {
		return TxnResult{}, err
	}
	rep, err := decode[writeReply](b)
	res := TxnResult{Applied: rep.Applied, Version: rep.Version}
	for _, e := range rep.Found {
		res.Current = append(res.Current, e.entry())
	}
	return res, err
}

// txnStores refuses a transaction that changes a map with a store.
func (g *Grid) txnStores(t Txn) error {
	for _, p := range t.Put {
		if err := g.Map(p.Ref.Map).noStore("a transaction"); err != nil {
			return err
		}
	}
	for _, d := range t.Delete {
		if err := g.Map(d.Map).noStore("a transaction"); err != nil {
			return err
		}
	}
	return nil
}

func (t Txn) wire() (*txn, error) {
	if len(t.If) > MaxTxn || len(t.Put) > MaxTxn || len(t.Delete) > MaxTxn {
		return nil, fmt.Errorf("%w: a transaction of more than %d parts", grid.ErrTooLarge, MaxTxn)
	}
	if len(t.Place) < headLen {
		return nil, fmt.Errorf("%w: a transaction without a place", grid.ErrBadRequest)
	}
	x := &txn{}
	for _, c := range t.If {
		x.If = append(x.If, cond{Ref: c.Ref.wire(), Version: c.Version})
	}
	for _, p := range t.Put {
		if len(p.Value) > MaxValue {
			return nil, fmt.Errorf("%w: a value of %d bytes, the limit is %d", grid.ErrTooLarge, len(p.Value), MaxValue)
		}
		x.Put = append(x.Put, change{Map: p.Ref.Map, Key: p.Ref.Key, Value: p.Value, TTL: p.TTL})
	}
	for _, d := range t.Delete {
		x.Delete = append(x.Delete, d.wire())
	}
	return x, nil
}

func (r Ref) wire() ref { return ref{Map: r.Map, Key: r.Key} }

// GetMany reads several entries that live where place lives, at one moment, in their order.
func (g *Grid) GetMany(ctx context.Context, place Data, keys []Ref) ([]Entry, error) {
	o := op{Kind: opGetMany}
	for _, k := range keys {
		o.Keys = append(o.Keys, k.wire())
	}
	b, err := g.call(ctx, Key{Place: place, Data: place}, o, true)
	if err != nil {
		return nil, err
	}
	list, err := decode[[]entryReply](b)
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = e.entry()
	}
	return out, err
}
