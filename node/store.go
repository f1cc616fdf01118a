package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/imap"
)

// maxEngineValue bounds what the engine may store in one entry.
const maxEngineValue = 4 << 20

// engineStore is the maps as the engine sees them: string keys, placed by job.
type engineStore struct{ grid *imap.Grid }

var _ engine.Store = engineStore{}

// engineErr turns the grid's kinds of error into the engine's.
func engineErr(err error) error {
	if err == nil {
		return nil
	}
	switch grid.KindOf(err) {
	case grid.Retryable:
		return fmt.Errorf("%w: %v", engine.ErrRetryable, err)
	case grid.Indeterminate:
		return fmt.Errorf("%w: %v", engine.ErrIndeterminate, err)
	}
	return err
}

func refOf(k engine.Key) imap.Ref { return imap.Ref{Map: k.Map, Key: imap.String(k.Key)} }

// entryOf turns an entry of a placed key back. Place is the caller's, or, for a scan, what the key tells: the part before its first slash.
func entryOf(e imap.Entry, k engine.Key) engine.Entry {
	out := engine.Entry{Key: k, Version: e.Version}
	if e.Found() {
		out.Value = e.Value.Payload()
	}
	return out
}

// value wraps the engine's bytes: a byte array in Hazelcast's form would cost a length more, so only the type goes in front.
func value(b []byte) (imap.Data, error) {
	if len(b) > maxEngineValue {
		return nil, fmt.Errorf("%w: a value of %d bytes, the limit is %d", grid.ErrTooLarge, len(b), maxEngineValue)
	}
	return imap.Raw(b), nil
}

func (s engineStore) Get(ctx context.Context, k engine.Key) (engine.Entry, error) {
	list, err := s.GetAll(ctx, []engine.Key{k})
	if err != nil {
		return engine.Entry{}, err
	}
	return list[0], nil
}

func (s engineStore) GetAll(ctx context.Context, keys []engine.Key) ([]engine.Entry, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	refs := make([]imap.Ref, len(keys))
	for i, k := range keys {
		if k.Place != keys[0].Place {
			return nil, errors.New("keys of different places cannot be read at one moment")
		}
		refs[i] = refOf(k)
	}
	list, err := s.grid.GetMany(ctx, imap.String(keys[0].Place), refs)
	if err != nil {
		return nil, engineErr(err)
	}
	out := make([]engine.Entry, len(keys))
	for i, e := range list {
		out[i] = entryOf(e, keys[i])
	}
	return out, nil
}

func (s engineStore) Scan(ctx context.Context, mapName string, fn func(engine.Entry) error) error {
	return engineErr(s.grid.Map(mapName).Scan(ctx, func(e imap.Entry) error {
		key, _, err := e.Key.Text()
		if err != nil {
			return err
		}
		place, _, _ := strings.Cut(string(key), "/")
		return fn(entryOf(e, engine.Key{Map: mapName, Place: place, Key: string(key)}))
	}))
}

func (s engineStore) Size(ctx context.Context, mapName string) (int, error) {
	n, err := s.grid.Map(mapName).Size(ctx)
	return n, engineErr(err)
}

func (s engineStore) Txn(ctx context.Context, t engine.Txn) (engine.TxnResult, error) {
	x, err := txnOf(t)
	if err != nil {
		return engine.TxnResult{}, err
	}
	res, err := s.grid.Txn(ctx, x)
	if err != nil {
		return engine.TxnResult{}, engineErr(err)
	}
	out := engine.TxnResult{Applied: res.Applied}
	if !res.Applied {
		for i, e := range res.Current {
			out.Current = append(out.Current, entryOf(e, t.If[i].Key))
		}
		return out, nil
	}
	for range t.Put {
		out.Versions = append(out.Versions, res.Version)
	}
	return out, nil
}

func txnOf(t engine.Txn) (imap.Txn, error) {
	var x imap.Txn
	place := ""
	at := func(k engine.Key) (imap.Ref, error) {
		if place != "" && k.Place != place {
			return imap.Ref{}, fmt.Errorf("a transaction over the places %q and %q", place, k.Place)
		}
		place = k.Place
		return refOf(k), nil
	}
	for _, c := range t.If {
		r, err := at(c.Key)
		if err != nil {
			return x, err
		}
		x.If = append(x.If, imap.Cond{Ref: r, Version: c.Version})
	}
	for _, p := range t.Put {
		r, err := at(p.Key)
		if err != nil {
			return x, err
		}
		v, err := value(p.Value)
		if err != nil {
			return x, err
		}
		x.Put = append(x.Put, imap.Put{Ref: r, Value: v, TTL: p.TTL})
	}
	for _, k := range t.Delete {
		r, err := at(k)
		if err != nil {
			return x, err
		}
		x.Delete = append(x.Delete, r)
	}
	x.Place = imap.String(place)
	return x, nil
}
