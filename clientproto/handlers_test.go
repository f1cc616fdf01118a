package clientproto

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// local runs operations on stores in this process, one for each partition. What would wait is refused.
type local struct {
	mu     sync.Mutex
	stores []*imap.Store
	n      uint64
}

func newLocal(partitions int) *local {
	l := &local{}
	for range partitions {
		l.stores = append(l.stores, imap.NewStore(func(v uint64) uint64 { return v }))
	}
	return l
}

func (l *local) run(p grid.PartitionID, op grid.Op) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.stores[p].Do(op, l.n+1, time.Now())
	if d.Wait != "" {
		return nil, grid.ErrBusy
	}
	if d.Err == nil && d.Effect != nil {
		l.n++
		if _, err := l.stores[p].Apply(d.Effect, l.n, time.Now()); err != nil {
			return nil, err
		}
	}
	return d.Reply, d.Err
}

func (l *local) Read(_ context.Context, p grid.PartitionID, op grid.Op) ([]byte, error) {
	return l.run(p, op)
}

func (l *local) Write(_ context.Context, p grid.PartitionID, op grid.Op, _ time.Duration) ([]byte, error) {
	return l.run(p, op)
}

func (l *local) InvokeAll(_ context.Context, op []byte, each func(grid.PartitionID, []byte) error) error {
	for p := range l.stores {
		reply, err := l.run(grid.PartitionID(p), grid.RawOp(op))
		if err != nil {
			return err
		}
		if err := each(grid.PartitionID(p), reply); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) Partitions() int { return len(l.stores) }

// still is a view that does not change.
type still struct{ s *grid.State }

func (v still) View() (*grid.State, <-chan struct{}) { return v.s, nil }

// alone has no other members.
type alone struct{}

func (alone) Connected(context.Context, []string) (map[string]grid.MemberID, error) {
	return nil, nil
}
func (alone) Object(string, bool)              {}
func (alone) Objects(context.Context) []string { return nil }

const selfID = "50ac3be6-fbbb-4f69-a7f4-21de3671c069"

// newTestServer returns a server of a cluster of one member that does not listen.
func newTestServer(partitions int) *Server {
	s := &grid.State{
		Index: 1, ClusterID: selfID,
		Members: []grid.Member{{ID: selfID, Address: "127.0.0.1:5701", Roles: []string{grid.RoleData}, State: grid.Active}},
	}
	for range partitions {
		s.Partitions = append(s.Partitions, grid.Partition{Replicas: []grid.MemberID{selfID}})
	}
	return New(Config{Self: selfID, ClusterName: "dev", View: still{s}, Maps: imap.NewAt(newLocal(partitions), selfID), Peers: alone{}})
}

// aValue is a well-formed argument for a field.
func aValue(s *spec, f field) any {
	of := func(d imap.Data) data { return data{Data: d} }
	switch f.name {
	case "processor", "projection":
		return of(imap.Data(identified(factoryProjections, 0, "a")))
	case "aggregator":
		return of(imap.Data(identified(factoryAggregators, 4, "a")))
	case "predicate":
		if f.kind == kData {
			return of(imap.Data(identified(factoryPredicates, 0, "this = 'x'")))
		}
	case "service":
		return mapService
	}
	switch f.kind.plain() {
	case kBool, kByte, kInt, kLong:
		return int64(1)
	case kUUID:
		return newUUID()
	case kString:
		return strings.ReplaceAll(s.name, ".", "")
	case kData:
		return of(imap.String("x"))
	case kBytes:
		return []byte{1}
	case kStrings:
		return []string{"x"}
	case kDataList:
		return []data{of(imap.String("x"))}
	case kEntries:
		return []entry{{of(imap.String("x")), of(imap.String("y"))}}
	case kPairs:
		return [][2]int32{{0, 0}}
	}
	return []frame{}
}

// identified is an object of one of the members' own classes that begins with a text.
func identified(factory, class int32, text string) imap.Data {
	d := append(appendInt(nil, typeIdentified), 1)
	d = appendInt(appendInt(d, factory), class)
	return append(appendInt(d, int32(len(text))), text...)
}

func appendInt(d imap.Data, n int32) imap.Data {
	return append(d, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// Every request that is served reads fields that it has: one that asked for another ended the member.
func TestHandlers_ReadOnlyTheFieldsThatTheyHave(t *testing.T) {
	s := newTestServer(3)
	for id, h := range handlers {
		t.Run(specs[id].name, func(t *testing.T) {
			q := &call{c: newConn(s, nil), m: message{{body: make([]byte, requestHead)}}, spec: specs[id]}
			for _, f := range q.spec.fields {
				q.args = append(q.args, aValue(q.spec, f))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := h(ctx, q) // a panic fails the test
			t.Log(err)
			q.args = make([]any, len(q.spec.fields)) // all null, or not sent
			_, err = h(ctx, q)
			t.Log(err)
		})
	}
}

// What is wrong with one request costs the client an answer, and nobody else anything.
func TestHandlers_APanicIsAnAnswer(t *testing.T) {
	s := newTestServer(1)
	var told strings.Builder
	s.log = slog.New(slog.NewTextHandler(&told, nil))
	q := &call{c: newConn(s, nil), m: message{{body: make([]byte, requestHead)}}, spec: specs[0x010200]}
	b, err := q.handle(t.Context(), func(context.Context, *call) ([]byte, error) { panic("a bug") })
	if b != nil || codeOf(err) != codeIndeterminateState {
		t.Errorf("answer %x, error %v", b, err)
	}
	if !strings.Contains(told.String(), "a bug") || !strings.Contains(told.String(), "handlers_test.go") {
		t.Errorf("the log does not say what and where: %s", told.String())
	}
}

// dial connects to a server in memory. What it serves ends with the test.
func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { newConn(s, there).serve(context.Background()) })
	t.Cleanup(func() {
		_ = here.Close()
		wg.Wait()
	})
	return here
}

// A client of Java from 5.5 on takes its first list of members from the answer to its authentication; who is refused gets none.
func TestAuthentication_TellsTheMembers(t *testing.T) {
	for cluster, known := range map[string]bool{"dev": true, "dex": false} {
		conn := dial(t, newTestServer(3))
		raw := unhex(t, authRequest)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Write([]byte(strings.Replace(string(raw), "dev", cluster, 1))); err != nil {
			t.Fatal(err)
		}
		m, err := readOne(conn, maxMessage)
		if err != nil {
			t.Fatal(err)
		}
		if status := m[0].body[answerHead]; (status == authenticated) != known {
			t.Errorf("cluster %s: status %d", cluster, status)
		}
		wantOwners := 0
		if known {
			wantOwners = 1
		}
		uuids := 0
		for _, f := range m[1:] {
			if len(f.body) == 18 || len(f.body) == 17 { // of a member in each list
				uuids++
			}
		}
		if uuids != 2*wantOwners {
			t.Errorf("cluster %s: %d members are told: %v", cluster, uuids, m)
		}
	}
}

// Whoever has locked a key may ask for anything that concerns it, also in requests that name no thread: a client that put a list with a key that
// it had locked itself waited for itself. Others wait.
func TestHandlers_NobodyWaitsForOneself(t *testing.T) {
	const lockID, forceUnlockID = 0x011000, 0x013300
	s := newTestServer(3)
	request := func(p *peer, id uint32) message {
		return p.ask(specs[id], func(f field) any {
			switch {
			case f.name == "name":
				return "m"
			case id == lockID && f.name == "ttl":
				return int64(-1) // the lock does not end by itself
			}
			return aValue(specs[id], f)
		})
	}
	waits := func(m message) bool { return m.kind() == 0 && string(m[4].body) == classes[codeRetryable] }
	owner := newPeer(t, s)
	other := s.cfg.Maps.Map("m").As(imap.Owner{Session: "another client", Thread: imap.AnyThread})
	for _, id := range slices.Sorted(maps.Keys(handlers)) {
		request(owner, forceUnlockID)
		if m := request(owner, lockID); m.kind() != lockID+1 {
			t.Fatalf("not locked: %v", m)
		}
		if _, err := other.Set(t.Context(), imap.Key{Data: imap.String("x")}, imap.String("y"), 0); !errors.Is(err, grid.ErrBusy) {
			t.Fatalf("another client passed the lock: %v", err)
		}
		if waits(request(owner, id)) {
			t.Errorf("%s waits for the lock of its own client", specs[id].name)
		}
	}
}
