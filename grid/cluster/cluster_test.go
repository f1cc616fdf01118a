package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"gridnode/grid"
	"gridnode/grid/transport"
	"gridnode/internal/memnet"
)

func TestMain(m *testing.M) {
	// memberlist's last probe cannot be joined; see gossip.close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// world is a set of members on one in-memory network. It lives inside a synctest bubble.
type world struct {
	t       *testing.T
	net     *memnet.Net
	members []*member
	serial  int
	config  func(*Config) // edits each member's Config
}

// member is one process of the world.
type member struct {
	*Cluster
	host      string
	transport *transport.Transport
	cancel    context.CancelFunc
	done      chan struct{} // closed when Run and the transport's Run have returned
	err       error         // of Run
	crashed   bool

	mu     sync.Mutex
	reigns []uint64 // terms of OnMaster
	ruling int      // OnMaster calls under way
	seen   map[grid.MemberID]bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, net: memnet.New(seed)}
	t.Cleanup(w.stop)
	return w
}

func seedsOf(hosts ...string) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = h + ":5701"
	}
	return out
}

// start starts a member on the host.
func (w *world) start(host string, edit func(*Config)) *member {
	w.t.Helper()
	w.serial++
	id := grid.MemberID(fmt.Sprintf("%s-%d", host, w.serial))
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("GRIDNODE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("host", host)
	}
	tr, err := transport.New(transport.Config{Network: w.net.Host(host), Bind: host + ":5701", Self: id, ClusterName: "test", Logger: log})
	if err != nil {
		w.t.Fatal(err)
	}
	m := &member{host: host, transport: tr, done: make(chan struct{})}
	cfg := DefaultConfig()
	cfg.ClusterName, cfg.Transport, cfg.Logger = "test", tr, log
	cfg.Self = grid.Member{ID: id, Name: host, Roles: []string{grid.RoleData}}
	cfg.Partitions = 7
	cfg.OnMaster = []func(context.Context, uint64) error{m.onMaster}
	if w.config != nil {
		w.config(&cfg)
	}
	if edit != nil {
		edit(&cfg)
	}
	if m.Cluster, err = New(cfg); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		var both sync.WaitGroup
		both.Go(func() {
			if err := tr.Run(ctx); err != nil && !m.crashed {
				w.t.Errorf("transport of %s: %v", host, err)
			}
		})
		m.err = m.Run(ctx)
		cancel()
		both.Wait()
	}()
	w.members = append(w.members, m)
	return m
}

func (m *member) onMaster(ctx context.Context, term uint64) error {
	m.mu.Lock()
	m.reigns = append(m.reigns, term)
	m.ruling++
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ruling--
	m.mu.Unlock()
	if !errors.Is(context.Cause(ctx), grid.ErrNotMaster) && !errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("the cause is %w", context.Cause(ctx))
	}
	return nil
}

// rulesOnce reports whether OnMaster was called, and runs now.
func (m *member) rulesOnce() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.reigns) > 0 && m.ruling == 1
}

func (w *world) startAll(hosts []string, edit func(*Config)) []*member {
	var out []*member
	for _, h := range hosts {
		out = append(out, w.start(h, edit))
	}
	return out
}

// crash is kill -9: the network forgets the host, then the goroutines are stopped.
func (w *world) crash(m *member) {
	m.crashed = true
	w.net.Crash(m.host)
	m.cancel()
}

// stop ends all members and waits for them.
func (w *world) stop() {
	for _, m := range w.members {
		m.cancel()
	}
	for _, m := range w.members {
		<-m.done
	}
	time.Sleep(5 * time.Second) // memberlist's own timers; fake time
}

// live returns the members that run.
func (w *world) live() []*member {
	var out []*member
	for _, m := range w.members {
		select {
		case <-m.done:
		default:
			if !m.crashed {
				out = append(out, m)
			}
		}
	}
	return out
}

// await waits until cond holds and returns how long that took.
func (w *world) await(what string, limit time.Duration, cond func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			for _, m := range w.live() {
				s, _ := m.View()
				w.t.Logf("%s: master %s term %d index %d lease %v", m.host, s.Master, s.Term, s.Index, m.LeaseValid())
				for _, x := range s.Members {
					w.t.Logf("    %s %s", x.ID, x.State)
				}
				if r := m.raft.Load(); r != nil {
					w.t.Logf("    raft %s term %d: %v", r.State(), r.CurrentTerm(), r.GetConfiguration().Configuration().Servers)
				}
			}
			w.t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// agreed reports whether all these see the same n active members and one of them as master, and hold a lease.
func agreed(members []*member, n int) bool {
	var first *grid.State
	for _, m := range members {
		s, _ := m.View()
		if first == nil {
			first = s
		}
		active := 0
		for _, x := range s.Members {
			if x.State == grid.Active {
				active++
			}
		}
		if len(s.Members) != n || active != n || s.ClusterID != first.ClusterID || s.Master != first.Master || !m.LeaseValid() {
			return false
		}
		if _, ok := s.Member(s.Master); !ok {
			return false
		}
	}
	return len(members) > 0
}

func (w *world) awaitAgreed(n int, limit time.Duration) time.Duration {
	w.t.Helper()
	return w.await(fmt.Sprintf("%d members agree", n), limit, func() bool { return agreed(w.live(), n) })
}

func (w *world) master() *member {
	w.t.Helper()
	for _, m := range w.live() {
		if id, _, ok := m.Master(); ok && id == m.Self().ID && m.reign.Load() != nil {
			return m
		}
	}
	w.t.Fatal("no master")
	return nil
}

// voters returns how many voters the master's raft has.
func (w *world) voters() int {
	n := 0
	for _, s := range w.master().raft.Load().GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// settled reports whether all members know the same n voters. Until then a leader's crash may stop the cluster: while there are two voters
// both are needed, and raft refuses a vote to a new voter of whom the other one has not heard.
func (w *world) settled(n int) bool {
	for _, m := range w.live() {
		voters := 0
		for _, s := range m.raft.Load().GetConfiguration().Configuration().Servers {
			if s.Suffrage == raft.Voter {
				voters++
			}
		}
		if voters != n {
			return false
		}
	}
	return true
}

func (w *world) others(m *member) []*member {
	return slices.DeleteFunc(w.live(), func(x *member) bool { return x == m })
}

var hostNames = []string{"a", "b", "c", "d", "e", "f", "g"}

func TestForm(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				hosts := hostNames[:n]
				w.startAll(hosts, func(c *Config) { c.Seeds, c.Expect = seedsOf(hosts...), n })
				t.Logf("%d members agree after %s", n, w.awaitAgreed(n, 10*time.Second))
				want := n
				if n%2 == 0 {
					want = n - 1
				}
				t.Logf("voters after %s", w.await("voters", 5*time.Second, func() bool { return w.voters() == want }))
				for _, m := range w.members {
					select {
					case <-m.Joined():
					default:
						t.Errorf("%s has not joined", m.host)
					}
				}
			})
		})
	}
}
