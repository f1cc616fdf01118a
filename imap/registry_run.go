package imap

import (
	"context"
	"time"

	"gridnode/grid"
)

// Run tells others what this member has to tell, until ctx ends. Then no listener is called any more, and no call is under way.
func (r *Registry) Run(ctx context.Context) error {
	defer r.end()
	t := time.NewTicker(registryTick)
	defer t.Stop()
	var seen *grid.State
	for n, tick := 0, true; ; {
		s, newer := r.members.View()
		now := time.Now()
		if s != seen || tick {
			r.follow(s, now)
			seen = s
		}
		r.announce(s, now)
		r.pump(now, tick)
		tick = false
		select {
		case <-r.wake:
		case <-newer:
		case now := <-t.C:
			if n++; n%progressTicks == 0 {
				tick = true
				r.progress()
				r.tick(now)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end closes all listeners of this member.
func (r *Registry) end() {
	r.mu.Lock()
	r.ended = true
	list := make([]*inbox, 0, len(r.inboxes))
	for _, in := range r.inboxes {
		list = append(list, in)
	}
	r.mu.Unlock()
	for _, in := range list {
		in.close()
	}
	r.wg.Wait()
}

// follow forgets what belongs to members that are gone.
func (r *Registry) follow(s *grid.State, now time.Time) {
	members := make(map[grid.MemberID]bool, len(s.Members))
	for _, m := range s.Members {
		members[m.ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetDropped(s)
	gone := false
	for id, o := range r.owners {
		switch {
		case members[id]:
			o.member = true
		case o.member || now.Sub(o.since) > strangerFor:
			delete(r.owners, id)
			gone = true
		}
	}
	for id := range r.told {
		if !members[id] {
			delete(r.told, id)
		}
	}
	if gone {
		r.rebuild()
	}
}

// announce tells every member that does not know it what this one has.
func (r *Registry) announce(s *grid.State, now time.Time) {
	r.mu.Lock()
	version := r.version
	var to []grid.MemberID
	for _, m := range s.Members {
		if m.ID == r.self {
			continue
		}
		t := r.told[m.ID]
		if t == nil {
			t = &told{}
			r.told[m.ID] = t
		}
		if t.known < version && (t.asked < version || now.Sub(t.at) >= announceAgain) {
			t.asked, t.at = version, now
			to = append(to, m.ID)
		}
	}
	var body []byte
	if len(to) > 0 {
		body = encode(registryMsg{Announce: r.announcement()})
	}
	r.mu.Unlock()
	for _, m := range to {
		r.members.Ask(m, body, func(_ []byte, err error) { r.answered(m, version, err) })
	}
}

func (r *Registry) announcement() *announcement {
	a := &announcement{Version: r.version}
	for _, reg := range r.own {
		if !reg.local {
			a.Regs = append(a.Regs, reg.wire)
		}
	}
	a.Clock, a.Heeds = r.clock, r.heeders > 0
	for name, def := range r.indexes {
		for i, cfg := range def.list {
			a.Indexes = append(a.Indexes, wireIndex{name, cfg, def.at[i]})
		}
	}
	for name, d := range r.dropped {
		a.Dropped = append(a.Dropped, wireDrop{name, d.at})
	}
	for _, s := range r.known.All() {
		a.Schemas = append(a.Schemas, wireSchema{s.Type, s.Fields})
	}
	return a
}

// answered takes note of what a member knows. After an error it is told again soon.
func (r *Registry) answered(m grid.MemberID, version uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.told[m]
	switch {
	case t == nil:
	case err != nil:
		if t.asked == version {
			t.at = time.Now().Add(retryBatch - announceAgain)
		}
	case version > t.known:
		t.known = version
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// pump sends what waits for listeners.
func (r *Registry) pump(now time.Time, tick bool) {
	again := true
	for round := 0; again && round < localRounds; round++ {
		again = false
		for id, reg := range r.now.Load().regs {
			body, n := reg.out.next(now, tick)
			if body == nil {
				continue
			}
			if id.owner == r.self {
				r.loopBack(reg.out, body, n)
				again = true
				continue
			}
			r.members.Ask(id.owner, body, func(_ []byte, err error) {
				reg.out.sent(n, err)
				r.signal()
			})
		}
		tick = false
	}
	if again {
		r.signal()
	}
}

// loopBack hands a message to a listener of this very member.
func (r *Registry) loopBack(o *outbox, body []byte, n uint64) {
	m, err := decode[registryMsg](body)
	if err == nil && m.Events != nil {
		r.deliver(r.self, *m.Events)
	}
	o.sent(n, nil)
}

func (r *Registry) tick(now time.Time) {
	r.mu.Lock()
	list := make([]*inbox, 0, len(r.inboxes))
	for _, in := range r.inboxes {
		list = append(list, in)
	}
	r.mu.Unlock()
	for _, in := range list {
		in.tick(now)
	}
}
