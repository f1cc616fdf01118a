package clientproto

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

const removalAfter = 2500 * time.Millisecond // of a member that is dead

// crowd is members with one client, whose connections come and go.
type crowd struct {
	t        *testing.T
	data     *local
	members  []*crowdMember
	locked   bool      // the client has taken the lock, and may count on it
	alone    time.Time // since when it is connected to no member that lives; zero: it is
	troubled time.Time // when there was last a member that did not answer
	group    sync.WaitGroup
}

type crowdMember struct {
	c         *crowd
	id        grid.MemberID
	s         *Server
	stop      context.CancelFunc
	ctx       context.Context
	connected bool
	dead      atomic.Pointer[time.Time] // when it died
	deaf      atomic.Bool               // it answers nobody
}

func (m *crowdMember) alive() bool { return m.dead.Load() == nil }

func (m *crowdMember) removed() bool {
	at := m.dead.Load()
	return at != nil && time.Since(*at) > removalAfter
}

const crowdClient = "client-1"

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{t: t, data: &local{}, alone: time.Now()}
	home := imap.NewHome(imap.HomeConfig{Where: func(client string, after time.Time) (grid.MemberID, bool) {
		for _, m := range c.members {
			if m.alive() {
				return m.s.Where(client, after)
			}
		}
		return "", false
	}})
	for range 3 {
		c.data.stores = append(c.data.stores, home.NewStore(func(v uint64) uint64 { return v }))
	}
	for i := range n {
		m := &crowdMember{c: c, id: grid.MemberID(fmt.Sprint("member-", i))}
		m.ctx, m.stop = context.WithCancel(context.Background())
		m.s = New(Config{Self: m.id, Maps: imap.NewAt(c.data, m.id), Peers: m})
		c.group.Go(func() { _ = m.s.seekers.run(m.ctx) })
		c.group.Go(func() { _ = m.s.endSessions(m.ctx) })
		c.members = append(c.members, m)
	}
	return c
}

func (m *crowdMember) Object(string, bool)              {}
func (m *crowdMember) Objects(context.Context) []string { return nil }

// Connected implements [Peers].
func (m *crowdMember) Connected(ctx context.Context, clients []string) (map[string]grid.MemberID, error) {
	found := map[string]grid.MemberID{}
	var err error
	for _, other := range m.c.members {
		switch {
		case other == m || other.removed():
		case other.deaf.Load() || !other.alive():
			err = errors.New("no answer")
		default:
			for _, c := range other.s.Connected(clients) {
				found[c] = other.id
			}
		}
	}
	if err != nil {
		sleep(ctx, time.Second)
	}
	return found, err
}

func (m *crowdMember) connect() {
	if m.connected = m.alive(); m.connected {
		m.s.arrived(crowdClient)
		m.c.alone = time.Time{}
	}
}

func (m *crowdMember) disconnect() {
	if m.connected {
		m.connected = false
		left, gone := m.s.departed(crowdClient)
		if gone {
			m.c.group.Go(func() { m.s.endSession(m.ctx, crowdClient, left) })
		}
		m.c.lonely()
	}
}

func (m *crowdMember) kill() {
	m.dead.Store(new(time.Now()))
	m.connected = false
	m.stop()
	m.c.lonely()
	time.AfterFunc(removalAfter+time.Millisecond, func() {
		for _, other := range m.c.members {
			other.s.seekers.memberLost()
		}
	})
}

func (m *crowdMember) lock() {
	if !m.connected {
		return
	}
	m.s.locks(crowdClient)
	k := imap.Key{Data: imap.String("k")}
	if _, ok, err := m.s.cfg.Maps.Map("m").As(imap.Owner{Session: crowdClient}).TryLock(m.ctx, k, 0, 0); !ok || err != nil {
		m.c.t.Errorf("the client's own lock: %v, %v", ok, err)
	}
	m.c.locked = true
}

func (c *crowd) lonely() {
	for _, m := range c.members {
		if m.connected {
			return
		}
	}
	if c.alone.IsZero() {
		c.alone = time.Now()
	}
}

// pass lets time go by at the primaries, and looks at the lock all the while.
func (c *crowd) pass(d time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		c.data.mu.Lock()
		for p, s := range c.data.stores {
			if e := s.Over(time.Now(), c.isMember); e != nil {
				c.data.n++
				if _, err := s.Apply(e, c.data.n, time.Now()); err != nil {
					c.t.Errorf("partition %d: %v", p, err)
				}
			}
		}
		c.data.mu.Unlock()
		c.check()
	}
}

func (c *crowd) isMember(id grid.MemberID) bool {
	for _, m := range c.members {
		if m.id == id {
			return !m.removed()
		}
	}
	return false
}

// The client's lock is there for as long as the client was away for less than the grace, and is free soon after.
func (c *crowd) check() {
	c.t.Helper()
	is, err := imap.NewAt(c.data, "member-0").Map("m").IsLocked(context.Background(), imap.Key{Data: imap.String("k")})
	if err != nil {
		c.t.Fatal(err)
	}
	away := time.Duration(0)
	if !c.alone.IsZero() {
		away = time.Since(c.alone)
	}
	switch {
	case away >= imap.SessionGrace:
		c.locked = c.locked && is // it may have lost it, and does not get it back by coming back
	case c.locked && !is:
		c.t.Fatalf("the client lost its lock, %v after its last connection", away)
	}
	for _, m := range c.members {
		if m.deaf.Load() && m.alive() || !m.alive() && !m.removed() {
			c.troubled = time.Now()
		}
	}
	if limit := imap.SessionGrace + 2*time.Second; is && away > limit && time.Since(c.troubled) > limit {
		c.t.Fatalf("the lock is not free %v after the client's last connection", away)
	}
}

