package cluster

import (
	"context"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

// beatResult is what became of one heartbeat.
type beatResult struct {
	to    grid.MemberID
	reply beatReply
	err   error
}

// heartbeatLoop renews this member's lease, from the moment it sees itself in the agreed state.
func (c *Cluster) heartbeatLoop(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Heartbeat)
	defer tick.Stop()
	var b beater
	granted, refused := time.Now(), 0 // ticks in a row without a grant
	for {
		s, superseded := c.View()
		if s.Master != b.master { // a new master: do not let it wait
			b = beater{self: c.self.ID, master: s.Master}
			c.beat(b.targets(s, false), s.Index)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-superseded:
		case <-tick.C:
			refused++
			c.beat(b.targets(s, time.Since(granted) > c.cfg.Lease), s.Index)
		case r := <-c.beats:
			switch {
			case r.err != nil:
			case r.reply.Removed && c.believes(r.reply, refused):
				return ErrRemoved
			case r.reply.Granted:
				granted, refused = time.Now(), 0
			default:
				b.hint = r.reply.Master
			}
		}
	}
}

// believes reports whether this member takes another one's word that it was removed. Within its own cluster that is the log's word. From a
// cluster that was recovered out of its own it is only the operator's, who may have been wrong: it counts when this member's own cluster has
// granted it nothing for as long as it would keep a silent member, in heartbeats that it has sent, for while it stood still it asked nobody.
func (c *Cluster) believes(r beatReply, refused int) bool {
	s, _ := c.View()
	return r.ClusterID == s.ClusterID || time.Duration(refused)*c.cfg.Heartbeat >= c.cfg.SessionTimeout
}

// beater chooses whom to send heartbeats. It is a value without clock or connections.
type beater struct {
	self   grid.MemberID
	master grid.MemberID // as the agreed state has it
	hint   grid.MemberID // as somebody else has it
	turn   int
}

// targets returns whom to ask. That is the master; while nobody grants, also the one that others took for master, and one more member in turn,
// for a member that was cut off learns only so that there is another master, or that it was removed.
func (b *beater) targets(s *grid.State, lapsed bool) []grid.MemberID {
	if _, ok := s.Member(b.self); !ok {
		return nil
	}
	var out []grid.MemberID
	add := func(id grid.MemberID) {
		for _, x := range out {
			if x == id {
				return
			}
		}
		if _, ok := s.Member(id); ok {
			out = append(out, id)
		}
	}
	add(s.Master)
	if lapsed {
		add(b.hint)
		b.turn++
		add(s.Members[b.turn%len(s.Members)].ID)
	}
	return out
}

// beat sends heartbeats. The lease is extended where the answer arrives, so that no loop delays it.
func (c *Cluster) beat(targets []grid.MemberID, index uint64) {
	if len(targets) == 0 || c.leaving.Load() && !c.lease.valid() {
		return
	}
	learned := index
	if c.cfg.Learned != nil {
		learned = min(index, c.cfg.Learned())
	}
	body, err := msgpack.Marshal(&beatMsg{c.self.ID, index, learned})
	if err != nil {
		return // it has no field that cannot be encoded
	}
	for _, to := range targets {
		sent := time.Now()
		done := func(answer []byte, err error) {
			r := beatResult{to: to, err: err}
			if err == nil {
				r.err = pack.Unmarshal(answer, &r.reply)
				c.heard.Store(to, time.Now())
			}
			if r.err == nil && r.reply.Granted {
				c.lease.extend(sent)
				c.told.Store(&r.reply)
			}
			select {
			case c.beats <- r:
			default:
			}
		}
		if to == c.self.ID {
			c.serveBeat(to, body, done)
		} else {
			c.t.Request(to, wire.Heartbeat, body, done)
		}
	}
}
