// Package cluster decides who is a member and who is master. It runs hashicorp/raft for what is agreed and hashicorp/memberlist for hints,
// behind a small surface: [Cluster.View] to read the agreed state, [Cluster.Propose] to change it, a lease, and a callback for the master.
//
// # Who does what
//
// Every member runs raft; up to five vote, the others get the same log. The raft leader claims the role of master through the log and then
// grants leases, accepts members, removes them, and keeps raft's servers in step with the members. Gossip and broken connections only give
// hints: a hint makes the master remove a member as soon as its lease is over, instead of after the session timeout.
//
// # Why a removed member never acts
//
//   - A member's lease runs from before it sent the heartbeat; the master counts it from when it granted, which is later, and adds for drift.
//   - The master grants a batch of heartbeats only after it has seen, after they came in, a majority of voters still in its own term. raft's
//     own VerifyLeader does not do for that: it counts the answers of members that have no vote.
//   - It removes a member only when that member's lease is over by its own clock, and from the moment it proposes that it grants it nothing.
//   - A new master counts every lease as granted at the moment of its own election: after that the old master found no majority in its term.
//
// # Streams
//
// Raft's servers are addressed as "id@host:port", and every stream begins with a handshake that names the id; so a process that was restarted
// at an address is never taken for its predecessor, whose votes and log it has forgotten.
//
// # Goroutines
//
// All belong to [Cluster.Run]: formation, heartbeats, the master's loop with its duties, a watch on the view, and those of raft and memberlist.
package cluster
