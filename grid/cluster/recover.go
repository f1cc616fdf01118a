package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

const (
	recoveryPromise = 15 * time.Second // for which a member takes part in no other recovery
	recoverySettle  = 10 * time.Second // for the survivors to have a master
)

// errReform ends the loops of a raft that is to be replaced.
var errReform = errors.New("raft is formed anew")

// recovery is this member's part in recoveries.
type recovery struct {
	mu     sync.Mutex // guards what follows; never held while waiting
	ballot string     // of the recovery that it has promised to take part in, and in no other
	until  time.Time

	due chan *recoveryPlan // has room for one: what Run is to form raft anew from
}

func newRecovery() *recovery { return &recovery{due: make(chan *recoveryPlan, 1)} }

// promise takes part in a recovery, unless another one may be under way.
func (r *recovery) promise(ballot string, now time.Time) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballot != ballot && now.Before(r.until) {
		return false
	}
	r.ballot, r.until = ballot, now.Add(recoveryPromise)
	return true
}

// keeps reports whether the promise for the ballot still holds, and ends it: a plan is taken once.
func (r *recovery) keeps(ballot string, now time.Time) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballot != ballot || !now.Before(r.until) {
		return false
	}
	r.ballot = ""
	return true
}

// release ends a promise that comes to nothing.
func (r *recovery) release(ballot string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballot == ballot {
		r.ballot, r.until = "", time.Time{}
	}
}

// recoverAskMsg asks a member for its survey. With a Ballot it also asks for its promise; Release takes that back.
type recoverAskMsg struct {
	Ballot  string
	Release bool
}

// Recover makes those members that this one can reach go on without the others, after the majority of the voters is gone for good. Without
// force it only says what that would mean. It is refused, with an error that wraps grid.ErrRefused, while a majority can be reached, and while
// another recovery is under way. With force, nil says that the survivors have a master; grid.ErrIndeterminate, that they may not have one yet.
func (c *Cluster) Recover(ctx context.Context, force bool) (grid.Recovery, error) {
	s, _ := c.View()
	if _, ok := s.Member(c.self.ID); !ok {
		return grid.Recovery{}, fmt.Errorf("%w: nothing is known here that could be recovered", grid.ErrNotJoined)
	}
	ballot := ""
	if force {
		ballot = uuid.NewString()
	}
	surveys, err := c.surveyAll(ctx, ballot)
	if err == nil {
		err = refusal(surveys)
	}
	if err != nil {
		c.releaseAll(ctx, surveys, ballot)
		return grid.Recovery{}, err
	}
	plan, report := planRecovery(c.self.ID, surveys, ballot, uuid.NewString(), c.cfg.Lease)
	if !force {
		return report, nil
	}
	c.log.Warn("recovering without a majority", "survivors", len(report.Survivors), "dropped", len(report.Dropped),
		"partitions_lost", len(report.Lost), "partitions_doubtful", len(report.Doubtful), "new_cluster_id", plan.State.ClusterID, "term", plan.Term)
	return report, c.carryOut(ctx, plan, surveys)
}

// surveyAll asks all members that anybody who answers knows, this one included.
func (c *Cluster) surveyAll(ctx context.Context, ballot string) ([]survey, error) {
	asked := map[grid.MemberID]bool{}
	var surveys []survey
	var refused error
	s, _ := c.View()
	for round := s.Members; len(round) > 0; {
		var mu sync.Mutex
		var asks sync.WaitGroup
		for _, m := range round {
			asked[m.ID] = true
			asks.Go(func() {
				answer, err := c.survey(ctx, m, recoverAskMsg{Ballot: ballot})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && answer.Member.ID == m.ID:
					surveys = append(surveys, answer)
				case errors.Is(err, grid.ErrRefused):
					refused = err
				default:
					c.log.Info("a member does not answer, so it does not survive a recovery", "id", m.ID, "name", m.Name, "address", m.Address, "error", err)
				}
			})
		}
		asks.Wait()
		round = nil
		if len(surveys) > 0 {
			for _, m := range newest(surveys).State.Members {
				if !asked[m.ID] {
					round = append(round, m)
				}
			}
		}
	}
	if refused == nil && len(surveys) == 0 {
		refused = fmt.Errorf("%w: nobody answers, not even this member", grid.ErrNotReady)
	}
	return surveys, refused
}

