package clientproto

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// reserved is how the names of the job engine's own maps begin. Clients may look at them.
const reserved = "engine_"

// tryAtMost is how long a write with a time-out of its own waits at most: so that its answer comes within the request's budget.
const tryAtMost = requestBudget - 10*time.Second

// never stands for no end in times that clients read.
const never = math.MaxInt64

// imap is the map of a request, as the client's thread uses it: its writes pass that thread's locks. Some requests, such as that to put all of a
// list, name no thread: they pass all locks of their client, for else who has locked a key would wait for itself.
func (q *call) imap() *imap.Map {
	owner := imap.Owner{Session: q.c.session, Thread: imap.AnyThread}
	for i, f := range q.spec.fields {
		switch f.name {
		case "threadId":
			owner.Thread, _ = q.args[i].(int64)
		case "referenceId":
			owner.Call, _ = q.args[i].(int64)
		}
	}
	m := q.c.s.cfg.Maps.Map(q.text("name")).As(owner)
	if q.in != nil {
		m = m.In(q.in...)
	}
	return m
}

func (q *call) key() imap.Key { return keyOf(q.data("key")) }

func (q *call) keys() []imap.Key {
	list := q.list("keys")
	keys := make([]imap.Key, len(list))
	for i, d := range list {
		keys[i] = keyOf(d)
	}
	return keys
}

// keyOf is a key with the placement that the client chose for it, if any.
func keyOf(d data) imap.Key { return imap.Key{Data: d.Data, Hash: d.hash} }

// writable refuses writes to what only the job engine may change.
func (q *call) writable() error {
	if name := q.text("name"); strings.HasPrefix(name, reserved) {
		return fail(codeAccessControl, "map %q belongs to the job engine and is only to be read", name)
	}
	return nil
}

// life reads a time to live or max-idle in milliseconds: negative ones ask for the map's default, 0 for no end.
func (q *call) life(name string) time.Duration {
	switch ms := q.long(name); {
	case ms < 0:
		return 0
	case ms == 0 || ms >= never/int64(time.Millisecond):
		return imap.Forever
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// wait reads how long the caller wants to wait, and lease how long to have a lock; negative and huge ones mean no end.
func (q *call) wait(name string) time.Duration {
	if ms := q.long(name); ms >= 0 && ms < never/int64(time.Millisecond) {
		return time.Duration(ms) * time.Millisecond
	}
	return math.MaxInt64 / 4
}

func (q *call) lease(name string) time.Duration {
	if ms := q.long(name); ms > 0 && ms < never/int64(time.Millisecond) {
		return time.Duration(ms) * time.Millisecond
	}
	return 0
}

// value appends serialized data, with no partition hash in front: the payload decides.
func value(e *encoder, d imap.Data) {
	if len(d) == 0 {
		e.null()
		return
	}
	e.begin(0)
	e.buf = append(e.buf, 0, 0, 0, 0)
	e.buf = append(e.buf, d...)
}

// valueOrNull is the answer that is a value, or null.
func (q *call) valueOrNull(d imap.Data) ([]byte, error) {
	a := q.answer()
	value(a, d)
	return a.bytes(), nil
}

func (q *call) old(e imap.Entry) ([]byte, error) { return q.valueOrNull(e.Value) }

func (q *call) yes(b bool, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.bool(b)
	return a.bytes(), nil
}

func (q *call) done(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return q.empty()
}

// reading makes a handler of one that only reads: within the request's budget.
func reading(h handler) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		ctx, cancel := budget(ctx)
		defer cancel()
		return h(ctx, q)
	}
}

// writing makes a handler of one that writes. A key that somebody has locked is waited for as long as the request may take.
func writing(h handler) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		if err := q.writable(); err != nil {
			return nil, err
		}
		ctx, cancel := budget(ctx)
		defer cancel()
		return h(ctx, q)
	}
}

// writer does one write.
type writer = func(context.Context, *call, *imap.Map) (imap.WriteResult, error)

