package cluster

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// snapshotStore keeps the newest complete snapshot, in memory. A snapshot that is still being written, or that broke off, is not seen: raft's
// own store in memory shows it from its first byte on, and a member that joins just then gets a piece of one.
type snapshotStore struct {
	mu     sync.Mutex // guards latest, which is not changed once it is here
	latest *snapshotSink
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

// Create begins a snapshot. It counts from its Close on.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("snapshots of version %d are not known", version)
	}
	return &snapshotSink{store: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: conf, ConfigurationIndex: confIndex,
	}}, nil
}

// List returns the newest snapshot, or nothing.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return nil, nil
	}
	meta := s.latest.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

// Open returns a snapshot of [snapshotStore.List]; an error says that there is a newer one by now.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || s.latest.meta.ID != id {
		return nil, nil, fmt.Errorf("there is no snapshot %s any more", id)
	}
	meta := s.latest.meta
	return &meta, io.NopCloser(bytes.NewReader(s.latest.content.Bytes())), nil
}

func (s *snapshotStore) keep(sink *snapshotSink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || sink.meta.Index >= s.latest.meta.Index {
		s.latest = sink
	}
}

// snapshotSink is one snapshot. It is written by one goroutine, and not at all after its Close.
type snapshotSink struct {
	store   *snapshotStore
	meta    raft.SnapshotMeta
	content bytes.Buffer
	ended   bool
}

// ID names the snapshot.
func (s *snapshotSink) ID() string { return s.meta.ID }

// Write adds to the snapshot.
func (s *snapshotSink) Write(b []byte) (int, error) {
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	s.meta.Size += int64(len(b))
	return s.content.Write(b)
}

// Close makes the snapshot count.
func (s *snapshotSink) Close() error {
	if !s.ended {
		s.ended = true
		s.store.keep(s)
	}
	return nil
}

// Cancel gives the snapshot up.
func (s *snapshotSink) Cancel() error {
	s.ended = true
	return nil
}
