package imap

import (
	"context"
	"fmt"

	"gridnode/grid"
)

// dropped is that the indexes of a map are gone which were added at that time or before. Who has removed any for it tells the others, until all of
// them know the version in which it said so: nobody can bring them back then.
type dropped struct{ at, version uint64 }

// dropIndexes removes the indexes that were added to a map, and returns the version that the others have to know; 0: there were none.
func (r *Registry) dropIndexes(name string) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexes[name] == nil {
		return 0, nil
	}
	if len(r.dropped) >= maxNamedMaps {
		return 0, fmt.Errorf("%w: indexes of %d maps are being removed", grid.ErrOverloaded, maxNamedMaps)
	}
	r.clock++
	r.dropLocked(name, r.clock)
	r.rebuild()
	return r.version, nil
}

// dropLocked removes indexes and notes it, if there are such.
func (r *Registry) dropLocked(name string, at uint64) {
	next := r.indexes.without(name, at)
	if len(next) == len(r.indexes) && next[name] == r.indexes[name] {
		return
	}
	r.indexes = next
	r.version++
	if r.dropped == nil {
		r.dropped = map[string]dropped{}
	}
	r.dropped[name] = dropped{at: max(at, r.dropped[name].at), version: r.version}
}

// learnIndexes takes what another member announces of indexes.
func (r *Registry) learnIndexes(a announcement) error {
	r.clock = max(r.clock, a.Clock)
	for _, d := range a.Dropped {
		r.dropLocked(d.Map, d.At)
	}
	for _, ix := range a.Indexes {
		if ix.At <= r.dropped[ix.Map].at {
			continue
		}
		if err := r.addIndexesLocked(ix.Map, []IndexConfig{ix.Config}, ix.At); err != nil {
			return err
		}
	}
	return nil
}

// forgetDropped forgets what all members know to be gone.
func (r *Registry) forgetDropped(s *grid.State) {
	for name, d := range r.dropped {
		all := true
		for _, m := range s.Members {
			t := r.told[m.ID]
			all = all && (m.ID == r.self || t != nil && t.known >= d.version)
		}
		if all {
			delete(r.dropped, name)
		}
	}
}

// dropIndexes removes the indexes that were added to the map, and returns when all members know it.
func (m *Map) dropIndexes(ctx context.Context) error {
	r := m.g.registry
	if r == nil {
		return nil
	}
	version, err := r.dropIndexes(m.name)
	if err != nil || version == 0 {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, listenBudget)
		defer cancel()
	}
	if err := r.awaitKnown(ctx, version); err != nil {
		return fmt.Errorf("%w: map %s is empty, but not every member knows that its indexes are gone: %v", grid.ErrIndeterminate, m.name, err)
	}
	return nil
}
