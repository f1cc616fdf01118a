package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gridnode/grid"
	"gridnode/grid/wire"
	"gridnode/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	echo = wire.Invoke
	hold = wire.InvokeMany // never answered
)

// pair is two transports, a and b, that can find each other.
type pair struct {
	net  *memnet.Net
	a, b *Transport
	held chan struct{} // gets a value when b holds a request
}

func start(t *testing.T, tr *Transport) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := tr.Run(ctx); err != nil && !errors.Is(err, net.ErrClosed) { // as on a crashed host
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func open(t *testing.T, n Network, bind string, id grid.MemberID, edit func(*Config)) *Transport {
	t.Helper()
	cfg := Config{
		Network: n, Bind: bind, Self: id, ClusterName: "test",
		Resolve: func(id grid.MemberID) (string, bool) { return string(id) + ":1", id != "nowhere" },
	}
	if edit != nil {
		edit(&cfg)
	}
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func newPair(t *testing.T) *pair {
	p := &pair{net: memnet.New(1), held: make(chan struct{}, 1<<16)}
	p.a = open(t, p.net.Host("a"), "a:1", "a", nil)
	p.b = open(t, p.net.Host("b"), "b:1", "b", nil)
	p.b.Handle(echo, func(from grid.MemberID, body []byte, reply func([]byte, error)) {
		if strings.HasPrefix(string(body), "fail") {
			reply(nil, fmt.Errorf("partition 3: %w", grid.ErrStaleEpoch))
			return
		}
		reply([]byte(string(from)+" "+string(body)), nil)
	})
	p.b.Handle(hold, func(grid.MemberID, []byte, func([]byte, error)) { p.held <- struct{}{} })
	start(t, p.a)
	start(t, p.b)
	return p
}

// within returns a context that ends after d, and lets go of its timer then.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for range 3 {
			got, err := p.a.Call(within(time.Second), "b", echo, []byte("x"))
			if err != nil || string(got) != "a x" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		if got, err := p.a.CallAddr(within(time.Second), "b:1", echo, []byte("y")); err != nil || string(got) != "a y" {
			t.Errorf("by address: %q, %v", got, err)
		}
		if got, err := p.b.Call(within(time.Second), "b", echo, []byte("z")); err != nil || string(got) != "b z" {
			t.Errorf("to itself: %q, %v", got, err)
		}
	})
}

func TestCall_ErrorsSayWhatHappened(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*pair) error
		want error
		text string
	}{
		{"the handler's error", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "b", echo, []byte("fail"))
			return err
		}, grid.ErrStaleEpoch, "partition 3"},
		{"a kind that is not served", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "b", wire.Seal, nil)
			return err
		}, grid.ErrBadMessage, "seal"},
		{"no address", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "nowhere", echo, nil)
			return err
		}, grid.ErrUnreachable, "no address"},
		{"nobody listens", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "c", echo, nil)
			return err
		}, grid.ErrUnreachable, "refused"},
		{"too long", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "b", echo, make([]byte, wire.MaxBody+1))
			return err
		}, grid.ErrTooLarge, ""},
		{"no answer in time", func(p *pair) error {
			_, err := p.a.Call(within(time.Second), "b", hold, nil)
			return err
		}, grid.ErrIndeterminate, "deadline"},
		{"no connection in time", func(p *pair) error {
			p.net.Cut("a", "b")
			_, err := p.a.Call(within(100*time.Millisecond), "b", echo, nil)
			return err
		}, grid.ErrUnreachable, "deadline"},
		{"dial takes too long", func(p *pair) error {
			p.net.Cut("a", "b")
			_, err := p.a.Call(within(time.Minute), "b", echo, nil)
			return err
		}, grid.ErrUnreachable, "deadline"},
		{"the other side dies before it answers", func(p *pair) error {
			go func() { <-p.held; p.net.Crash("b") }()
			_, err := p.a.Call(within(time.Second), "b", hold, nil)
			return err
		}, grid.ErrIndeterminate, "reset"},
		{"the other side falls silent", func(p *pair) error {
			go func() { <-p.held; p.net.Cut("a", "b") }()
			_, err := p.a.Call(within(time.Minute), "b", hold, nil)
			return err
		}, grid.ErrIndeterminate, "nothing was heard"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				begin := time.Now()
				err := tc.do(p)
				if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.text) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestHandshake_RefusesStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		old := open(t, p.net.Host("c"), "c:1", "c-old", func(c *Config) {
			c.Resolve = func(grid.MemberID) (string, bool) { return "b:1", true }
		})
		start(t, old)
		if _, err := old.Call(within(time.Second), "b-before-restart", echo, nil); !errors.Is(err, grid.ErrUnreachable) ||
			!strings.Contains(err.Error(), "this is member b, not b-before-restart") {
			t.Errorf("got %v", err)
		}
		other := open(t, p.net.Host("d"), "d:1", "d", func(c *Config) { c.ClusterName = "other" })
		start(t, other)
		if _, err := other.Call(within(time.Second), "b", echo, nil); !errors.Is(err, grid.ErrUnreachable) ||
			!strings.Contains(err.Error(), `cluster "test", not "other"`) {
			t.Errorf("got %v", err)
		}
		if _, err := p.a.DialStream(within(time.Second), "b:1", "x", MagicRaft); !errors.Is(err, grid.ErrUnreachable) {
			t.Errorf("a stream for somebody else: %v", err)
		}
	})
}