// survey asks one member, by its address: there may be another process by now.
func (c *Cluster) survey(ctx context.Context, m grid.Member, q recoverAskMsg) (survey, error) {
	if m.ID != c.self.ID {
		return call[recoverAskMsg, survey](ctx, c, "", m.Address, wire.RecoverAsk, q)
	}
	return c.answerAsk(q)
}

// releaseAll takes promises back.
func (c *Cluster) releaseAll(ctx context.Context, surveys []survey, ballot string) {
	if ballot == "" {
		return
	}
	for _, s := range surveys {
		_, _ = c.survey(ctx, s.Member, recoverAskMsg{Ballot: ballot, Release: true}) // it ends by itself, too
	}
}

func (c *Cluster) serveRecoverAsk(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var in recoverAskMsg
	if !decodeRequest(body, reply, &in) {
		return
	}
	if !c.background(func() {
		answer, err := c.answerAsk(in)
		if err != nil {
			reply(nil, err)
			return
		}
		respond(reply, &answer)
	}) {
		reply(nil, errNotRunning())
	}
}

func (c *Cluster) answerAsk(q recoverAskMsg) (survey, error) {
	if q.Release {
		c.recovery.release(q.Ballot)
		return survey{Member: c.self}, nil
	}
	if q.Ballot != "" && !c.recovery.promise(q.Ballot, time.Now()) {
		return survey{}, fmt.Errorf("%w: %s takes part in another recovery already", grid.ErrRefused, c.self.Name)
	}
	g := c.group.Load()
	if g == nil {
		return survey{}, errNotRunning()
	}
	s := survey{Member: c.self, Leased: c.lease.valid(), Renewed: -1, RaftTerm: g.raft.CurrentTerm()}
	if ago, ok := c.lease.renewed(); ok {
		s.Renewed = ago
	}
	for _, sv := range g.raft.GetConfiguration().Configuration().Servers {
		if sv.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, grid.MemberID(sv.ID))
		}
	}
	var err error
	s.State, s.LastTerm, s.LastIndex, err = g.whole(c.fsm)
	return s, err
}

// errCompacted says that the log was cut off behind a snapshot while it was read.
var errCompacted = errors.New("the log was compacted meanwhile")

// whole returns the agreed state with all that the log holds beyond what is applied, and the log's end.
func (g *group) whole(f *fsm) (s *grid.State, term, index uint64, err error) {
	for range 5 { // snapshots are seconds apart
		if s, term, index, err = g.readWhole(f); !errors.Is(err, errCompacted) {
			break
		}
	}
	return s, term, index, err
}

func (g *group) readWhole(f *fsm) (s *grid.State, term, index uint64, err error) {
	v := f.view.Load()
	s, applied := v.state, v.index
	snaps, err := g.snaps.List()
	if err != nil {
		return nil, 0, 0, err
	}
	if len(snaps) > 0 {
		term, index = snaps[0].Term, snaps[0].Index
		if index > applied { // it was installed, and is not restored yet
			if s, err = g.snapshotState(snaps[0].ID); err != nil {
				return nil, 0, 0, err
			}
			applied = index
		}
	}
	last, err := g.store.LastIndex()
	if err != nil {
		return nil, 0, 0, err
	}
	var entry raft.Log
	for i := applied + 1; i <= last; i++ {
		if entry, err = g.entry(i); err != nil {
			return nil, 0, 0, err
		}
		if entry.Type == raft.LogCommand {
			s, _ = applyEntry(s, &entry)
		}
	}
	if last > 0 {
		if entry, err = g.entry(last); err != nil {
			return nil, 0, 0, err
		}
		term = max(term, entry.Term)
	}
	return s, term, max(index, applied, last), nil
}

