package cluster

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/transport"
	"gridnode/internal/memnet"
)

func packed(f testing.TB, v any) []byte {
	b, err := pack.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// small is a cluster of two members, and one partition.
func small() *grid.State {
	return &grid.State{
		ClusterID: "c", ClusterName: "test", Backups: 1, Index: 7, Master: "a", Term: 2,
		Members: []grid.Member{
			{ID: "a", Address: "a:5701", Roles: []string{grid.RoleData}, JoinSeq: 1, State: grid.Active},
			{ID: "b", Address: "b:5701", Roles: []string{grid.RoleData}, JoinSeq: 2, State: grid.Active},
		},
		Partitions: []grid.Partition{{Epoch: 3, Replicas: []grid.MemberID{"a", "b"}, Reign: 1, Born: 1}},
	}
}

// FuzzApply puts any bytes into the log: an entry changes the state in the same way wherever it is applied, or not at all, and counts.
func FuzzApply(f *testing.F) {
	for _, c := range []grid.Command{
		{Add: &grid.AddMember{Member: grid.Member{ID: "c", Address: "c:1"}}}, {Remove: &grid.RemoveMember{ID: "b"}},
		{State: &grid.SetState{ID: "a", State: grid.Leaving}}, {Claim: &grid.ClaimMaster{ID: "b", Term: 5}},
		{Batch: []grid.Command{
			{Replica: &grid.ReplicaChange{Op: grid.OpPrimary, Epoch: 3, Member: "b"}}, {Replica: &grid.ReplicaChange{Op: grid.OpDrop, Epoch: 4, Member: "a"}},
			{Replica: &grid.ReplicaChange{Op: grid.OpJoin, Partition: -1, Epoch: 3, Member: "a"}},
		}},
		{Form: &grid.Form{ClusterID: "x", Partitions: 1 << 40}}, {Batch: []grid.Command{{Batch: []grid.Command{{}}}}}, {},
	} {
		f.Add(packed(f, &c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, same, unformed := small(), small(), &grid.State{}
		for range 2 {
			next, _ := applyEntry(s, &raft.Log{Type: raft.LogCommand, Term: 5, Data: b})
			again, _ := applyEntry(same, &raft.Log{Type: raft.LogCommand, Term: 5, Data: b})
			if diff := cmp.Diff(next, again); diff != "" || next.Index != s.Index+1 {
				t.Fatalf("index %d after %d; applied twice:\n%s", next.Index, s.Index, diff)
			}
			if diff := cmp.Diff(small().Partitions, same.Partitions); s.Index == 7 && diff != "" {
				t.Fatalf("a state was changed in place:\n%s", diff)
			}
			s, same = next, again
			unformed, _ = applyEntry(unformed, &raft.Log{Type: raft.LogCommand, Term: 5, Data: b})
		}
		s.Complete()
	})
}

// FuzzRestore reads snapshots of any bytes: it takes them or refuses them, and what it takes it writes again as it was.
func FuzzRestore(f *testing.F) {
	f.Add(packed(f, small()))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newFSM()
		m.snaps = &snapshotStore{}
		if err := m.Restore(io.NopCloser(bytes.NewReader(b))); err != nil {
			return
		}
		s := m.view.Load().state
		sink, _ := m.snaps.Create(raft.SnapshotVersionMax, 1, 1, raft.Configuration{}, 0, nil)
		if err := (snapshot{s}).Persist(sink); err != nil {
			t.Fatal(err)
		}
		_, r, err := m.snaps.Open(sink.ID())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := readSnapshot(r); err != nil || s.Complete() != again.Complete() || len(s.Partitions) != len(again.Partitions) {
			t.Fatalf("written again it is %+v (%v), not %+v", again, err, s)
		}
	})
}

// idle is a member that does not run.
func idle(f *testing.F) *Cluster {
	tr, err := transport.New(transport.Config{Network: memnet.New(1).Host("a"), Bind: "a:5701", Self: "a", ClusterName: "test"})
	if err != nil {
		f.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.ClusterName, cfg.Transport, cfg.Self = "test", tr, grid.Member{ID: "a", Name: "a"}
	c, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	c.fsm.publish(small(), 7)
	return c
}

// FuzzRequests gives a member that is not master any bytes as requests: each is answered once, and nothing panics.
func FuzzRequests(f *testing.F) {
	c := idle(f)
	serve := []func(grid.MemberID, []byte, func([]byte, error)){
		c.serveHello, c.serveJoin, c.serveBeat, c.serveConfirm, c.servePropose, c.serveRecoverAsk, c.serveRecoverDo,
	}
	for i, v := range []any{
		&helloMsg{ID: "b", Address: "b:1", ClusterName: "test", Peers: []string{"x"}}, &joinMsg{Member: grid.Member{ID: "b"}, AcceptedAt: 3}, &beatMsg{"b", 3, 2},
		&confirmMsg{2, "c"}, &grid.Command{State: &grid.SetState{ID: "b", State: grid.Leaving}}, &recoverAskMsg{Ballot: "x"},
		&recoveryPlan{Ballot: "x", State: small(), Index: 1 << 40, Term: 1 << 40},
	} {
		f.Add(uint8(i), packed(f, v))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		answers := make(chan error, 2)
		serve[int(kind)%len(serve)]("b", body, func(_ []byte, err error) { answers <- err })
		c.calls.Wait()
		if len(answers) != 1 {
			t.Fatalf("%d answers", len(answers))
		}
		serve[int(kind)%len(serve)]("b", body, nil) // as a message that wants no answer
	})
}

// FuzzGossip lets gossip tell of members whatever it likes: it is believed or not, and no more is remembered than there is room for.
func FuzzGossip(f *testing.F) {
	c := idle(f)
	g := &gossip{c: c, dead: map[grid.MemberID]bool{}}
	g.net = newGossipNet(c.t, g)
	f.Cleanup(g.net.end)
	f.Add("b", packed(f, &gossipMeta{Cluster: "test", ClusterID: "c", Address: "b:5701"}))
	f.Add("", []byte{0xc1})
	f.Fuzz(func(t *testing.T, name string, meta []byte) {
		n := &memberlist.Node{Name: name, Meta: meta}
		var said gossipMeta
		bad := pack.Unmarshal(meta, &said) != nil || said.Cluster != "test" || said.ClusterID != "" && said.ClusterID != "c"
		if err := g.NotifyAlive(n); (err != nil) != bad {
			t.Fatalf("%x is taken: %v, and should be: %t", meta, err == nil, !bad)
		}
		g.NotifyJoin(n)
		g.NotifyUpdate(n)
		g.NotifyMsg(meta)
		g.MergeRemoteState(meta, true)
		g.NotifyLeave(n)
		if len(g.dead) > maxDead || len(c.form.known()) > maxPeers {
			t.Fatalf("%d dead and %d peers are remembered", len(g.dead), len(c.form.known()))
		}
		if len(g.NodeMeta(memberlist.MetaMaxSize)) > memberlist.MetaMaxSize {
			t.Fatal("it says too much of itself")
		}
	})
}
