package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// reignTick is how often a master looks at its ledger when nothing else happens.
const reignTick = 20 * time.Millisecond

// reign is this member's time as master: one raft term. Its loop owns everything in it; others only put into the channels.
type reign struct {
	c      *Cluster
	raft   *raft.Raft
	term   uint64
	ledger *ledger

	// Heartbeats and joins that find their channel full are answered with grid.ErrOverloaded; hints are dropped, there are others.
	beats chan beatRequest
	joins chan joinRequest
	hints chan hint

	waiting    []beatRequest // came in, not confirmed yet
	batch      []beatRequest // being confirmed
	confirmed  chan bool     // has room for the one result that is due
	confirming bool
	proposed   chan error // likewise
	proposing  bool
	changed    chan error // likewise
	changing   bool
	notBefore  time.Time // the next proposal or change: a failed one is not repeated at once
}

type beatRequest struct {
	msg   beatMsg
	reply func([]byte, error)
}

type joinRequest struct {
	msg   joinMsg
	reply func([]byte, error)
}

// hint is a sign that a member is dead.
type hint struct {
	id    grid.MemberID
	why   string
	gone  bool      // there is no doubt
	since time.Time // what it says was so then: a heartbeat that came later is newer
}

// masterLoop waits for this member to become raft leader and reigns while it is.
func (c *Cluster) masterLoop(ctx context.Context, r *raft.Raft) error {
	d := newDuties(c.cfg.OnMaster)
	defer d.wait()
	for {
		if r.State() == raft.Leader {
			if err := c.rule(ctx, r, d); err != nil {
				return err
			}
		}
		pause := time.NewTimer(10 * time.Millisecond) // only matters if the channel's news was overtaken
		select {
		case <-r.LeaderCh():
		case <-pause.C:
			if r.State() != raft.Leader {
				select {
				case <-r.LeaderCh():
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// rule takes the role of master in the present term and keeps it until leadership is lost; the duties that it starts may still be ending then.
// The error is nil but for one of OnMaster.
func (c *Cluster) rule(ctx context.Context, r *raft.Raft, d *duties) error {
	elected, term := time.Now(), r.CurrentTerm()
	before, _ := c.View()
	ctx, cancel := context.WithCancelCause(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(grid.ErrNotMaster)
	tasks.Go(func() { watchLeadership(ctx, r, term, cancel) })
	if err := c.claim(ctx, r, term); err != nil {
		if ctx.Err() == nil {
			c.log.Warn("cannot take the role of master", "term", term, "error", err)
		}
		return nil
	}
	s, _ := c.View()
	m := &reign{
		c: c, raft: r, term: term, ledger: newLedger(c.self.ID, &c.cfg, s, elected),
		beats: make(chan beatRequest, 1024), joins: make(chan joinRequest, 64), hints: make(chan hint, 64),
		confirmed: make(chan bool, 1), proposed: make(chan error, 1), changed: make(chan error, 1),
	}
	if at, ok := c.heard.Load(before.Master); ok {
		m.ledger.predecessor(before.Master, at.(time.Time))
	}
	c.reign.Store(m)
	defer m.resign()
	for _, x := range s.Members { // who died before this one was master has left nobody else to notice
		if c.probe(x.ID); c.gossip.Load().buried(x.ID) {
			m.ledger.hint(hint{id: x.ID, why: takenForDead, since: elected})
		}
	}
	d.start(ctx, term, cancel)
	m.loop(ctx, &tasks)
	cancel(grid.ErrNotMaster)
	tasks.Wait()
	c.log.Info("not master any more", "term", term)
	if failed := (*dutyError)(nil); errors.As(context.Cause(ctx), &failed) {
		return failed
	}
	return nil
}

// watchLeadership cancels when this member does not lead in the term any more.
func watchLeadership(ctx context.Context, r *raft.Raft, term uint64, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(reignTick)
	defer tick.Stop()
	for r.State() == raft.Leader && r.CurrentTerm() == term {
		select {
		case <-r.LeaderCh():
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	cancel(grid.ErrNotMaster)
}

// claim makes this member master in the agreed state: after a barrier, so that everything before is known, and in this very term, which the
// state machine checks. It creates the cluster if this member was to.
func (c *Cluster) claim(ctx context.Context, r *raft.Raft, term uint64) error {
	if err := c.await(ctx, r.Barrier(applyQueue)); err != nil {
		return err
	}
	s, _ := c.View()
	if !s.Formed() {
		form := &grid.Form{
			ClusterID: uuid.NewString(), ClusterName: c.cfg.ClusterName,
			Partitions: c.cfg.Partitions, Backups: c.cfg.Backups, Expect: c.cfg.Expect,
		}
		if err := c.apply(ctx, r, grid.Command{Form: form}); err != nil {
			return err
		}
	}
	if s.Master != c.self.ID || s.Term != term { // else an earlier attempt in this term got as far
		if err := c.apply(ctx, r, grid.Command{Claim: &grid.ClaimMaster{ID: c.self.ID, Term: term}}); err != nil {
			return err
		}
	}
	s, _ = c.View()
	if _, ok := s.Member(c.self.ID); ok {
		return nil
	}
	return c.apply(ctx, r, grid.Command{Add: &grid.AddMember{Member: c.self}})
}

// loop serves until ctx ends. tasks gets the goroutines that it starts; each sends one result to a channel with room for it.
func (m *reign) loop(ctx context.Context, tasks *sync.WaitGroup) {
	tick := time.NewTicker(reignTick)
	defer tick.Stop()
	for {
		s, superseded := m.c.View()
		now := time.Now()
		m.ledger.sync(s, now)
		for _, id := range m.ledger.unheard(s, now) {
			m.c.ask(id)
		}
		m.startConfirm(ctx, tasks)
		m.startProposal(ctx, tasks, s, now)
		m.startServerChange(ctx, tasks, s, now)
		select {
		case <-ctx.Done():
			return
		case <-superseded:
		case <-tick.C:
		case b := <-m.beats:
			m.heard(s, b)
		case j := <-m.joins:
			m.join(ctx, tasks, s, j)
		case h := <-m.hints:
			m.ledger.hint(h)
			for len(m.beats) > 0 { // what came meanwhile says more than a hint
				m.heard(s, <-m.beats)
			}
		case ok := <-m.confirmed:
			m.grant(ok)
		case err := <-m.proposed:
			m.proposing = false
			m.failed(ctx, err, "a change of the members was not made")
		case err := <-m.changed:
			m.changing = false
			m.failed(ctx, err, "a change of raft's servers was not made")
		}
	}
}

// failed takes note of a change that was not made, if err is not nil. It is decided again later.
func (m *reign) failed(ctx context.Context, err error, what string) {
	if err != nil && ctx.Err() == nil {
		m.c.log.Debug(what, "error", err)
		m.notBefore = time.Now().Add(reignTick)
	}
}

// resign answers whoever still waits.
func (m *reign) resign() {
	m.c.reign.CompareAndSwap(m, nil)
	m.waiting = append(m.waiting, m.batch...)
	for {
		select {
		case b := <-m.beats:
			m.waiting = append(m.waiting, b)
		case j := <-m.joins:
			j.reply(nil, grid.ErrNotMaster)
		default:
			for _, b := range m.waiting {
				b.reply(nil, grid.ErrNotMaster)
			}
			return
		}
	}
}

func (m *reign) offerBeat(msg beatMsg, reply func([]byte, error)) {
	select {
	case m.beats <- beatRequest{msg, reply}:
	default:
		reply(nil, grid.ErrOverloaded)
	}
}

func (m *reign) offerJoin(msg joinMsg, reply func([]byte, error)) {
	select {
	case m.joins <- joinRequest{msg, reply}:
	default:
		reply(nil, grid.ErrOverloaded)
	}
}

func (m *reign) offerHint(h hint) {
	select {
	case m.hints <- h:
	default:
	}
}

// heard takes a heartbeat in; it is answered when this master was confirmed, or at once if the member was removed.
func (m *reign) heard(s *grid.State, b beatRequest) {
	if _, ok := s.Member(b.msg.ID); !ok {
		respond(b.reply, &beatReply{ClusterID: s.ClusterID, Removed: removed(s, b.msg), Term: m.term, Master: m.c.self.ID})
		return
	}
	m.ledger.arrived(b.msg.ID, b.msg.Index, time.Now())
	m.waiting = append(m.waiting, b)
}

// startConfirm begins to confirm the heartbeats that are there. Those that come in later wait for the next round: a confirmation counts only
// for what it began after.
func (m *reign) startConfirm(ctx context.Context, tasks *sync.WaitGroup) {
	if m.confirming || len(m.waiting) == 0 {
		return
	}
	m.confirming, m.batch, m.waiting = true, m.waiting, nil
	tasks.Go(func() { m.confirmed <- m.c.confirm(ctx, m.raft, m.term) })
}

// grant answers the batch.
func (m *reign) grant(ok bool) {
	now := time.Now()
	s, _ := m.c.View()
	doubt := m.ledger.doubt(s, now)
	for _, b := range m.batch {
		x, is := s.Member(b.msg.ID)
		granted := ok && is && m.ledger.grant(x, b.msg.Learned, now)
		respond(b.reply, &beatReply{Granted: granted, Term: m.term, Master: m.c.self.ID, Index: s.Index, Doubt: doubt})
	}
	m.batch, m.confirming = nil, false
}

// startProposal proposes what the ledger decides.
func (m *reign) startProposal(ctx context.Context, tasks *sync.WaitGroup, s *grid.State, now time.Time) {
	if m.proposing || now.Before(m.notBefore) {
		return
	}
	due := m.ledger.decide(s, now)
	if len(due) == 0 {
		return
	}
	for _, cmd := range due {
		if cmd.Remove != nil {
			m.c.log.Info("removing a member", "id", cmd.Remove.ID, "reason", cmd.Remove.Reason)
		}
		if cmd.Suspend != nil {
			m.c.log.Warn("suspending members that do not answer and have the only copies of something", "ids", cmd.Suspend.IDs,
				"given_up_after", m.c.cfg.LossPatience)
		}
	}
	m.proposing = true
	tasks.Go(func() { m.proposed <- m.c.apply(ctx, m.raft, grid.Command{Batch: due}) })
}

// startServerChange makes the next change of raft's servers.
func (m *reign) startServerChange(ctx context.Context, tasks *sync.WaitGroup, s *grid.State, now time.Time) {
	if m.changing || now.Before(m.notBefore) {
		return
	}
	conf := m.raft.GetConfiguration()
	if conf.Error() != nil {
		return
	}
	s = m.ledger.served(s, now)
	changes := nextServerChanges(m.c.self.ID, s, conf.Configuration().Servers, func(id grid.MemberID) bool { return m.ledger.ready(id, s, now) })
	if len(changes) == 0 {
		return
	}
	m.changing = true
	m.c.log.Debug("changing raft's servers", "changes", changes)
	tasks.Go(func() { m.changed <- m.makeChanges(ctx, changes) })
}

// makeChanges hands raft one change after the other, not waiting for one to be done before it hands over the next: raft takes that up in the
// moment that the one before is committed.
func (m *reign) makeChanges(ctx context.Context, changes []serverChange) error {
	results := make(chan error, len(changes)) // one each
	for _, change := range changes {
		future := startChange(m.raft, change)
		if !m.c.background(func() { results <- future.Error() }) {
			return raft.ErrRaftShutdown
		}
	}
	var failure error
	for range changes {
		select {
		case err := <-results:
			failure = cmp.Or(failure, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return failure
}

// startChange hands one change to raft.
func startChange(r *raft.Raft, change serverChange) raft.Future {
	id := raft.ServerID(change.id)
	switch change.op {
	case addNonvoter:
		return r.AddNonvoter(id, change.address, 0, applyQueue)
	case promote:
		return r.AddVoter(id, change.address, 0, applyQueue)
	case demote:
		return r.DemoteVoter(id, 0, applyQueue)
	default:
		return r.RemoveServer(id, 0, applyQueue)
	}
}

// join accepts a member, or says why not yet.
func (m *reign) join(ctx context.Context, tasks *sync.WaitGroup, s *grid.State, j joinRequest) {
	in := j.msg.Member
	if _, ok := s.Member(in.ID); ok {
		respond(j.reply, &joinReply{Accepted: true, Index: s.Index, ClusterID: s.ClusterID})
		return
	}
	if j.msg.AcceptedAt > 0 {
		respond(j.reply, &joinReply{Removed: s.Index >= j.msg.AcceptedAt, ClusterID: s.ClusterID})
		return
	}
	if me, ok := s.Member(m.c.self.ID); ok && me.State == grid.Leaving {
		// Whoever joined now could be left without any voter, if nobody else stays; and if somebody does, he is master soon.
		j.reply(nil, fmt.Errorf("%w: the master is leaving", grid.ErrNotMaster))
		return
	}
	for _, x := range s.Members {
		if x.Address == in.Address {
			m.ledger.hint(hint{x.ID, "another process is at its address", true, time.Now()})
			j.reply(nil, fmt.Errorf("%w: address %s still belongs to member %s", grid.ErrNotReady, in.Address, x.ID))
			return
		}
	}
	tasks.Go(func() {
		err := m.c.apply(ctx, m.raft, grid.Command{Add: &grid.AddMember{Member: in}})
		if err != nil && !errors.Is(err, grid.ErrRefused) { // a refusal: somebody was faster; the next attempt tells
			j.reply(nil, err)
			return
		}
		now, _ := m.c.View()
		_, ok := now.Member(in.ID)
		respond(j.reply, &joinReply{Accepted: ok, Index: now.Index, ClusterID: now.ClusterID, Master: m.c.self.Address})
	})
}
