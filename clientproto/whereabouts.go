package clientproto

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

const (
	maxSought   = 1 << 16 // clients that are looked for
	askAgain    = 250 * time.Millisecond
	askWithin   = 2 * time.Second
	forgetAfter = time.Minute
)

// whereabouts finds out to which members clients are connected whose own member is gone. It is safe for use by several goroutines at once.
type whereabouts struct {
	here   func(clients []string) []string
	others func(ctx context.Context, clients []string) (map[string]grid.MemberID, error)
	self   grid.MemberID

	mu     sync.Mutex // guards what follows
	lost   time.Time  // when a member was removed last
	sought map[string]*sighting
	wake   chan struct{} // holds one token when somebody is to be looked for
}

// sighting is what is known of one client.
type sighting struct {
	wanted time.Time     // the newest moment at which all members are to be asked, or later
	asked  time.Time     // when the asking began that led to via; zero: it has not succeeded yet
	via    grid.MemberID // none: no member had it
	used   time.Time     // when somebody wanted to know
}

func newWhereabouts(s *Server) *whereabouts {
	return &whereabouts{here: s.Connected, others: s.cfg.Peers.Connected, self: s.cfg.Self, sought: map[string]*sighting{}, wake: make(chan struct{}, 1)}
}

// where implements [imap.Where].
func (w *whereabouts) where(client string, after time.Time) (grid.MemberID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.sought[client]
	if x == nil {
		if len(w.sought) >= maxSought {
			return "", false
		}
		x = &sighting{}
		w.sought[client] = x
	}
	x.used = time.Now()
	if !x.asked.IsZero() && !x.asked.Before(after) {
		return x.via, true
	}
	if x.wanted.Before(after) {
		x.wanted = after
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return "", false
}

// run asks until ctx ends: for all clients at a time, and not more often than every askAgain.
func (w *whereabouts) run(ctx context.Context) error {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
		if list := w.open(); len(list) > 0 {
			w.ask(ctx, list)
		}
		if !sleep(ctx, askAgain) {
			return nil
		}
	}
}

// watch notes when members are removed, until ctx ends.
func (w *whereabouts) watch(ctx context.Context, v View) error {
	old := &grid.State{}
	for {
		state, changed := v.View()
		if lostMember(old, state) {
			w.memberLost()
		}
		old = state
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func lostMember(old, now *grid.State) bool {
	return slices.ContainsFunc(old.Members, func(m grid.Member) bool {
		_, ok := now.Member(m.ID)
		return !ok
	})
}

func (w *whereabouts) memberLost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = time.Now()
}

// lostLately reports whether a client may have been connected, within its grace, to a member that cannot be asked any more.
func (w *whereabouts) lostLately() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostNow()
}

func (w *whereabouts) lostNow() bool {
	return !w.lost.IsZero() && time.Since(w.lost) < imap.SessionGrace
}

// open returns the clients that are still to be looked for, and forgets those for whom nobody has asked for long.
func (w *whereabouts) open() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.sought, func(_ string, x *sighting) bool { return time.Since(x.used) > forgetAfter })
	for c, x := range w.sought {
		if x.asked.IsZero() || x.asked.Before(x.wanted) {
			list = append(list, c)
		}
	}
	return list
}

// ask asks all members. Where one does not answer, or was lost a moment ago, only those are known that another has.
func (w *whereabouts) ask(ctx context.Context, clients []string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	began := time.Now()
	here := w.here(clients)
	found, err := w.others(ctx, without(clients, here))
	if found == nil {
		found = map[string]grid.MemberID{}
	}
	for _, c := range here {
		found[c] = w.self
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range clients {
		x, via := w.sought[c], found[c]
		if x != nil && (via != "" || err == nil && !w.lostNow()) {
			x.asked, x.via = began, via
		}
	}
}
