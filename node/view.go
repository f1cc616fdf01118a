package node

import (
	"context"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
	"gridnode/rest"
)

// restGrid is the cluster as HTTP shows it.
type restGrid struct{ l *life }

var _ rest.Grid = restGrid{}

func (g restGrid) State() *grid.State {
	s, _ := g.l.cluster.View()
	return s
}

func (g restGrid) Moves(s *grid.State) grid.Moves { return g.l.host.Moves(s) }

func (g restGrid) Safe(s *grid.State) bool { return g.l.safe(s) }

func (g restGrid) Sending() grid.Sending { return g.l.host.Sending() }

func (g restGrid) SetTags(ctx context.Context, tags map[string]string) error {
	return g.l.setTags(ctx, tags)
}

func (g restGrid) Self() grid.MemberID { return g.l.self }

// Checks tells whether this member is a member, and can reach what it needs to answer.
func (g restGrid) Checks() []rest.Check {
	s, _ := g.l.cluster.View()
	m, joined := s.Member(g.l.self)
	checks := []rest.Check{{Name: "joined", OK: joined && m.State != grid.Joining, Detail: "this member has not joined a cluster yet"}}
	if m.State == grid.Leaving {
		checks = append(checks, rest.Check{Name: "staying", Detail: "this member is leaving"})
	}
	leased := g.l.cluster.LeaseValid()
	checks = append(checks, g.masterCheck(s, leased), g.leaseCheck(leased))
	homeless := 0
	for i := range s.Partitions {
		if len(s.Partitions[i].Replicas) == 0 {
			homeless++
		}
	}
	return append(checks, rest.Check{Name: "partitions", OK: len(s.Partitions) > 0 && homeless == 0, Detail: "partitions have no primary"})
}

// masterCheck tells whether there is a master that works. The name in the agreed state proves nothing: it stays there until the next master is
// elected, which without a majority never happens. A lease that runs is proof, for only such a master has granted it.
func (g restGrid) masterCheck(s *grid.State, leased bool) rest.Check {
	c := rest.Check{Name: "master", Detail: "no master is known"}
	m, known := s.Member(s.Master)
	c.OK = known && leased
	if ago, ok := g.l.cluster.LeaseRenewed(); known && ok {
		c.Detail = fmt.Sprintf("nothing has come from a master for %v; the last one was %s", ago.Round(time.Millisecond), m.Name)
	} else if known {
		c.Detail = fmt.Sprintf("%s is known as master, but has not granted this member a lease", m.Name)
	}
	return c
}

func (g restGrid) leaseCheck(leased bool) rest.Check {
	c := rest.Check{Name: "lease", OK: leased, Detail: "this member's lease has lapsed"}
	if err := g.Quorum(); err != nil {
		c.Detail = err.Error()
	}
	return c
}

// Quorum tells whether a majority of the voters is known to agree.
func (g restGrid) Quorum() error {
	_, err := g.l.cluster.Quorum()
	return err
}

// Recover makes the survivors go on without a majority.
func (g restGrid) Recover(ctx context.Context, force bool) (grid.Recovery, error) {
	return g.l.cluster.Recover(ctx, force)
}

func (g restGrid) SystemInfo(ctx context.Context, member grid.MemberID) (rest.SystemInfo, error) {
	if member == g.l.self {
		return rest.CollectSystemInfo(), nil
	}
	var info rest.SystemInfo
	reply, err := g.l.transport.Call(ctx, member, wire.SystemInfo, nil)
	if err != nil {
		return info, err
	}
	return info, pack.Unmarshal(reply, &info)
}

// serveSystemInfo answers another member. Collecting stops the world for a moment, so it leaves the connection's goroutine.
func (l *life) serveSystemInfo(_ grid.MemberID, _ []byte, reply func([]byte, error)) {
	if !l.calls.TryGo(func() error {
		reply(msgpack.Marshal(rest.CollectSystemInfo()))
		return nil
	}) {
		reply(nil, grid.ErrOverloaded)
	}
}
