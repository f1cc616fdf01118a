package cluster

import (
	"context"

	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// confirm reports whether, at some moment after it was called, no other member can have been elected in a later term: this one leads in the
// term, and of the voters a majority, this one counted, answered that they know none later.
//
// raft.VerifyLeader promises the same, but counts the answers of servers that have no vote; a leader that is cut off together with such a
// member would pass (raft 1.8.0, raft.go, verifyLeader).
func (c *Cluster) confirm(ctx context.Context, r *raft.Raft, term uint64) bool {
	conf := r.GetConfiguration()
	if conf.Error() != nil {
		return false
	}
	var others []grid.MemberID
	voters := 0
	for _, sv := range conf.Configuration().Servers {
		if sv.Suffrage != raft.Voter {
			continue
		}
		voters++
		if id := grid.MemberID(sv.ID); id != c.self.ID {
			others = append(others, id)
		}
	}
	if need := voters / 2; !c.poll(ctx, others, term, need) {
		return false
	}
	return r.State() == raft.Leader && r.CurrentTerm() == term
}

// poll reports whether as many as need of the members answer that the term is the latest that they know.
func (c *Cluster) poll(ctx context.Context, members []grid.MemberID, term uint64, need int) bool {
	if need == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Lease/2)
	defer cancel()
	s, _ := c.View()
	body, err := encode(&confirmMsg{term, s.ClusterID})
	if err != nil {
		return false
	}
	votes := make(chan bool, len(members)) // one each
	for _, id := range members {
		c.t.Request(id, wire.Confirm, body, func(answer []byte, err error) {
			var a confirmReply
			votes <- err == nil && decode(answer, &a) == nil && a.Term == term
		})
	}
	for range members {
		select {
		case yes := <-votes:
			if yes {
				need--
			}
			if need == 0 {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
	return false
}
