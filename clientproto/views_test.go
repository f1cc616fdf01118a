package clientproto

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// changing is a view that changes.
type changing struct {
	mu      sync.Mutex
	s       *grid.State
	changed chan struct{}
}

func (v *changing) View() (*grid.State, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.s, v.changed
}

// set agrees on who the members are and which has which partition.
func (v *changing) set(members []string, primaries ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &grid.State{Index: 1, ClusterID: selfID}
	if v.s != nil {
		s.Index = v.s.Index + 3
		close(v.changed)
	}
	for _, m := range members {
		s.Members = append(s.Members, grid.Member{ID: grid.MemberID(m), Address: "127.0.0.1:5701", Roles: []string{grid.RoleData}, State: grid.Active})
	}
	for _, p := range primaries {
		part := grid.Partition{}
		if p != "" {
			part.Replicas = []grid.MemberID{grid.MemberID(p)}
		}
		s.Partitions = append(s.Partitions, part)
	}
	v.s, v.changed = s, make(chan struct{})
}

// told is one view that a client got.
type told struct {
	at      time.Time
	kind    uint32
	id      uint64
	version int32
	bytes   string // all but the id
}

// watcher is a registered connection that notes what it gets.
type watcher struct {
	c  *conn
	id uint64
}

func watchViews(s *Server, id uint64) *watcher {
	w := &watcher{c: newConn(s, nil), id: id}
	s.add(w.c)
	head := binary.LittleEndian.AppendUint32(nil, 0x000300)
	head = binary.LittleEndian.AppendUint64(head, id)
	_, _ = addClusterViewListener(context.Background(), &call{c: w.c, m: message{{body: append(head, 0, 0, 0, 0)}}, spec: specs[0x000300]})
	return w
}

// take returns what has come up since.
func (w *watcher) take(t *testing.T) (list []told) {
	t.Helper()
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	b := w.c.out
	w.c.out = nil
	for len(b) > 0 {
		x := told{at: time.Now(), kind: binary.LittleEndian.Uint32(b[frameHead:]), id: binary.LittleEndian.Uint64(b[frameHead+correlation:])}
		if x.kind != 0x000301 {
			x.version = int32(binary.LittleEndian.Uint32(b[frameHead+requestHead:]))
		}
		n := 0
		for last := false; !last; {
			last = binary.LittleEndian.Uint16(b[n+4:])&flagFinal != 0
			n += int(binary.LittleEndian.Uint32(b[n:]))
		}
		x.bytes = string(b[:frameHead+correlation]) + string(b[frameHead+partitionAt:n])
		b = b[n:]
		list = append(list, x)
	}
	return list
}

func viewServer(v View) *Server {
	return New(Config{Self: selfID, ClusterName: "dev", View: v, Peers: alone{}})
}

