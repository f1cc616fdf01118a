package clients

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"
)

// between stands between a client and a member. When it is told to, it lets the next request through and cuts the connection in place of the
// answer.
type between struct {
	listener net.Listener
	member   string
	cut      atomic.Bool // the next answer
	cuts     atomic.Int32
	mu       sync.Mutex // guards conns
	conns    []net.Conn
	wg       sync.WaitGroup
}

func newBetween(t *testing.T, member string) *between {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{listener: ln, member: member}
	b.wg.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

func (b *between) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *between) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		member, err := net.Dial("tcp", b.member)
		if err != nil {
			_ = client.Close()
			continue
		}
		b.mu.Lock()
		b.conns = append(b.conns, client, member)
		b.mu.Unlock()
		var asked atomic.Bool // since the cut was ordered
		b.wg.Go(func() {
			b.copy(member, client, func() bool {
				asked.Store(b.cut.Load())
				return false
			})
		})
		b.wg.Go(func() {
			b.copy(client, member, func() bool { return asked.Load() && b.cut.CompareAndSwap(true, false) })
		})
	}
}

// copy passes bytes on until one of the two ends, or cut says so.
func (b *between) copy(to, from net.Conn, cut func() bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if cut() {
				b.cuts.Add(1)
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// A client sends a lock or an unlock again when its connection broke before the answer. It counts once all the same.
func TestGoClient_LockIsSentAgain(t *testing.T) {
	ctx := caseContext(t)
	members := startMembers(t, 1)
	proxy := newBetween(t, members[0].Address())
	cfg := hazelcast.Config{}
	cfg.Cluster.Name = "clients"
	cfg.Cluster.Unisocket = true
	cfg.Cluster.Network.SetAddresses(proxy.listener.Addr().String())
	cfg.Logger.Level = logger.OffLevel
	client, err := hazelcast.StartNewClientWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	shutdownLater(t, client)
	m, err := client.GetMap(ctx, "sent-again")
	if err != nil {
		t.Fatal(err)
	}
	owner := m.NewLockContext(ctx)
	calls := []struct {
		name   string
		do     func(context.Context, any) error
		cut    bool
		locked bool // afterwards
	}{
		{"lock", m.Lock, true, true}, {"unlock", m.Unlock, false, false},
		{"lock", m.Lock, false, true}, {"lock", m.Lock, false, true}, {"unlock", m.Unlock, true, true}, {"unlock", m.Unlock, true, false},
		{"tryLock", func(ctx context.Context, k any) error {
			_, err := m.TryLockWithTimeout(ctx, k, time.Second)
			return err
		}, true, true},
		{"unlock", m.Unlock, false, false},
	}
	cuts := 0
	for i, c := range calls {
		if c.cut {
			cuts++
			proxy.cut.Store(true)
		}
		if err := c.do(owner, "k"); err != nil {
			t.Fatalf("call %d, %s: %v", i+1, c.name, err)
		}
		if n := int(proxy.cuts.Load()); n != cuts {
			t.Fatalf("call %d, %s: %d answers were cut off, want %d", i+1, c.name, n, cuts)
		}
		if locked, err := m.IsLocked(ctx, "k"); err != nil || locked != c.locked {
			t.Fatalf("after call %d, %s: locked is %v, %v", i+1, c.name, locked, err)
		}
	}
}
