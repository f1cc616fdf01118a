package cluster

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/internal/memnet"
)

// churn makes n changes through a member, some at a time, as the moves after a death do.
func (w *world) churn(m *member, n int) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range n / 16 {
				_ = m.Propose(w.t.Context(), assign(grid.PartitionID(i%7), 0, m.Self().ID)) // most are refused, but in the log
			}
		})
	}
	wg.Wait()
}

// replayed is how many entries of the log a member got since it began, or since the snapshot that it was given.
func (m *member) replayed() uint64 {
	g := m.group.Load()
	last, _ := g.store.LastIndex()
	if list, err := g.snaps.List(); err == nil && len(list) > 0 {
		return last - min(last, list[0].Index)
	}
	return last
}

// TestJoin_BoundedReplay joins after thousands of changes: what a joiner gets does not grow with what has happened before it.
func TestJoin_BoundedReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 1, 3)
		for round, changes := range []int{500, 2000, 6000} {
			w.churn(w.master(), changes)
			time.Sleep(2 * snapshotEvery)
			joiner := w.start(hostNames[3+round], func(c *Config) { c.Seeds = seedsOf("a", "b", "c") })
			took := w.awaitAgreed(4+round, 5*time.Second)
			s, _ := joiner.View()
			t.Logf("after %d changes a joiner got %d entries and was active after %s", s.Index, joiner.replayed(), took)
			// What may have come since the last snapshot, and what its own joining adds.
			if got := joiner.replayed(); got > snapshotAfter+64 {
				t.Errorf("after %d changes a joiner got %d entries of the log", s.Index, got)
			}
		}
	})
}

// TestSlowFollower_KeepsUp: a member whose link is slow gets no snapshot after the other while the log is cut off behind it, but follows, and
// has everything soon after the changes end.
func TestSlowFollower_KeepsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := formedWorld(t, 2, 3)
		m := w.master()
		slow := w.others(m)[0]
		const late = 100 * time.Millisecond
		w.net.SetFault(m.host, slow.host, memnet.Fault{Delay: late, Only: "GR1"})
		w.net.SetFault(slow.host, m.host, memnet.Fault{Delay: late, Only: "GR1"})
		behind, installed := uint64(0), map[string]bool{}
		var wg sync.WaitGroup
		stop := time.Now().Add(40 * time.Second)
		for i := range 4 {
			wg.Go(func() {
				for time.Now().Before(stop) { // about 100 a second in all
					_ = m.Propose(t.Context(), assign(grid.PartitionID(i), 0, m.Self().ID))
					time.Sleep(40 * time.Millisecond)
				}
			})
		}
		for time.Now().Before(stop) {
			time.Sleep(50 * time.Millisecond)
			ahead, _ := m.View()
			has, _ := slow.View()
			behind = max(behind, ahead.Index-min(ahead.Index, has.Index))
			installed[slow.raft.Load().Stats()["last_snapshot_index"]] = true
		}
		wg.Wait()
		ahead, _ := m.View()
		took := w.await("the slow member has everything", 5*time.Second, func() bool { s, _ := slow.View(); return s.Index >= ahead.Index })
		t.Logf("%d changes, at most %d behind, %d snapshots seen, level %s after the last change", ahead.Index, behind, len(installed), took)
		if ahead.Index < 2000 {
			t.Errorf("only %d changes were made: the test shows nothing", ahead.Index)
		}
		if behind > snapshotTrail {
			t.Errorf("it was %d entries behind", behind)
		}
	})
}

// TestSnapshotStore_OnlyWhole: nobody is given a snapshot that is not whole, or an older one than there was.
func TestSnapshotStore_OnlyWhole(t *testing.T) {
	s := &snapshotStore{}
	begin := func(index uint64) raft.SnapshotSink {
		sink, err := s.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(sink, "content %d", index); err != nil {
			t.Fatal(err)
		}
		return sink
	}
	holds := func(want string) {
		t.Helper()
		list, err := s.List()
		if err != nil || len(list) == 0 {
			if want != "" || err != nil {
				t.Fatalf("there is %v (%v), not %q", list, err, want)
			}
			return
		}
		meta, r, err := s.Open(list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(r); string(b) != want || meta.Size != int64(len(want)) {
			t.Errorf("it holds %q of %d bytes, not %q", b, meta.Size, want)
		}
	}
	first := begin(10)
	holds("")
	_ = first.Close()
	holds("content 10")
	second := begin(20)
	holds("content 10")
	_ = second.Cancel()
	_ = second.Close()
	holds("content 10")
	third, late := begin(30), begin(25)
	_ = third.Close()
	_ = late.Close()
	holds("content 30")
	if _, err := late.Write([]byte("x")); err == nil {
		t.Error("written after its end")
	}
	if _, _, err := s.Open("1-10"); err == nil {
		t.Error("a snapshot is opened that is not kept any more")
	}
	if _, err := s.Create(0, 1, 1, raft.Configuration{}, 0, nil); err == nil {
		t.Error("an unknown version is taken")
	}
}

// BenchmarkSnapshot is what a snapshot of the agreed state costs.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{grid.DefaultPartitions, grid.MaxPartitions} {
		s := &grid.State{ClusterID: "c", Partitions: make([]grid.Partition, n)}
		for i := range 5 {
			s.Members = append(s.Members, grid.Member{ID: grid.MemberID(fmt.Sprintf("%d0000000-0000-0000-0000-000000000000", i)), Address: "127.0.0.1:5701"})
		}
		for i := range s.Partitions {
			s.Partitions[i] = grid.Partition{Epoch: 17, Replicas: []grid.MemberID{s.Members[i%5].ID, s.Members[(i+1)%5].ID}, Reign: 12, Prev: []grid.MemberID{s.Members[i%5].ID}}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			store := &snapshotStore{}
			for i := range b.N {
				sink, _ := store.Create(raft.SnapshotVersionMax, uint64(i), 1, raft.Configuration{}, 0, nil)
				if err := (snapshot{s}).Persist(sink); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(store.latest.meta.Size)
		})
	}
}