// A lost primary is told at once, however much has just been told; moves between living members at most so often, and all of them in the end.
func TestViews_ReachEveryClientInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &changing{}
		v.set([]string{"a", "b", "c"}, "a", "b", "c", "a", "b", "c")
		s := viewServer(v)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.pushViews(ctx) })
		defer wg.Wait()
		defer cancel()
		synctest.Wait()
		watchers := []*watcher{watchViews(s, 7), watchViews(s, 9)}
		for _, w := range watchers {
			if got := w.take(t); len(got) != 3 || got[0].kind != 0x000301 || got[1].kind != 0x000302 || got[2].kind != 0x000303 {
				t.Fatalf("to begin with: %+v", got)
			}
		}
		versions := map[uint32]int32{}
		// expect looks for views of these kinds within d, and for none before.
		expect := func(what string, d time.Duration, kinds ...uint32) {
			t.Helper()
			if d > 0 {
				time.Sleep(d - time.Millisecond)
				synctest.Wait()
				for _, w := range watchers {
					if got := w.take(t); len(got) > 0 {
						t.Errorf("%s: too early: %d views", what, len(got))
					}
				}
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
			var first []told
			for i, w := range watchers {
				got := w.take(t)
				var is []uint32
				for _, x := range got {
					is = append(is, x.kind)
					if x.id != w.id {
						t.Errorf("%s: for registration %d", what, x.id)
					}
					if i == 0 && x.version <= versions[x.kind] {
						t.Errorf("%s: version %d after %d", what, x.version, versions[x.kind])
					}
					versions[x.kind] = x.version
				}
				if !slices.Equal(is, kinds) {
					t.Errorf("%s: got %#x, want %#x", what, is, kinds)
				}
				if i == 0 {
					first = got
				} else if len(got) == len(first) && len(got) > 0 && got[len(got)-1].bytes != first[len(first)-1].bytes {
					t.Errorf("%s: clients are told different things", what)
				}
			}
		}
		const members, partitions = 0x000302, 0x000303
		all := []string{"a", "b", "c"}
		time.Sleep(time.Second)
		v.set(all, "b", "b", "c", "a", "b", "c")
		expect("the first move", 0, partitions)
		for i := range 5 {
			time.Sleep(5 * time.Millisecond)
			v.set(all, "b", "b", "c", []string{"b", "c"}[i%2], "b", "c")
		}
		expect("a burst of moves", moveEvery-25*time.Millisecond, partitions)
		v.set(all, "b", "b", "c", "c", "b", "c")
		v.set(all, "b", "b", "c", "b", "b", "c")
		v.set(all, "a", "b", "c", "b", "b", "c")
		time.Sleep(time.Millisecond)
		v.set([]string{"a", "b"}, "a", "b", "a", "b", "b", "b")
		expect("a primary died amid moves", 0, members, partitions)
		time.Sleep(moveEvery / 2)
		v.set([]string{"a", "b"}, "a", "b", "a", "b", "b", "b")
		expect("nothing new", 0)
		v.set([]string{"a"}, "a", "", "a", "", "", "")
		expect("partitions are lost", 0, members, partitions)
		v.set([]string{"a"}, "a", "a", "a", "", "", "")
		expect("they get a primary", 0, partitions)
		v.set([]string{"a", "d"}, "a", "a", "a", "", "", "")
		expect("a member joins", 0, members)
		time.Sleep(2 * time.Millisecond)
		v.set([]string{"a", "d"}, "d", "a", "a", "", "", "")
		time.Sleep(2 * time.Millisecond)
		late := watchViews(s, 11)
		v.set([]string{"a", "d"}, "a", "a", "a", "", "", "")
		_ = late.take(t)
		expect("a move that was taken back, but heard of", moveEvery-4*time.Millisecond, partitions)
	})
}

// Versions never go back on a connection, whoever sends at once.
func TestViews_VersionsRise(t *testing.T) {
	v := &changing{}
	v.set([]string{"a"}, "a")
	s := viewServer(v)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.pushViews(ctx) })
	var list []*watcher
	for i := range 200 {
		m := fmt.Sprint("m", i)
		wg.Go(func() { v.set([]string{"a", m}, m, "a") })
		list = append(list, watchViews(s, uint64(i+1)))
	}
	v.set([]string{"z"}, "z")
	time.AfterFunc(100*time.Millisecond, cancel)
	wg.Wait()
	for _, w := range list {
		last := map[uint32]int32{}
		for _, x := range w.take(t) {
			if x.version <= last[x.kind] && x.kind != 0x000301 {
				t.Fatalf("version %d after %d", x.version, last[x.kind])
			}
			last[x.kind] = x.version
		}
	}
}

func BenchmarkViews_ToManyClients(b *testing.B) {
	v := &changing{}
	primaries := make([]string, grid.DefaultPartitions)
	for i := range primaries {
		primaries[i] = []string{"a", "b", "c"}[i%3]
	}
	v.set([]string{"a", "b", "c"}, primaries...)
	s := viewServer(v)
	var list []*watcher
	for i := range 1000 {
		list = append(list, watchViews(s, uint64(i+1)))
	}
	state, _ := v.View()
	for n := range b.N {
		s.push(views{version: state.Index + uint64(n) + 1, partitions: partitionsView(state)})
		for _, w := range list {
			w.c.out = w.c.out[:0]
		}
	}
}