func (c *crowd) end() {
	for _, m := range c.members {
		m.stop()
	}
	c.group.Wait()
}

// Whatever becomes of a client's connections and members: it keeps its locks while it is connected to any member, and as long as it may come
// back; soon after that they are free.
func TestSession_LocksLiveAsLongAsTheirClient(t *testing.T) {
	runs := 80
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 3)
				defer c.end()
				rnd := rand.New(rand.NewPCG(uint64(seed), 1))
				for range 60 {
					m := c.members[rnd.IntN(len(c.members))]
					switch rnd.IntN(10) {
					case 0, 1, 2:
						if !m.connected {
							m.connect()
						}
					case 3, 4, 5:
						m.disconnect()
					case 6, 7:
						m.lock()
					case 8:
						m.deaf.Store(!m.deaf.Load())
					case 9:
						if rnd.IntN(4) == 0 && m.alive() && c.living() > 1 {
							m.kill()
						}
					}
					c.pass(time.Duration(rnd.IntN(2000)) * time.Millisecond)
				}
				for _, m := range c.members {
					m.deaf.Store(false)
					m.disconnect()
				}
				c.pass(30 * time.Second)
			})
		})
	}
}

func (c *crowd) living() (n int) {
	for _, m := range c.members {
		if m.alive() {
			n++
		}
	}
	return n
}

// How long a lock outlives its client, by what has become of the client's member.
func TestSession_Bounds(t *testing.T) {
	for name, x := range map[string]struct {
		end   func(c *crowd)
		limit time.Duration
	}{
		"its only connection ends":            {func(c *crowd) { c.members[2].disconnect() }, imap.SessionGrace + 300*time.Millisecond},
		"its only member dies":                {func(c *crowd) { c.members[2].kill() }, removalAfter + imap.SessionGrace + 500*time.Millisecond},
		"it and one of its members die":       {func(c *crowd) { c.members[1].disconnect(); c.members[2].kill() }, removalAfter + imap.SessionGrace + 1500*time.Millisecond},
		"all its connections end together":    {func(c *crowd) { c.members[1].disconnect(); c.members[2].disconnect() }, imap.SessionGrace + 1300*time.Millisecond},
		"another than its lock's member dies": {func(c *crowd) { c.members[2].disconnect(); c.members[1].kill() }, removalAfter + imap.SessionGrace + 1500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 3)
				defer c.end()
				if name != "its only connection ends" && name != "its only member dies" {
					c.members[1].connect()
				}
				c.members[2].connect()
				c.members[2].lock()
				c.pass(time.Minute)
				x.end(c)
				start := time.Now()
				for c.data.isLocked(t) {
					c.pass(50 * time.Millisecond)
				}
				if took := time.Since(start); took < imap.SessionGrace || took > x.limit {
					t.Errorf("free after %v, want %v to %v", took, imap.SessionGrace, x.limit)
				}
			})
		})
	}
}

func (l *local) isLocked(t *testing.T) bool {
	is, err := imap.NewAt(l, "x").Map("m").IsLocked(t.Context(), imap.Key{Data: imap.String("k")})
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestWhereabouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type others struct {
			answer map[string]grid.MemberID
			err    error
		}
		var said atomic.Pointer[others]
		var asked atomic.Int32
		w := &whereabouts{self: "me", sought: map[string]*sighting{}, wake: make(chan struct{}, 1)}
		w.here = func(list []string) []string {
			for _, c := range list {
				if c == "mine" {
					return []string{c}
				}
			}
			return nil
		}
		w.others = func(context.Context, []string) (map[string]grid.MemberID, error) {
			asked.Add(1)
			o := said.Load()
			return o.answer, o.err
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.run(ctx) })
		defer wg.Wait()
		defer cancel()
		// learn asks until it is known, for a while.
		learn := func(client string) (string, bool) {
			after := time.Now()
			for range 20 {
				if via, ok := w.where(client, after); ok {
					return string(via), true
				}
				time.Sleep(100 * time.Millisecond)
			}
			return "", false
		}
		answer := map[string]grid.MemberID{"theirs": "b"}
		said.Store(&others{answer, errors.New("one is silent")})
		for client, want := range map[string]string{"mine": "me", "theirs": "b"} {
			if via, ok := learn(client); !ok || via != want {
				t.Errorf("%s: %q, %v", client, via, ok)
			}
		}
		if via, ok := learn("nobody's"); ok {
			t.Errorf("a client that the silent member may have: %q", via)
		}
		said.Store(&others{answer, nil})
		if via, ok := learn("nobody's"); !ok || via != "" {
			t.Errorf("a client that nobody has: %q, %v", via, ok)
		}
		before := asked.Load()
		if _, ok := learn("theirs"); !ok || asked.Load() == before {
			t.Error("an old answer was taken for a new question")
		}
		time.Sleep(2 * forgetAfter)
		learn("mine")
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.sought) != 1 {
			t.Errorf("still sought: %v", maps.Clone(w.sought))
		}
	})
}
