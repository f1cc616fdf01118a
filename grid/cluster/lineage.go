package cluster

import (
	"fmt"
	"sync"
)

// lineage is which raft group a member is in: the one that the cluster was formed with, or one that came out of a recovery. Raft itself takes
// entries and snapshots from whoever leads in a high enough term, whether or not it is in the configuration (raft 1.8.0, raft.go, appendEntries
// and installSnapshot). So a leader of the group before a recovery, if it comes back, could pull survivors back into that group. The label of
// each stream says which group it is for, and the accepting side takes no stream of an older one, or of another one of the same age.
type lineage struct {
	mu         sync.Mutex // guards what follows
	generation int64      // recoveries that led to the group; -1: this member is in none yet
	ballot     string     // of the last recovery
}

func newLineage(plan *recoveryPlan) *lineage {
	if plan == nil {
		return &lineage{generation: -1}
	}
	return &lineage{generation: int64(plan.State.Recoveries), ballot: plan.Ballot}
}

// found makes this member's group the first of its cluster.
func (l *lineage) found() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation = 0
}

// label is what streams to others are labelled with.
func (l *lineage) label() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d %s", l.generation, l.ballot)
}

// accepts reports whether a stream of that label may be taken. One of a newer group comes only to its members: a member that has missed its own
// recovery, or is in no group yet, is in that one from then on.
func (l *lineage) accepts(label string) (ok bool) {
	var generation int64
	var ballot string
	if n, _ := fmt.Sscanf(label, "%d %s", &generation, &ballot); n < 1 || generation < 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if generation > l.generation {
		l.generation, l.ballot = generation, ballot
	}
	return generation == l.generation && ballot == l.ballot
}
