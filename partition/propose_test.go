package partition

import (
	"testing"
	"time"

	"gridnode/grid"
)

// proposer counts the proposals that a replica makes, and loses them.
type proposer struct {
	deaf
	made []grid.ReplicaChange
}

func (p *proposer) propose(c grid.ReplicaChange) { p.made = append(p.made, c) }

// Whatever a primary proposes may be lost with a master: as long as the table does not show it, it is proposed again.
func TestPrimary_ProposesAgainWhatWasLost(t *testing.T) {
	for _, op := range []grid.ReplicaOp{grid.OpAdd, grid.OpDrop} {
		t.Run(string(op), func(t *testing.T) {
			now, env := time.Now(), &proposer{}
			row := grid.Partition{Epoch: 1, Replicas: []grid.MemberID{"a", "b"}, Reign: 1, Born: 1}
			if op == grid.OpAdd {
				row.Joining = []grid.MemberID{"c"}
			}
			r := newReplica(0, "a", env)
			r.learn(row, now)
			r.sealed("b", sealedMsg{Epoch: 1, Born: 1}, now)
			if op == grid.OpAdd {
				for c := r.peers["c"].copy; c.next < c.of(); {
					r.copied("c", copiedMsg{Epoch: 1, ID: c.id, Next: c.next + 1}, now)
				}
			} else {
				r.execute(call{op: grid.RawOp("inc")}, now, func([]byte, error) {}) // b never acknowledges it
			}
			for range 200 {
				now = now.Add(tickEvery)
				r.tick(now)
			}
			n := 0
			for _, c := range env.made {
				if c.Op == op {
					n++
				}
			}
			if n < 2 || n > 10 {
				t.Errorf("proposed %d times in 5 s", n)
			}
		})
	}
}
