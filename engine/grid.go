package engine

import (
	"context"
	"errors"
	"time"
)

// The three kinds of error that the grid may return to the engine; everything else is definite. Test with errors.Is.
var (
	// ErrRetryable: the call did not run; calling again later may succeed.
	ErrRetryable = errors.New("not possible now, try again")
	// ErrIndeterminate: the call may or may not have run, and may still run later.
	ErrIndeterminate = errors.New("outcome unknown")
)

// Key names an entry of a map. Place decides the partition: all keys with the same Place live together, and one [Txn] covers only such keys.
type Key struct {
	Map   string
	Place string // the decimal job id
	Key   string
}

// Entry is an entry as it was read. Version is unique to each write of each entry and grows; 0 means that the entry is absent.
type Entry struct {
	Key     Key
	Value   []byte // the receiver's own copy
	Version uint64
}

// Put is one write of a [Txn].
type Put struct {
	Key   Key
	Value []byte
	TTL   time.Duration // 0 keeps the entry until it is removed
}

// Cond is one condition of a [Txn]: the entry has exactly this version, or is absent (0).
type Cond struct {
	Key     Key
	Version uint64
}

// Txn does all its puts and deletes at once if all conditions hold, else nothing. All keys have the same Place.
type Txn struct {
	If     []Cond
	Put    []Put
	Delete []Key
}

// TxnResult is the answer to a [Txn].
type TxnResult struct {
	Applied bool
	// Versions of the entries that were put, in the order of Txn.Put, when applied.
	Versions []uint64
	// Current holds the entries of Txn.If as they are (absent: Version 0), in that order, when not applied.
	Current []Entry
}

// Store is the engine's view of the distributed maps. All methods may be called at once; they are linearizable, except that Scan is not
// one atomic picture: it returns every entry that exists throughout, exactly once. A value larger than 4 MiB is refused.
type Store interface {
	Get(ctx context.Context, key Key) (Entry, error) // an absent entry has Version 0 and a nil error
	// GetAll reads several keys of one Place in one atomic step.
	GetAll(ctx context.Context, keys []Key) ([]Entry, error)
	// Scan calls fn for every entry of the map, from one goroutine. It fails if any partition cannot be read: unknown is never absent.
	Scan(ctx context.Context, mapName string, fn func(Entry) error) error
	Size(ctx context.Context, mapName string) (int, error)
	Txn(ctx context.Context, t Txn) (TxnResult, error)
}

// Member is an agreed member of the cluster.
type Member struct {
	ID      string // new for every process start
	Name    string
	Address string // grid address, host:port
	HTTP    string // base URL of its REST
	Worker  bool   // runs tasks
	Leaving bool
	Silent  bool              // it does not answer for now: it keeps its tasks and gets no new ones
	JoinSeq uint64            // order of joining
	Slots   int               // tasks that it runs at once; below 0: any number; 0: as the master's config has it
	Tags    map[string]string // what a job's tag_filter is matched with
}

// Cluster is the engine's view of the members. All methods may be called at once.
type Cluster interface {
	Self() string
	// Members returns the agreed members, ordered by JoinSeq, and a channel that is closed when that list is superseded.
	Members() ([]Member, <-chan struct{})
	// Master returns the member id and the term of the master, if one is known.
	Master() (id string, term uint64, ok bool)
	// Call sends a request to a member's [Service.Serve] and waits for the answer. ErrRetryable: it was not delivered.
	// ErrIndeterminate: it may have been. An answer that is an error of the other side arrives as a definite error with its text.
	Call(ctx context.Context, to string, request []byte) ([]byte, error)
	// Alive returns a context that ends when this member may no longer act as a member (its lease lapsed, or it was removed). A new one
	// is handed out when it may again. Tasks pause in between.
	Alive() context.Context
	// Hopeless is not nil, and says why, if this member has been without a majority for so long that there is no use in asking others.
	Hopeless() error
}
