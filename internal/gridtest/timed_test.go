package gridtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gridnode/imap"
)

// timed is the workload of entries that expire. Each key is written once. An entry is there for its time at least, once it was seen to be
// gone it never comes back, and in the end all are gone.
type timed struct {
	mu     sync.Mutex
	lives  map[string]*life
	recent []string
}

// life is what is known of one entry. Times are those of the calls, in nanoseconds.
type life struct {
	ttl     time.Duration
	asked   int64 // when the write was called
	acked   int64 // when it returned; 0: not, or not known to have run
	refused bool
	place   string // key that says where it lives
	reads   []sight
}

type sight struct {
	call, ret int64
	found     bool
	through   string
}

func (l *life) key(k string) imap.Key {
	return imap.Key{Data: imap.String(k), Place: imap.String(l.place)}
}

func newTimed() *timed { return &timed{lives: map[string]*life{}} }

const (
	recentKeys = 30
	afterlife  = 2500 * time.Millisecond // for which an entry is read after its time
)

func (w *timed) name() string                                { return "timed" }
func (w *timed) prepare(context.Context, *findings, *Member) {}

func (w *timed) step(ctx context.Context, f *findings, cl *client) {
	now := time.Now().UnixNano()
	w.mu.Lock()
	w.recent = slices.DeleteFunc(w.recent, func(k string) bool { return now > w.lives[k].asked+int64(w.lives[k].ttl+afterlife) })
	if n := len(w.recent); n >= recentKeys || n > 0 && cl.rnd.IntN(4) > 0 {
		k := w.recent[cl.rnd.IntN(n)]
		w.mu.Unlock()
		w.read(ctx, f, cl, k)
		return
	}
	k := "t" + cl.unique()
	l := &life{ttl: pick(cl.rnd, 100*time.Millisecond, 400*time.Millisecond, 1200*time.Millisecond), asked: now, place: k}
	if cl.rnd.IntN(2) == 0 {
		l.place = cl.focus()
	}
	w.lives[k] = l
	w.recent = append(w.recent, k)
	w.mu.Unlock()
	if late := time.Duration(cl.rnd.IntN(20)) * time.Millisecond; cl.rnd.IntN(2) == 0 {
		cl.aside(func() { w.readAfter(f, cl, k, l.ttl+late) })
	}
	_, err := cl.m.Map("timed").Set(ctx, l.key(k), imap.String(k), l.ttl)
	ran, unknown := f.called("write with a time to live through "+cl.m.Host, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ran {
		l.acked = time.Now().UnixNano()
	}
	l.refused = !ran && !unknown
}

// readAfter reads an entry right after its time, before its primary has looked for what is over.
func (w *timed) readAfter(f *findings, cl *client, k string, after time.Duration) {
	time.Sleep(after)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	w.read(ctx, f, cl, k)
}

func (w *timed) read(ctx context.Context, f *findings, cl *client, k string) bool {
	s := sight{call: time.Now().UnixNano(), through: cl.m.Host}
	w.mu.Lock()
	at := w.lives[k].key(k)
	w.mu.Unlock()
	e, err := cl.m.Map("timed").Get(ctx, at)
	ran, _ := f.called("read of a timed entry through "+cl.m.Host, err)
	if !ran {
		return false
	}
	s.ret, s.found = time.Now().UnixNano(), e.Found()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives[k].reads = append(w.lives[k].reads, s)
	return true
}

// final waits until all entries are gone: what a fault delayed may live longer by that.
func (w *timed) final(ctx context.Context, f *findings, cl *client) {
	for start := time.Now(); ; {
		n, err := cl.m.Map("timed").Size(ctx)
		if err == nil && n == 0 {
			break
		}
		if time.Since(start) > 10*time.Second {
			f.violate("timed: %d entries are still there through %s (%v)", n, cl.m.Host, err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, k := range w.recent {
		if !w.read(ctx, f, cl, k) {
			f.violate("timed: %s cannot be read through %s after all was mended", k, cl.m.Host)
		}
	}
}

func (w *timed) check(f *findings) {
	for k, l := range w.lives {
		slices.SortFunc(l.reads, func(a, b sight) int { return int(a.ret - b.ret) })
		if why := l.wrong(); why != "" {
			f.violate("timed: entry %s of %v, asked for at %s, acknowledged at %s: %s", k, l.ttl, stamp(l.asked), stamp(l.acked), why)
		}
	}
}

func stamp(ns int64) string {
	if ns == 0 {
		return "no time"
	}
	return time.Unix(0, ns).UTC().Format("05.000000")
}

// wrong says what is wrong with what was seen, if anything is. The reads are in the order of their returns.
func (l *life) wrong() string {
	var there, gone int64 // returns of the first read that found it, and of the first that knew it gone
	for _, s := range l.reads {
		if s.found {
			if l.refused {
				return fmt.Sprintf("it was read through %s, but its write was reported not to have happened", s.through)
			}
			if gone != 0 && s.call > gone {
				return fmt.Sprintf("a read that returned at %s knew it gone; it was there for one that began at %s through %s", stamp(gone), stamp(s.call), s.through)
			}
			if there == 0 {
				there = s.ret
			}
			continue
		}
		// Gone it is if it had been there before: since the acknowledgement, or since a read that found it.
		if born := min(orNever(l.acked), orNever(there)); s.call < born {
			continue
		}
		if s.ret < l.asked+int64(l.ttl) {
			return fmt.Sprintf("it was gone at %s through %s, before its time", stamp(s.ret), s.through)
		}
		if gone == 0 {
			gone = s.ret
		}
	}
	return ""
}

func orNever(ns int64) int64 {
	if ns == 0 {
		return 1<<63 - 1
	}
	return ns
}

// constant is the workload of scans: a set of keys that are written again and again, and never removed. Every scan and every size shows
// exactly that set.
type constant struct{}

const constantKeys = 20

func (w *constant) name() string { return "constant" }

func (w *constant) prepare(ctx context.Context, f *findings, m *Member) {
	for i := range constantKeys {
		if _, err := m.Map("constant").Set(ctx, key(fmt.Sprintf("s%d", i)), imap.String("first"), 0); err != nil {
			f.violate("constant: a write before any fault: %v", err)
		}
	}
}

func (w *constant) step(ctx context.Context, f *findings, cl *client) {
	switch cl.rnd.IntN(4) {
	case 0:
		w.scan(ctx, f, cl)
	case 1:
		n, err := cl.m.Map("constant").Size(ctx)
		if ran, _ := f.called("size through "+cl.m.Host, err); ran && n != constantKeys {
			f.violate("constant: the size of %d keys is %d through %s at %s", constantKeys, n, cl.m.Host, stamp(time.Now().UnixNano()))
		}
	default:
		k := fmt.Sprintf("s%d", cl.rnd.IntN(constantKeys))
		_, err := cl.m.Map("constant").Set(ctx, key(k), imap.String(cl.unique()), 0)
		f.called("write of a constant key through "+cl.m.Host, err)
	}
}

func (w *constant) scan(ctx context.Context, f *findings, cl *client) (ran bool) {
	seen := map[string]int{}
	err := cl.m.Map("constant").Scan(ctx, func(e imap.Entry) error { seen[e.Key.Show()]++; return nil })
	if ran, _ = f.called("scan through "+cl.m.Host, err); !ran {
		return false
	}
	for k, n := range seen {
		if n != 1 {
			f.violate("constant: a scan through %s shows %s %d times", cl.m.Host, k, n)
		}
	}
	if len(seen) != constantKeys {
		f.violate("constant: a scan through %s at %s shows %d keys of %d", cl.m.Host, stamp(time.Now().UnixNano()), len(seen), constantKeys)
	}
	return true
}

func (w *constant) final(ctx context.Context, f *findings, cl *client) {
	if !w.scan(ctx, f, cl) {
		f.violate("constant: no scan through %s after all was mended", cl.m.Host)
	}
}

func (w *constant) check(*findings) {}