func (g *group) entry(i uint64) (entry raft.Log, err error) {
	if err := g.store.GetLog(i, &entry); errors.Is(err, raft.ErrLogNotFound) {
		return entry, errCompacted
	} else if err != nil {
		return entry, err
	}
	return entry, nil
}

func (g *group) snapshotState(id string) (*grid.State, error) {
	_, r, err := g.snaps.Open(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCompacted, err)
	}
	return readSnapshot(r)
}

// carryOut hands the plan to all survivors, this one last, and waits for a master.
func (c *Cluster) carryOut(ctx context.Context, plan recoveryPlan, surveys []survey) error {
	var failures []error
	for _, s := range surveys {
		if s.Member.ID == c.self.ID {
			continue
		}
		if _, err := call[recoveryPlan, struct{}](ctx, c, "", s.Member.Address, wire.RecoverDo, plan); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", s.Member.Name, err))
		}
	}
	if err := c.takePlan(&plan); err != nil {
		failures = append(failures, err)
	}
	ctx, cancel := context.WithTimeout(ctx, recoverySettle)
	defer cancel()
	err := c.waitView(ctx, func(s *grid.State) bool {
		_, ok := s.Member(s.Master)
		return ok && s.ClusterID == plan.State.ClusterID
	})
	for err == nil && !c.lease.valid() { // what comes after the answer is to find it working
		if !pause(ctx, reignTick) {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: the survivors have no master yet: %w", grid.ErrIndeterminate, errors.Join(append(failures, err)...))
	}
	for _, err := range failures { // whoever has not heard of it is told by raft, or removed
		c.log.Warn("a survivor did not confirm the recovery", "error", err)
	}
	return nil
}

func (c *Cluster) serveRecoverDo(from grid.MemberID, body []byte, reply func([]byte, error)) {
	var plan recoveryPlan
	if reply == nil {
		return
	}
	if err := pack.Unmarshal(body, &plan); err != nil || plan.State == nil {
		reply(nil, fmt.Errorf("%w: %v", grid.ErrBadMessage, err))
		return
	}
	if err := c.takePlan(&plan); err != nil {
		reply(nil, err)
		return
	}
	c.log.Warn("another member has this one take part in a recovery without a majority", "from", from, "new_cluster_id", plan.State.ClusterID,
		"members", len(plan.State.Members), "term", plan.Term)
	respond(reply, &struct{}{})
}

// takePlan has Run form raft anew, if this member has promised that and still has no master.
func (c *Cluster) takePlan(plan *recoveryPlan) error {
	g := c.group.Load()
	_, known := plan.State.Member(c.self.ID)
	switch {
	case g == nil:
		return errNotRunning()
	case !known:
		return fmt.Errorf("%w: this member is not among the survivors", grid.ErrRefused)
	case c.lease.valid():
		return fmt.Errorf("%w: this member holds a lease", grid.ErrRefused)
	case g.raft.CurrentTerm() >= plan.Term:
		return fmt.Errorf("%w: raft is in term %d here, and the plan says %d", grid.ErrRefused, g.raft.CurrentTerm(), plan.Term)
	case !c.recovery.keeps(plan.Ballot, time.Now()):
		return fmt.Errorf("%w: this member has promised nothing to this recovery, or too long ago", grid.ErrRefused)
	}
	select {
	case c.recovery.due <- plan:
		return nil
	default:
		return fmt.Errorf("%w: another recovery is being carried out here", grid.ErrRefused)
	}
}

// reformLoop ends the loops when raft is to be formed anew.
func (c *Cluster) reformLoop(ctx context.Context, next **recoveryPlan) error {
	select {
	case *next = <-c.recovery.due:
		return errReform
	case <-ctx.Done():
		return nil
	}
}
