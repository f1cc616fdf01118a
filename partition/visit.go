package partition

import "gridnode/grid"

// Each calls f with every replica of this member that has a role, and whether it is the primary, for figures of the member. f runs under
// the replica's lock: it has to be quick, and must keep nothing of the store.
func (h *Host) Each(f func(p grid.PartitionID, primary bool, s Store)) {
	for _, r := range h.state.Load().replicas {
		r.mu.Lock()
		if r.row.InSync(r.self) || r.row.IsJoining(r.self) {
			f(r.id, r.row.Primary() == r.self, r.store)
		}
		r.mu.Unlock()
	}
}
