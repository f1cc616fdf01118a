package transport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/internal/memnet"
)

func TestStreams_ToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		go func() {
			c, err := p.b.RaftListener().Accept()
			if err == nil {
				_, _ = c.Write([]byte("raft"))
				_ = c.Close()
			}
		}()
		c, err := p.a.DialStream(within(time.Second), "b:1", "b", MagicRaft)
		if err != nil {
			t.Fatal(err)
		}
		var got [4]byte
		if _, err := c.Read(got[:]); err != nil || string(got[:]) != "raft" {
			t.Errorf("got %q, %v", got, err)
		}
		_ = c.Close()
	})
}

// Whoever comes to a member that takes no more is refused, not taken and let go: it would come again at once. What there is lives on.
func TestRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.b.Handle(7, func(_ grid.MemberID, body []byte, reply func([]byte, error)) { reply(body, nil) })
		if _, err := p.a.Call(within(time.Second), "b", 7, []byte("x")); err != nil {
			t.Fatal(err)
		}
		p.b.Refuse()
		p.b.Refuse()
		if c, err := p.net.Host("x").Dial(within(time.Second), "b:1"); err == nil {
			t.Error("a stream was taken")
			_ = c.Close()
		}
		if got, err := p.a.Call(within(time.Second), "b", 7, []byte("y")); err != nil || string(got) != "y" {
			t.Errorf("a connection that was there: %q, %v", got, err)
		}
	})
}

func TestStrangers_AreClosed(t *testing.T) {
	for name, first := range map[string]string{
		"unknown": "GET / HTTP/1.1\r\n", "client": "CP2", "silent": "", "half a magic": "GM",
		"no handshake": "GM1" + strings.Repeat("x", 100), "endless handshake": "GM1\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				c, err := p.net.Host("x").Dial(t.Context(), "b:1")
				if err != nil {
					t.Fatal(err)
				}
				_, _ = c.Write([]byte(first))
				var b [64]byte
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				begin := time.Now()
				if n, err := c.Read(b[:]); n > 0 || err == nil || errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 3*sniffTimeout {
					t.Errorf("read %q, %v after %s", b[:n], err, time.Since(begin))
				}
				_ = c.Close()
			})
		})
	}
}

func TestNew_BusyPort(t *testing.T) {
	n := memnet.New(1)
	a := open(t, n.Host("a"), "a:1", "a", nil)
	defer a.Close()
	if _, err := New(Config{Network: n.Host("a"), Bind: "a:1", Self: "a2"}); err == nil {
		t.Error("two transports on one port")
	}
}

func TestAdvertised(t *testing.T) {
	for _, tc := range []struct{ want, bound, addr string }{
		{"", "10.1.2.3:5701", "10.1.2.3:5701"},
		{"public", "10.1.2.3:5701", "public:5701"},
		{"public:99", "10.1.2.3:5701", "public:99"},
		{"public:0", "10.1.2.3:5701", "public:5701"},
	} {
		if got, err := advertised(tc.want, tc.bound); err != nil || got != tc.addr {
			t.Errorf("advertised(%q, %q) = %q, %v", tc.want, tc.bound, got, err)
		}
	}
	if got, err := advertised("", "0.0.0.0:5701"); err != nil || strings.HasPrefix(got, "0.0.0.0") {
		t.Errorf("unspecified: %q, %v", got, err)
	}
}
