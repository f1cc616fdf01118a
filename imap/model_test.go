package imap

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// simple is what a map is to its users, in the plainest code.
type simple struct {
	entries map[string]simpleEntry
	since   time.Time // since when the primary serves
	config  MapConfig
}

type simpleEntry struct {
	value             string
	written, accessed time.Time
	ttl, idle         time.Duration
	changed           time.Time // when the time to live was set
}

func (m *simple) end(e simpleEntry) time.Time {
	never := time.Now().Add(1e6 * time.Hour)
	byTTL, byIdle := never, never
	if e.ttl > 0 {
		byTTL = e.changed.Add(e.ttl)
	}
	if e.idle > 0 {
		byIdle = e.accessed.Add(e.idle)
		if e.accessed.Before(m.since) {
			byIdle = byIdle.Add(e.idle/4 + 500*time.Millisecond)
			if anew := m.since.Add(min(e.idle, 10*time.Second)); anew.After(byIdle) {
				byIdle = anew
			}
		}
	}
	if byIdle.Before(byTTL) {
		return byIdle
	}
	return byTTL
}

func (m *simple) get(k string, now time.Time) (simpleEntry, bool) {
	e, ok := m.entries[k]
	if ok && !now.Before(m.end(e)) {
		delete(m.entries, k)
		return simpleEntry{}, false
	}
	return e, ok
}

func (m *simple) read(k string, now time.Time) string {
	e, ok := m.get(k, now)
	if !ok {
		return ""
	}
	e.accessed = now
	m.entries[k] = e
	return e.value
}

func (m *simple) put(k, v string, ttl, idle time.Duration, now time.Time) {
	e, ok := m.get(k, now)
	if !ok {
		e.written = now
	}
	e.value, e.accessed, e.changed, e.ttl, e.idle = v, now, now, within(ttl, m.config.TTL), within(idle, m.config.MaxIdle)
	m.entries[k] = e
}

func (m *simple) keys(now time.Time) []string {
	var out []string
	for k := range m.entries {
		if _, ok := m.get(k, now); ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// Whatever is done to a map, and however often its data moves to another store, it is what the plain model says; and a backup that only
// applied the effects holds the same.
func TestStore_AsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := MapConfig{TTL: draw(t, "default ttl", 0, 0, 3*time.Second), MaxIdle: draw(t, "default idle", 0, 0, 2*time.Second)}
		home := func() *Store {
			return NewHome(HomeConfig{Maps: Configs{"m": cfg}}).NewStore(func(v uint64) uint64 { return v })
		}
		r := &run{t: t, s: home(), backup: home(), now: time.Now(), model: &simple{entries: map[string]simpleEntry{}, config: cfg}}
		r.model.since = r.now
		r.tick(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.step(home)
		}
		r.tick(600 * time.Millisecond)
		r.tick(10 * time.Millisecond)
		r.same()
	})
}

func draw(t *rapid.T, name string, of ...time.Duration) time.Duration {
	return rapid.SampledFrom(of).Draw(t, name)
}

type run struct {
	t         *rapid.T
	s, backup *Store
	version   uint64
	now       time.Time
	model     *simple
}

