package clientproto

import (
	"context"
	"strings"
	"time"

	"gridnode/imap"
)

// reserved is how the names of the job engine's own maps begin. Clients may look at them.
const reserved = "engine_"

// budget bounds a request that does not say how long it wants to wait.
func budget(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestBudget)
}

func (q *call) imap() *imap.Map { return q.c.s.cfg.Maps.Map(q.text("name")) }

// key is the key of a request, with the placement that the client chose for it.
func (q *call) key() imap.Key { return imap.Key{Data: q.data("key").Data} }

// writable refuses writes to what only the job engine may change.
func (q *call) writable() error {
	if name := q.text("name"); strings.HasPrefix(name, reserved) {
		return fail(codeAccessControl, "map %q belongs to the job engine and is only to be read", name)
	}
	return nil
}

// ttl reads a time in milliseconds. Negative ones ask for the map's default.
func (q *call) millis(name string) time.Duration {
	ms := q.long(name)
	if ms < 0 || ms > int64(1<<62/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// dataOrNull appends a value, or null for an absent one.
func dataOrNull(e *encoder, d imap.Data) {
	if len(d) == 0 {
		e.null()
		return
	}
	value(e, d)
}

// value appends serialized data, with no partition hash in front: the payload decides.
func value(e *encoder, d imap.Data) {
	e.begin(0)
	e.int32(0)
	e.buf = append(e.buf, d...)
}

func (q *call) old(e imap.Entry) ([]byte, error) {
	a := q.answer()
	if e.Found() {
		value(a, e.Value)
	} else {
		a.null()
	}
	return a.bytes(), nil
}

func (q *call) yes(b bool) ([]byte, error) {
	a := q.answer()
	a.bool(b)
	return a.bytes(), nil
}

func get(ctx context.Context, q *call) ([]byte, error) {
	ctx, cancel := budget(ctx)
	defer cancel()
	e, err := q.imap().Get(ctx, q.key())
	if err != nil {
		return nil, err
	}
	return q.old(e)
}

func containsKey(ctx context.Context, q *call) ([]byte, error) {
	ctx, cancel := budget(ctx)
	defer cancel()
	e, err := q.imap().Get(ctx, q.key())
	if err != nil {
		return nil, err
	}
	return q.yes(e.Found())
}

// write does a write within the request's budget.
func (q *call) write(ctx context.Context, do func(context.Context, *imap.Map) (imap.WriteResult, error)) (imap.WriteResult, error) {
	if err := q.writable(); err != nil {
		return imap.WriteResult{}, err
	}
	ctx, cancel := budget(ctx)
	defer cancel()
	return do(ctx, q.imap())
}

func put(ctx context.Context, q *call) ([]byte, error) {
	res, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.Put(ctx, q.key(), q.data("value").Data, q.millis("ttl"))
	})
	if err != nil {
		return nil, err
	}
	return q.old(res.Old)
}

func set(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.Set(ctx, q.key(), q.data("value").Data, q.millis("ttl"))
	})
	if err != nil {
		return nil, err
	}
	return q.empty()
}

func putIfAbsent(ctx context.Context, q *call) ([]byte, error) {
	res, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.PutIfAbsent(ctx, q.key(), q.data("value").Data, q.millis("ttl"))
	})
	if err != nil {
		return nil, err
	}
	return q.old(res.Old)
}

func replace(ctx context.Context, q *call) ([]byte, error) {
	res, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.Replace(ctx, q.key(), q.data("value").Data, 0)
	})
	if err != nil {
		return nil, err
	}
	return q.old(res.Old)
}

func replaceIfSame(ctx context.Context, q *call) ([]byte, error) {
	res, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.ReplaceIfSame(ctx, q.key(), q.data("test").Data, q.data("value").Data, 0)
	})
	if err != nil {
		return nil, err
	}
	return q.yes(res.Applied)
}

func remove(ctx context.Context, q *call) ([]byte, error) {
	res, err := q.write(ctx, func(ctx context.Context, m *imap.Map) (imap.WriteResult, error) {
		return m.Remove(ctx, q.key())
	})
	if err != nil {
		return nil, err
	}
	return q.old(res.Old)
}

func size(ctx context.Context, q *call) ([]byte, error) {
	ctx, cancel := budget(ctx)
	defer cancel()
	n, err := q.imap().Size(ctx)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.int32(int32(min(n, 1<<31-1)))
	return a.bytes(), nil
}

func isEmpty(ctx context.Context, q *call) ([]byte, error) {
	ctx, cancel := budget(ctx)
	defer cancel()
	n, err := q.imap().Size(ctx)
	if err != nil {
		return nil, err
	}
	return q.yes(n == 0)
}