// write is a handler of one write; answer makes its answer.
func write(do writer, answer func(*call, imap.WriteResult) ([]byte, error)) handler {
	return writing(func(ctx context.Context, q *call) ([]byte, error) {
		res, err := do(ctx, q, q.imap())
		if err != nil {
			return nil, err
		}
		return answer(q, res)
	})
}

func withOld(q *call, res imap.WriteResult) ([]byte, error)     { return q.old(res.Old) }
func withApplied(q *call, res imap.WriteResult) ([]byte, error) { return q.yes(res.Applied, nil) }
func withNothing(q *call, _ imap.WriteResult) ([]byte, error)   { return q.empty() }

func doPut(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Put(ctx, q.key(), q.data("value").Data, q.life("ttl"))
}

// doTryPut puts with the map's own time to live: the request has none.
func doTryPut(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Put(ctx, q.key(), q.data("value").Data, 0)
}

func doSet(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Set(ctx, q.key(), q.data("value").Data, q.life("ttl"))
}

func doPutIfAbsent(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.PutIfAbsent(ctx, q.key(), q.data("value").Data, q.life("ttl"))
}

// lives reads the times of a request. Clients count on idle times that end at whole seconds.
func (q *call) lives() imap.Life {
	idle := q.life("maxIdle")
	if idle > 0 {
		idle = max(idle, time.Second) // less could be over at once
	}
	return imap.Life{TTL: q.life("ttl"), MaxIdle: idle, Whole: true}
}

func doPutFor(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.PutFor(ctx, q.key(), q.data("value").Data, q.lives())
}

func doPutIfAbsentFor(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.PutIfAbsentFor(ctx, q.key(), q.data("value").Data, q.lives())
}

func doReplace(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Replace(ctx, q.key(), q.data("value").Data, 0)
}

func doReplaceIfSame(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.ReplaceIfSame(ctx, q.key(), q.data("test").Data, q.data("value").Data, 0)
}

func doRemove(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Remove(ctx, q.key())
}

func doRemoveIfSame(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.RemoveIfSame(ctx, q.key(), q.data("value").Data)
}

func doDelete(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Delete(ctx, q.key())
}

func doEvict(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.Evict(ctx, q.key())
}

func doSetTTL(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
	return m.SetTTL(ctx, q.key(), q.life("ttl"))
}

// transient is a write that does not reach the map's store.
func transient(do writer) writer {
	return func(ctx context.Context, q *call, m *imap.Map) (imap.WriteResult, error) {
		return do(ctx, q, m.Transient())
	}
}

// within is a write that gives up when the key is locked for longer than its timeout: then the answer is no.
func within(do writer, yes func(imap.WriteResult) bool) handler {
	return func(ctx context.Context, q *call) ([]byte, error) {
		if err := q.writable(); err != nil {
			return nil, err
		}
		ctx, cancel := budget(ctx)
		defer cancel()
		res, err := do(ctx, q, q.imap().Waiting(min(q.wait("timeout"), tryAtMost)))
		if errors.Is(err, grid.ErrBusy) {
			return q.yes(false, nil)
		}
		return q.yes(err == nil && yes(res), err)
	}
}

func get(ctx context.Context, q *call) ([]byte, error) {
	e, err := q.imap().Get(ctx, q.key())
	if err != nil {
		return nil, err
	}
	return q.old(e)
}

func containsKey(ctx context.Context, q *call) ([]byte, error) {
	return q.yes(q.imap().ContainsKey(ctx, q.key()))
}

func containsValue(ctx context.Context, q *call) ([]byte, error) {
	return q.yes(q.imap().ContainsValue(ctx, q.data("value").Data))
}

func isEmpty(ctx context.Context, q *call) ([]byte, error) { return q.yes(q.imap().IsEmpty(ctx)) }

func size(ctx context.Context, q *call) ([]byte, error) {
	n, err := q.imap().Size(ctx)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.int32(int32(min(n, math.MaxInt32)))
	return a.bytes(), nil
}

