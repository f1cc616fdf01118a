package node

import (
	"context"
	"fmt"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/grid/cluster"
	"gridnode/grid/transport"
	"gridnode/grid/wire"
)

// engineCluster is the members as the engine sees them.
type engineCluster struct {
	self      grid.MemberID
	cluster   *cluster.Cluster
	transport *transport.Transport
}

var _ engine.Cluster = engineCluster{}

func (c engineCluster) Self() string { return string(c.self) }

func (c engineCluster) Members() ([]engine.Member, <-chan struct{}) {
	s, changed := c.cluster.View()
	out := make([]engine.Member, 0, len(s.Members))
	for _, m := range s.Members {
		out = append(out, engine.Member{
			ID: string(m.ID), Name: m.Name, Address: m.Address, HTTP: m.HTTP, JoinSeq: m.JoinSeq,
			Worker: m.Has(grid.RoleWorker), Leaving: m.State == grid.Leaving, Silent: m.State == grid.Suspended, Slots: m.Slots, Tags: m.Attributes,
		})
	}
	return out, changed
}

func (c engineCluster) Master() (id string, term uint64, ok bool) {
	m, term, ok := c.cluster.Master()
	return string(m), term, ok
}

func (c engineCluster) Call(ctx context.Context, to string, request []byte) ([]byte, error) {
	reply, err := c.transport.Call(ctx, grid.MemberID(to), wire.EngineCall, request)
	return reply, engineErr(err)
}

// Hopeless implements [engine.Cluster].
func (c engineCluster) Hopeless() error {
	if lapsed, err := c.cluster.Quorum(); lapsed >= quorumPatience {
		return err
	}
	return nil
}

func (c engineCluster) Alive() context.Context { return c.cluster.LeaseContext() }

// serveEngine answers other members' calls to the engine, each on a goroutine of its own, a bounded number at a time.
func (l *life) serveEngine(from grid.MemberID, body []byte, reply func([]byte, error)) {
	started := l.calls.TryGo(func() error {
		ctx, cancel := context.WithTimeout(l.ctx, engineCallBudget)
		defer cancel()
		reply(l.engine.Serve(ctx, string(from), body))
		return nil
	})
	if !started {
		reply(nil, fmt.Errorf("%w: engine calls", grid.ErrOverloaded))
	}
}
