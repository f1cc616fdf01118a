package imap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"gridnode/grid"
)

// Interceptor changes what goes into a map and what comes out of it, value by value. It runs at the primary, under the partition's lock: it
// has to be quick and must not wait for anything. Each function returns the value to go on with; nil leaves it as it is. An error refuses the
// operation, which then changes nothing. A nil function leaves everything as it is.
//
// Queries, entry views, listeners, entry processors and transactions see entries as they are stored.
type Interceptor struct {
	Get    func(value Data) (Data, error)      // what a read returns; value is nil where there is no entry
	Put    func(old, value Data) (Data, error) // what a write stores; old is nil where there was no entry
	Remove func(old Data) (Data, error)        // what a removal returns
}

// NewInterceptor makes an interceptor of what a caller of [Map.AddInterceptor] gives. It is called again at every primary, and refuses what it
// cannot read.
type NewInterceptor func(arg Data) (Interceptor, error)

// Limits of interceptors.
const (
	MaxInterceptors   = 16 // of one map
	maxInterceptorArg = 16 << 10
)

// interceptOp is the part of an operation that adds or removes an interceptor.
type interceptOp struct {
	ID     string
	Name   string
	Arg    []byte
	Remove bool
}

// interceptState is an interceptor of a map in effects and snapshots.
type interceptState struct {
	Map    string
	ID     string
	Name   string
	Arg    []byte
	Remove bool
}

// intercepting is an interceptor of a map in one partition.
type intercepting struct {
	interceptState
	made *Interceptor // nil until it is used here
}

// AddInterceptor adds an interceptor to a map: the one that all members have under that name, made of arg. It works in every partition when the
// call returns, behind those that are there already, until it is removed or the map is destroyed; failures of members do not end it. Adding
// the same twice is adding it once. After an error it may work in some partitions: add or remove it again.
func (m *Map) AddInterceptor(ctx context.Context, name string, arg Data) (id string, err error) {
	if System(m.name) {
		return "", fmt.Errorf("%w: the entries of %s belong to the job engine and cannot be intercepted", grid.ErrRefused, m.name)
	}
	if len(arg) > maxInterceptorArg || len(name) > MaxMapName {
		return "", fmt.Errorf("%w: an interceptor of %d bytes, the limit is %d", grid.ErrTooLarge, len(arg), maxInterceptorArg)
	}
	sum := sha256.Sum256(arg)
	id = name + "#" + hex.EncodeToString(sum[:8])
	_, err = m.intercept(ctx, interceptOp{ID: id, Name: name, Arg: arg})
	return id, err
}

// RemoveInterceptor removes an interceptor, and reports whether there was one of that id.
func (m *Map) RemoveInterceptor(ctx context.Context, id string) (bool, error) {
	n, err := m.intercept(ctx, interceptOp{ID: id, Remove: true})
	return n > 0, err
}

func (m *Map) intercept(ctx context.Context, i interceptOp) (int, error) {
	o := m.op(opIntercept)
	o.Inter = &i
	return m.onAll(ctx, o)
}

// intercept decides the operation.
func (x *execution) intercept(o op) (any, error) {
	i := o.Inter
	if i == nil {
		return nil, fmt.Errorf("%w: an operation on an interceptor without its part", grid.ErrBadMessage)
	}
	x.seeAll()
	st := interceptState{Map: o.Map, ID: i.ID, Name: i.Name, Arg: i.Arg, Remove: i.Remove}
	list := x.s.inter[o.Map]
	there := slices.ContainsFunc(list, func(k *intercepting) bool { return k.ID == i.ID })
	if !i.Remove {
		if _, err := x.s.home.intercept(i.Name, i.Arg); err != nil {
			return nil, err
		}
		if !there && len(list) >= MaxInterceptors {
			return nil, fmt.Errorf("%w: map %s has %d interceptors already", grid.ErrRefused, o.Map, len(list))
		}
	}
	if there != i.Remove {
		return 0, nil
	}
	x.changes = append(x.changes, change{Map: o.Map, Kind: changeIntercept, Inter: &st})
	return 1, nil
}

// intercept makes an interceptor.
func (h *Home) intercept(name string, arg Data) (*Interceptor, error) {
	fn := h.cfg.Interceptors[name]
	if fn == nil {
		return nil, fmt.Errorf("%w: the primary has no interceptor %q", grid.ErrRefused, name)
	}
	made, err := guardedCall(name, func() (Interceptor, error) { return fn(arg) })
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// guardedCall runs foreign code. If it panics, the member lives on.
func guardedCall[T any](name string, fn func() (T, error)) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: interceptor %q panicked: %v", grid.ErrInternal, name, r)
		}
	}()
	if out, err = fn(); err != nil {
		err = fmt.Errorf("%w: interceptor %q: %v", grid.ErrRefused, name, err)
	}
	return out, err
}

// through sends a value through the map's interceptors, one after the other. of returns what one makes of it.
func (x *execution) through(mapName string, value []byte, of func(i *Interceptor, value Data) (Data, error)) ([]byte, error) {
	for _, k := range x.s.inter[mapName] {
		if k.made == nil {
			made, err := x.s.home.intercept(k.Name, k.Arg)
			if err != nil {
				return nil, err
			}
			k.made = made
		}
		out, err := guardedCall(k.Name, func() (Data, error) { return of(k.made, value) })
		if err != nil {
			return nil, err
		}
		if len(out) > MaxValue {
			return nil, fmt.Errorf("%w: interceptor %q made a value of %d bytes, the limit is %d", grid.ErrTooLarge, k.Name, len(out), MaxValue)
		}
		if out != nil {
			value = out
		}
	}
	return value, nil
}

func getThrough(i *Interceptor, v Data) (Data, error) {
	if i.Get == nil {
		return nil, nil
	}
	return i.Get(v)
}

func removeThrough(i *Interceptor, v Data) (Data, error) {
	if i.Remove == nil {
		return nil, nil
	}
	return i.Remove(v)
}

func putThrough(old Data) func(i *Interceptor, v Data) (Data, error) {
	return func(i *Interceptor, v Data) (Data, error) {
		if i.Put == nil {
			return nil, nil
		}
		return i.Put(old, v)
	}
}

// setInterceptor takes over what an effect or a snapshot says of an interceptor.
func (s *Store) setInterceptor(st *interceptState) {
	if st == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(s.inter[st.Map]), func(k *intercepting) bool { return k.ID == st.ID })
	if !st.Remove {
		list = append(list, &intercepting{interceptState: *st})
	}
	if s.inter == nil {
		s.inter = map[string][]*intercepting{}
	}
	if s.inter[st.Map] = list; len(list) == 0 {
		delete(s.inter, st.Map)
	}
}
