package grid

import "slices"

// MemberID names one process start. It is a UUID and never comes back.
type MemberID string

// MemberState is how far a member is in its life in the cluster. A member that is gone has no state: it is not in [State.Members].
type MemberState string

// The states of a member.
const (
	Joining MemberState = "joining" // accepted, but not known to run yet: holds no replicas
	Active  MemberState = "active"
	Leaving MemberState = "leaving" // hands its replicas over and gets no new ones

	// Suspended is a member that does not answer and holds what nobody else who answers does. It keeps that and loses everything else, until it
	// is active again or is given up.
	Suspended MemberState = "suspended"
)

// The roles of a member.
const (
	RoleData   = "data"   // holds replicas
	RoleWorker = "worker" // runs tasks
)

// Member is one agreed member of the cluster.
type Member struct {
	ID         MemberID
	Name       string
	Address    string // grid address, host:port: members, raft, gossip and clients
	HTTP       string // base URL of its REST interface
	Roles      []string
	Attributes map[string]string // for example zone
	Slots      int               // tasks of jobs that it runs at once; below 0: any number; 0: it does not say
	JoinSeq    uint64            // order of joining, from 1
	State      MemberState

	// Fence is the index of the entry that suspended the member last: it gets a lease only once it has applied the log that far, and so knows
	// what it has lost. 0: it never was suspended.
	Fence uint64 `msgpack:",omitempty"`
}

// Has reports whether the member has the role.
func (m Member) Has(role string) bool { return slices.Contains(m.Roles, role) }