func TestSend_KeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		a, b := open(t, n.Host("a"), "a:1", "a", nil), open(t, n.Host("b"), "b:1", "b", nil)
		const count = 20_000
		var next atomic.Uint64
		b.Handle(wire.Effects, func(_ grid.MemberID, body []byte, reply func([]byte, error)) {
			if got := binary.BigEndian.Uint64(body); got != next.Load() || reply != nil {
				t.Errorf("got %d, want %d", got, next.Load())
			}
			next.Add(1)
		})
		start(t, a)
		start(t, b)
		for i := range uint64(count) {
			if err := a.Send("b", wire.Effects, binary.BigEndian.AppendUint64(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if got := next.Load(); got != count {
			t.Errorf("%d arrived", got)
		}
		if _, writes := a.Stats(); writes > count/10 {
			t.Errorf("%d frames took %d writes", count, writes)
		}
	})
}

func TestSend_NeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		if _, err := p.a.Call(within(time.Second), "b", echo, nil); err != nil {
			t.Fatal(err)
		}
		p.net.Cut("a", "b")
		body := make([]byte, 8<<20)
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			err = p.a.Send("b", wire.Effects, body)
		}
		if !errors.Is(err, grid.ErrOverloaded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRequest_DoneOnce crashes the other side at many moments: each request ends once, with one of the two kinds of error.
func TestRequest_DoneOnce(t *testing.T) {
	for at := time.Duration(0); at < 3*time.Millisecond; at += 50 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			const count = 100
			var calls [count]atomic.Int64
			go func() { time.Sleep(at); p.net.Crash("b") }()
			for i := range count {
				p.a.Request("b", echo, []byte("x"), func(_ []byte, err error) {
					calls[i].Add(1)
					if err != nil && !errors.Is(err, grid.ErrUnreachable) && !errors.Is(err, grid.ErrIndeterminate) {
						t.Errorf("got %v", err)
					}
				})
				time.Sleep(20 * time.Microsecond)
			}
			time.Sleep(10 * time.Second)
			for i := range calls {
				if n := calls[i].Load(); n != 1 {
					t.Errorf("crash at %s: done of request %d was called %d times", at, i, n)
				}
			}
		})
	}
}

func TestReconnect_AndOnDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(1)
		a := open(t, n.Host("a"), "a:1", "a", nil)
		var down []string
		a.OnDown(func(addr string, id grid.MemberID) { down = append(down, addr+" "+string(id)) })
		start(t, a)
		serve := func() *Transport {
			b := open(t, n.Host("b"), "b:1", "b", nil)
			b.Handle(echo, func(_ grid.MemberID, body []byte, reply func([]byte, error)) { reply(body, nil) })
			start(t, b)
			return b
		}
		serve()
		if _, err := a.Call(within(time.Second), "b", echo, nil); err != nil {
			t.Fatal(err)
		}
		n.Crash("b")
		synctest.Wait()
		if len(down) != 1 || down[0] != "b:1 b" {
			t.Errorf("OnDown: %v", down)
		}
		if _, err := a.Call(within(time.Second), "b", echo, nil); !errors.Is(err, grid.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
		serve()
		time.Sleep(maxBackoff)
		if _, err := a.Call(within(time.Second), "b", echo, nil); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	})
}

func TestClose_EndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		errs := make(chan error, 1)
		p.a.Request("b", hold, nil, func(_ []byte, err error) { errs <- err })
		<-p.held
		p.a.Close()
		if err := <-errs; !errors.Is(err, grid.ErrIndeterminate) {
			t.Errorf("got %v", err)
		}
		if err := p.a.Send("b", wire.Effects, nil); !errors.Is(err, grid.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestTCP(t *testing.T) {
	addrs := map[grid.MemberID]string{}
	resolve := func(c *Config) {
		c.Resolve = func(id grid.MemberID) (string, bool) { a, ok := addrs[id]; return a, ok }
	}
	a, b := open(t, TCP(), "127.0.0.1:0", "a", resolve), open(t, TCP(), "127.0.0.1:0", "b", resolve)
	addrs["a"], addrs["b"] = a.AdvertiseAddr(), b.AdvertiseAddr()
	b.Handle(echo, func(_ grid.MemberID, body []byte, reply func([]byte, error)) { reply(body, nil) })
	start(t, a)
	start(t, b)
	want := bytes.Repeat([]byte("large"), 1_000_000)
	got, err := a.Call(within(10*time.Second), "b", echo, want)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func BenchmarkRequest(b *testing.B) {
	addrs := map[grid.MemberID]string{}
	cfg := func(id grid.MemberID) Config {
		return Config{Bind: "127.0.0.1:0", Self: id, Resolve: func(id grid.MemberID) (string, bool) { a, ok := addrs[id]; return a, ok }}
	}
	x, err := New(cfg("x"))
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	y, err := New(cfg("y"))
	if err != nil {
		b.Fatal(err)
	}
	addrs["x"], addrs["y"] = x.AdvertiseAddr(), y.AdvertiseAddr()
	y.Handle(echo, func(_ grid.MemberID, body []byte, reply func([]byte, error)) { reply(body, nil) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = y.Run(ctx) }()
	defer func() { cancel(); <-done }()
	window := make(chan struct{}, 64)
	body := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		window <- struct{}{}
		x.Request("y", echo, body, func(_ []byte, err error) {
			if err != nil {
				b.Error(err)
			}
			<-window
		})
	}
	for range cap(window) {
		window <- struct{}{}
	}
}
