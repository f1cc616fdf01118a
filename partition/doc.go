// Package partition keeps the replicas of each partition in step: the primary decides operations and sends their effects to every in-sync
// backup, a new primary takes over, a joining member is brought up, and callers find the primary.
//
// The protocol is the one of docs/design.md, "Replication": primary-backup with epochs under a configuration manager (PacificA). A
// replica's decisions (replica.go and its neighbours) know no goroutine, clock or socket; [Host] gives them those.
package partition
