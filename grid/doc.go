// Package grid is the vocabulary of the data grid, and the state that its members agree on, as pure values.
//
// # Glossary
//
//   - member: one running gridnode process, named by a [MemberID] that is new for every process start; a restarted process is a new member.
//     That is what makes agreement without disks safe: a process that forgot its votes never votes again under the same name.
//   - master: the member that edits the agreed state and coordinates jobs; the raft leader that has claimed the role through the log.
//   - term: the raft term in which a master claimed its role. It grows with every new master.
//   - partition: one of a fixed number of slices of the key space.
//   - replica: a member's copy of a partition. The first in [Partition.Replicas] is the primary, the others are backups.
//   - primary: the replica that decides operations and answers them.
//   - in-sync: a replica that holds every acknowledged effect. Only in-sync replicas are in [Partition.Replicas], and only they are promoted.
//   - joining: a member that is being brought up to a partition's state and does not count yet.
//   - epoch: the number of a partition's configuration. Every change of its replicas raises it; each message between replicas carries it.
//   - reign: the epochs during which one member stays primary without a break.
//   - effect: what an operation did, as data that every replica applies alike; operations themselves never travel to backups.
//   - takeover: what a new primary does before it serves: seal the former replicas, make all replicas equal.
//   - lease: the time during which a member may act as one; it is granted by the master and counted on the monotonic clock.
//   - suspended: a member that does not answer and has the only copies of something. It keeps those, and gets no lease before it knows so.
//   - incarnation: one accepted submit of a job. Attempt: one deploy of a task.
//   - tombstone: the state of an ended job that stays for a while, so that late callbacks meet a terminal state.
//
// The replication scheme is primary-backup under a configuration manager, published as PacificA (Lin, Yang, Zhang, Zhang: "PacificA:
// Replication in Log-Based Distributed Storage Systems", 2008). Its words map to ours so: secondary is backup, configuration version is
// epoch, configuration manager is the raft group.
package grid
