package rest

import (
	"context"
	"errors"
	"time"

	"gridnode/engine"
	"gridnode/grid"
)

// Jobs runs jobs. Any member's may be asked. Errors are those of package engine, or the grid's. All methods may be called at once.
type Jobs interface {
	Submit(ctx context.Context, req engine.SubmitRequest) (engine.SubmitResult, error)
	Stop(ctx context.Context, req engine.StopRequest) error
	// Info returns a job, live or ended, or engine.ErrNotFound.
	Info(ctx context.Context, id string) (engine.JobView, error)
	// Running returns all jobs that have not ended.
	Running(ctx context.Context) ([]engine.JobView, error)
	// Finished returns the ended jobs of that status, or all when it is empty.
	Finished(ctx context.Context, status engine.JobStatus) ([]engine.JobView, error)
	// FinishedPage returns at most rows of the ended jobs, from one on, that which ended last first, and how many there are.
	FinishedPage(ctx context.Context, status engine.JobStatus, from, rows int) (engine.JobsPage, error)
	// Jobs returns at most rows of all jobs of that status, or of all when it is empty, from one on, the live ones first, with the numbers of all jobs by status.
	Jobs(ctx context.Context, status engine.JobStatus, from, rows int) (engine.JobsPage, error)
	Overview(ctx context.Context) (engine.Overview, error)
	Cleanups(ctx context.Context) ([]engine.CleanupView, error)
	// Checkpoints returns the figures of a job's checkpoints, or engine.ErrNotFound.
	Checkpoints(ctx context.Context, id string) (engine.JobCheckpoints, error)
	// Savepoints returns what is stored of a job's checkpoints, or engine.ErrNotFound.
	Savepoints(ctx context.Context, id string) (engine.JobSavepoints, error)
	// DropSavepoints removes those of a job that has ended, and returns their number. It may be repeated.
	DropSavepoints(ctx context.Context, id string) (int, error)
}

// ErrAbsent is what [Maps.Get] returns when there is no such entry.
var ErrAbsent = errors.New("no such entry")

// Maps reads and writes the distributed maps. Errors are the grid's. All methods may be called at once.
type Maps interface {
	Get(ctx context.Context, mapName, key string) (Value, error)
	Put(ctx context.Context, mapName, key string, v Value, opts PutOptions) (PutResult, error)
	// Delete removes the entry. With ifVersion above 0 it does so only if the entry has that version.
	Delete(ctx context.Context, mapName, key string, ifVersion uint64) (DeleteResult, error)
	Size(ctx context.Context, mapName string) (int, error)
	// List returns every map, the engine's too, ordered by name.
	List(ctx context.Context) ([]MapInfo, error)
	// Entries returns up to limit entries, in no particular order.
	Entries(ctx context.Context, mapName string, limit int) ([]Entry, error)
	// Find returns up to limit entries for which the where text holds, fewer once they have that many bytes, in an order that stays. next is
	// what after is to be for those that follow; empty: none do. An empty after is the beginning. A where text or an after that is wrong is an
	// error of kind Definite that says how, and at which position.
	Find(ctx context.Context, mapName string, q Find) (list []Entry, next string, err error)
}

// Find is what [Maps.Find] looks for.
type Find struct {
	Where, After string
	Limit, Bytes int
}

// Value is a value as HTTP carries it.
type Value struct {
	Body        []byte
	ContentType string
	Version     uint64        // unique to each write of the entry; ignored by Put
	TTL         time.Duration // what is left to live; 0 is for ever. To Put: the time to live, 0 is the map's default
	Type        int32         // the id of Hazelcast's serialization, if Body is of a type that only the client knows that wrote it; else 0
}

// PutOptions are the conditions of a put. At most one is set.
type PutOptions struct {
	IfAbsent  bool
	IfPresent bool
	IfVersion uint64 // above 0: only if the entry has that version
}

// PutResult is the answer to a put.
type PutResult struct {
	Applied   bool   // the condition held
	Created   bool   // there was no entry before
	Version   uint64 // the new version; when not applied, the present one, or 0 if there is no entry
	Partition grid.PartitionID
}

// DeleteResult is the answer to a delete.
type DeleteResult struct {
	Deleted bool
	Version uint64 // when not deleted: the present version, or 0 if there is no entry
}

// MapInfo describes one map.
type MapInfo struct {
	Name  string
	Size  int
	Bytes int64 // of the primary copies, about
	Locks int
	MapCounts
}

// MapCounts count what was done to a map, since its members started.
type MapCounts struct {
	Gets, Hits, Misses     uint64
	Puts, Removes          uint64
	Evictions, Expirations uint64
}

// Entry is an entry of a map.
type Entry struct {
	Key   string
	Value Value
}

// Grid shows the cluster as this member knows it. All methods may be called at once.
type Grid interface {
	// State returns the agreed state; nil, or one that is not formed, before the member has joined. It is never changed.
	State() *grid.State
	// Moves returns what the table of a state owes yet. It is quick when asked again for the same.
	Moves(*grid.State) grid.Moves
	// Safe reports whether every partition has what it should have in a state, nothing is under way or owed, and this member can know.
	Safe(*grid.State) bool
	// Sending returns what this member sends of whole partitions.
	Sending() grid.Sending
	Self() grid.MemberID
	// SetTags replaces the tags of this member, which jobs choose workers by.
	SetTags(ctx context.Context, tags map[string]string) error
	// Checks tells whether this member can serve. It is ready when all are OK, and there is at least one.
	Checks() []Check
	// Quorum returns nil, or an error that wraps grid.ErrNoQuorum when this member knows no master that leads a majority of the voters.
	Quorum() error
	// Recover makes those members that this one can reach go on without the others; without force it only says what that would mean. The error
	// wraps grid.ErrRefused while the cluster can decide by itself.
	Recover(ctx context.Context, force bool) (grid.Recovery, error)
	// SystemInfo asks a member, which may be this one, how its process is: see [CollectSystemInfo].
	SystemInfo(ctx context.Context, member grid.MemberID) (SystemInfo, error)
}

// Check is one condition of readiness.
type Check struct {
	Name   string // one word
	OK     bool
	Detail string // why not
}
