package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gridnode/grid"
	"gridnode/grid/transport"
)

// Config is what a [Cluster] needs. Take [DefaultConfig] and fill in Self, ClusterName and Transport.
type Config struct {
	Self        grid.Member // ID as the transport's; Address empty means what the transport advertises; JoinSeq and State are ignored
	ClusterName string
	Seeds       []string // addresses of members to join, or to form with
	Discover    bool     // Seeds are guesses: if no cluster and nobody with a lower address is found there, this member forms one

	// Of a cluster that this member forms: members to wait for, and its shape. A member that joins takes the cluster's.
	Expect, Partitions, Backups int

	Transport *transport.Transport

	Heartbeat      time.Duration // how often a member renews its lease
	Lease          time.Duration // how long a member may act after it asked for renewal
	SessionTimeout time.Duration // after which a silent member is removed without any hint that it is dead
	LossPatience   time.Duration // how long a silent member is waited for that may be alive and has the only copy of something

	// Learned returns up to which entry of the log this member's parts have taken the agreed state in: before that the member is not told that
	// it may act again after it was suspended. It must not block. nil means that they read it whenever they act.
	Learned func() uint64

	RaftHeartbeat   time.Duration // without contact for this long, a voter stands for election
	RaftElection    time.Duration // without a result for this long, it tries again
	RaftLeaderLease time.Duration // without contact to a majority for this long, a leader steps down
	CommitTimeout   time.Duration // after which followers learn that an entry is committed

	// OnMaster are the duties of a master: each runs while this member is master, once per term. ctx ends, with the cause grid.ErrNotMaster, when
	// it is not any more. A duty does not begin in a term before its call of the former term has returned; nothing else waits for it. If one
	// returns an error before ctx ends, Run ends with it.
	OnMaster []func(ctx context.Context, term uint64) error

	Logger *slog.Logger // nil discards
}

// DefaultConfig returns a Config with the timings of a local network. With them, in fake time, 60 crashes each of three and five members (see
// TestMeasureFailover): a crashed follower is removed after 0.47 s (0.43 to 0.53), a crashed master after 1.1 s (0.9 to 1.4), of which the
// election of the next takes 0.6 s. A leader's own patience is nearly a follower's: it need not be shorter, for leases do not rest on it.
func DefaultConfig() Config {
	return Config{
		ClusterName: "gridnode", Expect: 1, Partitions: grid.DefaultPartitions, Backups: 1,
		Heartbeat: 100 * time.Millisecond, Lease: 500 * time.Millisecond, SessionTimeout: 5 * time.Second, LossPatience: 30 * time.Second,
		RaftHeartbeat: 300 * time.Millisecond, RaftElection: 300 * time.Millisecond, RaftLeaderLease: 250 * time.Millisecond,
		CommitTimeout: 5 * time.Millisecond,
	}
}

// Validate names the first field that cannot be used.
func (c *Config) Validate() error {
	for _, f := range []struct {
		ok   bool
		name string
	}{
		{c.Transport != nil, "Transport is nil"},
		{c.Self.ID != "", "Self.ID is empty"},
		{c.ClusterName != "" && len(c.ClusterName) <= maxName, fmt.Sprintf("ClusterName is empty or longer than %d", maxName)},
		{len(c.Self.Name) <= maxName, fmt.Sprintf("Self.Name is longer than %d", maxName)},
		{c.Expect >= 1, "Expect is less than 1"},
		{c.Partitions >= 1 && c.Partitions <= grid.MaxPartitions, fmt.Sprintf("Partitions is not within 1 and %d", grid.MaxPartitions)},
		{c.Backups >= 0 && c.Backups <= grid.MaxBackups, fmt.Sprintf("Backups is not within 0 and %d", grid.MaxBackups)},
		{c.Heartbeat >= 10*time.Millisecond, "Heartbeat is less than 10ms"},
		{c.Lease >= 3*c.Heartbeat, "Lease is less than three times Heartbeat"},
		{c.SessionTimeout >= c.Lease, "SessionTimeout is less than Lease"},
		{c.LossPatience >= 0, "LossPatience is negative"},
		{c.RaftHeartbeat >= 50*time.Millisecond, "RaftHeartbeat is less than 50ms"},
		{c.RaftElection >= c.RaftHeartbeat, "RaftElection is less than RaftHeartbeat"},
		{c.RaftLeaderLease >= 5*time.Millisecond && c.RaftLeaderLease <= c.RaftHeartbeat, "RaftLeaderLease is not within 5ms and RaftHeartbeat"},
		{c.CommitTimeout >= time.Millisecond, "CommitTimeout is less than 1ms"},
	} {
		if !f.ok {
			return errors.New("cluster: " + f.name)
		}
	}
	if c.Transport.Self() != c.Self.ID {
		return errors.New("cluster: Self.ID is not the transport's")
	}
	return nil
}

const (
	maxName     = 64 // of names that gossip carries
	maxVoters   = 5
	probeEvery  = 200 * time.Millisecond
	callTimeout = time.Second     // of one control message
	applyQueue  = 2 * time.Second // that raft may take to accept a command
	maxForwards = 256             // commands of others that wait here at once
	maxPeers    = 64              // addresses learned while forming
)

// drift is what the master adds to a lease, for clocks that do not run alike.
func (c *Config) drift() time.Duration { return c.Lease / 100 }