func clearMap(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.imap().Clear(ctx)
	return q.done(err)
}

func evictAll(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.imap().EvictAll(ctx)
	return q.done(err)
}

func destroyProxy(ctx context.Context, q *call) ([]byte, error) {
	if q.text("service") != mapService {
		return q.empty()
	}
	err := q.imap().Destroy(ctx)
	if err == nil {
		q.c.s.object(q.text("name"), false)
	}
	return q.done(err)
}

func loadAll(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.imap().LoadAll(ctx, q.flag("replace"))
	return q.done(err)
}

func loadKeys(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.imap().LoadKeys(ctx, q.keys(), q.flag("replace"))
	return q.done(err)
}

func getAll(ctx context.Context, q *call) ([]byte, error) {
	list, err := q.imap().GetAll(ctx, q.keys())
	if err != nil {
		return nil, err
	}
	return q.entries(list)
}

func putAll(ctx context.Context, q *call) ([]byte, error) {
	entries, _ := q.field("entries").([]entry)
	list := make([]imap.Pair, len(entries))
	for i, e := range entries {
		list[i] = imap.Pair{Key: keyOf(e.key), Value: e.value.Data}
	}
	return q.done(q.imap().PutAll(ctx, list))
}

// entries is the answer that is a list of pairs.
func (q *call) entries(list []imap.Entry) ([]byte, error) {
	a := q.answer()
	a.open()
	for _, e := range list {
		if e.Found() {
			value(a, e.Key)
			value(a, e.Value)
		}
	}
	a.close()
	return a.bytes(), nil
}

// datas is the answer that is a list of values.
func (q *call) datas(list []imap.Data) ([]byte, error) {
	a := q.answer()
	a.open()
	for _, d := range list {
		value(a, d)
	}
	a.close()
	return a.bytes(), nil
}

func entryView(ctx context.Context, q *call) ([]byte, error) {
	v, err := q.imap().View(ctx, q.key())
	if err != nil {
		return nil, err
	}
	a := q.answer()
	if !v.Found() {
		a.int64(0)
		a.null()
		return a.bytes(), nil
	}
	a.int64(millis(v.MaxIdle))
	a.open()
	a.begin(0)
	for _, n := range []int64{
		v.Cost, instant(v.Created), instantOrNever(v.Expires), int64(v.Hits), instant(v.Accessed), 0, instant(v.Updated), int64(v.Version),
		millis(v.SetTTL), millis(v.MaxIdle),
	} {
		a.int64(n)
	}
	value(a, v.Key)
	value(a, v.Value)
	a.close()
	return a.bytes(), nil
}

// millis is a time in milliseconds; no end is the largest number.
func millis(d time.Duration) int64 {
	if d <= 0 || d == imap.Forever {
		return never
	}
	return d.Milliseconds()
}

func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func instantOrNever(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMilli()
}

func lock(ctx context.Context, q *call) ([]byte, error) {
	if err := q.writable(); err != nil {
		return nil, err
	}
	q.c.s.locks(q.c.client.String())
	_, err := q.imap().Lock(ctx, q.key(), q.lease("ttl"))
	return q.done(err)
}

func tryLock(ctx context.Context, q *call) ([]byte, error) {
	if err := q.writable(); err != nil {
		return nil, err
	}
	q.c.s.locks(q.c.client.String())
	_, ok, err := q.imap().TryLock(ctx, q.key(), q.wait("timeout"), q.lease("lease"))
	return q.yes(ok, err)
}

func isLocked(ctx context.Context, q *call) ([]byte, error) {
	return q.yes(q.imap().IsLocked(ctx, q.key()))
}

func unlock(ctx context.Context, q *call) ([]byte, error) {
	return q.done(q.imap().Unlock(ctx, q.key()))
}

func forceUnlock(ctx context.Context, q *call) ([]byte, error) {
	_, err := q.imap().ForceUnlock(ctx, q.key())
	return q.done(err)
}
