package partition

import (
	"context"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

const (
	planEvery     = 500 * time.Millisecond
	instructAgain = time.Second
	planBudget    = 5 * time.Second
)

// Rebalance plans for as long as this member is master: it proposes what the table should become next and asks primaries for what only
// they can propose. It returns when ctx ends.
func (h *Host) Rebalance(ctx context.Context, lim Limits) error {
	asked := map[Instruction]time.Time{}
	for {
		s, changed := h.cfg.View.View()
		if lost := lostPartitions(s); len(lost) > 0 && lim.ReviveLost {
			h.log.Warn("partitions lost their last replica and start again, empty", "count", len(lost), "first", int(lost[0]))
		}
		if cmds := Plan(s, lim); len(cmds) > 0 {
			pctx, cancel := context.WithTimeout(ctx, planBudget)
			if err := h.cfg.Proposer.Propose(pctx, grid.Command{Batch: flat(cmds)}); err != nil {
				h.log.Warn("plan not taken", "changes", len(cmds), "error", err)
			}
			cancel()
		}
		h.instructAll(Instructions(s, lim), asked)
		select {
		case <-changed:
			// Changes come in bursts; one plan for all of them is better than one for each.
			if !pause(ctx, 10*time.Millisecond) {
				return context.Cause(ctx)
			}
		case <-time.After(planEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func lostPartitions(s *grid.State) (lost []grid.PartitionID) {
	for i := range s.Partitions {
		if s.Partitions[i].Lost {
			lost = append(lost, grid.PartitionID(i))
		}
	}
	return lost
}

// flat dissolves batches: a batch holds no batch.
func flat(cmds []grid.Command) []grid.Command {
	var out []grid.Command
	for _, c := range cmds {
		if len(c.Batch) > 0 {
			out = append(out, c.Batch...)
		} else {
			out = append(out, c)
		}
	}
	return out
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// instructAll sends the wishes to the primaries that they are for; a wish that stays is repeated once a while.
func (h *Host) instructAll(list []Instruction, asked map[Instruction]time.Time) {
	now := time.Now()
	wanted := make(map[Instruction]bool, len(list))
	s := h.state.Load().state
	for _, in := range list {
		wanted[in] = true
		if now.Sub(asked[in]) < instructAgain || int(in.Partition) >= len(s.Partitions) {
			continue
		}
		asked[in] = now
		msg := instructMsg(in)
		if to := s.Partitions[in.Partition].Primary(); to == h.cfg.Self {
			h.replica(in.Partition).instruct(msg, now)
		} else if to != "" {
			_ = h.cfg.Caller.Send(to, wire.Instruct, encode(msg)) // repeated if it does not take
		}
	}
	for in := range asked {
		if !wanted[in] {
			delete(asked, in)
		}
	}
}
