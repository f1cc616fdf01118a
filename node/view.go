package node

import (
	"context"

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

func (g restGrid) Self() grid.MemberID { return g.l.self }

// Checks tells whether this member is a member, and can reach what it needs to answer.
func (g restGrid) Checks() []rest.Check {
	s, _ := g.l.cluster.View()
	m, joined := s.Member(g.l.self)
	checks := []rest.Check{{Name: "joined", OK: joined && m.State != grid.Joining, Detail: "this member has not joined a cluster yet"}}
	if m.State == grid.Leaving {
		checks = append(checks, rest.Check{Name: "staying", Detail: "this member is leaving"})
	}
	_, _, ok := g.l.cluster.Master()
	checks = append(checks,
		rest.Check{Name: "master", OK: ok, Detail: "no master is known"},
		rest.Check{Name: "lease", OK: g.l.cluster.LeaseValid(), Detail: "this member's lease has lapsed"})
	homeless := 0
	for i := range s.Partitions {
		if len(s.Partitions[i].Replicas) == 0 {
			homeless++
		}
	}
	return append(checks, rest.Check{Name: "partitions", OK: len(s.Partitions) > 0 && homeless == 0, Detail: "partitions have no primary"})
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