func (r *run) apply(effect []byte) {
	if effect == nil {
		return
	}
	r.version++
	for _, s := range []*Store{r.s, r.backup} {
		if _, err := s.Apply(effect, r.version, r.now); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *run) do(o op) []byte {
	o.Map = "m"
	execute := func() Decision { return r.s.Execute(encode(o), r.version+1, r.now) }
	if rapid.Bool().Draw(r.t, "here") { // not from another member
		execute = func() Decision { return r.s.Do(o.own(), r.version+1, r.now) }
	}
	d := execute()
	if d.Err != nil {
		r.t.Fatalf("%+v: %v", o, d.Err)
	}
	r.apply(d.Effect)
	return d.Reply
}

// tick lets time pass, with housekeeping as often as a primary has it.
func (r *run) tick(d time.Duration) {
	for end := r.now.Add(d); ; {
		r.apply(r.s.Over(r.now, nil))
		if !r.now.Before(end) {
			return
		}
		r.now = r.now.Add(min(end.Sub(r.now), 100*time.Millisecond))
	}
}

func (r *run) write(k string, w write) bool {
	rep, err := decode[writeReply](r.do(op{Kind: opWrite, Key: String(k), Write: &w}))
	if err != nil {
		r.t.Fatal(err)
	}
	return rep.Applied
}

func (r *run) is(what string, got, want any) {
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (r *run) step(home func() *Store) {
	t, m := r.t, r.model
	k := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
	v := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")
	ttl := draw(t, "ttl", 0, time.Second, 4*time.Second, Forever)
	idle := draw(t, "idle", 0, time.Second, 3*time.Second, Forever)
	_, there := m.get(k, r.now)
	switch what := rapid.IntRange(0, 12).Draw(t, "what"); what {
	case 0:
		r.write(k, write{Value: String(v), TTL: ttl, Idle: idle})
		m.put(k, v, ttl, idle, r.now)
	case 1:
		r.is("put if absent", r.write(k, write{Cond: condAbsent, Value: String(v), TTL: ttl, Idle: idle}), !there)
		if !there {
			m.put(k, v, ttl, idle, r.now)
		}
	case 2:
		r.is("remove", r.write(k, write{Remove: true}), there)
		delete(m.entries, k)
	case 3:
		same := there && m.entries[k].value == v
		r.is("remove if same", r.write(k, write{Remove: true, Cond: condValue, Old: String(v)}), same)
		if same {
			delete(m.entries, k)
		}
	case 4:
		r.is("set ttl", r.write(k, write{Keep: true, TTL: ttl}), there)
		if e, ok := m.entries[k]; ok && there {
			e.ttl, e.changed = within(ttl, m.config.TTL), r.now
			m.entries[k] = e
		}
	case 5, 6:
		e, err := decode[entryReply](r.do(op{Kind: opGet, Key: String(k)}))
		if err != nil {
			t.Fatal(err)
		}
		r.is("get", bodyText(e.Value), m.read(k, r.now))
	case 7:
		r.getAll(k)
	case 8:
		r.do(op{Kind: opPutAll, Bulk: &bulk{Put: []pair{{Key: String(k), Value: String(v)}, {Key: String("a"), Value: String("9")}}}})
		m.put(k, v, 0, 0, r.now)
		m.put("a", "9", 0, 0, r.now)
	case 9:
		n, _ := decode[int](r.do(op{Kind: opClear, Sweep: sweepClear}))
		r.is("cleared", n, len(m.keys(r.now)))
		clear(m.entries)
	case 10:
		r.takeover(home)
	default:
		r.tick(draw(t, "passes", 10*time.Millisecond, 500*time.Millisecond, time.Second, 1700*time.Millisecond))
	}
	r.same()
}

func (r *run) getAll(k string) {
	list, err := decode[[]entryReply](r.do(op{Kind: opGetAll, Bulk: &bulk{Keys: [][]byte{String(k), String("none"), String("a")}}}))
	if err != nil {
		r.t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, e := range list {
		got[Data(e.Key).Show()] = bodyText(e.Value)
	}
	for _, k := range []string{k, "a"} {
		if v := r.model.read(k, r.now); v != "" {
			want[k] = v
		}
	}
	r.is("get all", got, want)
}

// takeover goes on with a store that was filled from a snapshot, as the old primary is gone.
func (r *run) takeover(home func() *Store) {
	next := home()
	for _, p := range piecesOf(r.s, 64, r.now) {
		if err := next.Restore(p, r.now); err != nil {
			r.t.Fatal(err)
		}
	}
	r.is("restored", contentOf(next, r.now), contentOf(r.s, r.now))
	r.s, r.model.since = next, r.now
	r.tick(0)
}

// same compares what can be seen without reading.
func (r *run) same() {
	var got []string
	rep, err := decode[scanReply](r.do(op{Kind: opScan, Limit: 1 << 20}))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range rep.Entries {
		got = append(got, Data(e.Key).Show())
	}
	want := r.model.keys(r.now)
	r.is("keys", got, want)
	n, _ := decode[int](r.do(op{Kind: opSize}))
	r.is("size", n, len(want))
	r.is("records", fmt.Sprint(len(r.s.timers), r.s.bytes()), fmt.Sprint(len(r.backup.timers), r.backup.bytes()))
	a, b := contentOf(r.s, r.now), contentOf(r.backup, r.now)
	for k, e := range a { // reads are counted at the primary only
		e.Hits, e.Accessed = b[k].Hits, b[k].Accessed
		a[k] = e
	}
	r.is("backup", b, a)
}

// bytes is what the store's entries cost, which must be what its home says.
func (s *Store) bytes() int64 {
	var n int64
	for _, m := range s.maps {
		n += m.bytes
	}
	if used := s.home.Used(); used != n {
		panic(fmt.Sprintf("%d bytes are used, %d are counted", n, used))
	}
	return n
}

func bodyText(d Data) string {
	body, _, _ := d.Text()
	return strings.Clone(string(body))
}
