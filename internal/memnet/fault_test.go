package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// packets opens a packet connection on each host.
func packets(t *testing.T, n *Net, hosts ...string) map[string]net.PacketConn {
	t.Helper()
	out := map[string]net.PacketConn{}
	for _, h := range hosts {
		c, err := n.Host(h).ListenPacket(h + ":1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		out[h] = c
	}
	return out
}

// receive returns the next packet, or "" if none comes within a second.
func receive(t *testing.T, c net.PacketConn) string {
	t.Helper()
	var buf [64]byte
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	k, _, err := c.ReadFrom(buf[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:k])
}

// readAll returns what a stream gives within a second.
func readAll(t *testing.T, c net.Conn) string {
	t.Helper()
	var out []byte
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	for {
		var buf [64]byte
		k, err := c.Read(buf[:])
		out = append(out, buf[:k]...)
		if err != nil {
			return string(out)
		}
	}
}

func TestHold_LosesNothingAndKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		p := packets(t, n, "a", "b")
		n.SetFault("a", "b", Fault{Hold: true})
		for i := range 20 {
			_, _ = p["a"].WriteTo(fmt.Append(nil, i), p["b"].LocalAddr())
		}
		_, _ = p["b"].WriteTo([]byte("back"), p["a"].LocalAddr())
		if got := receive(t, p["a"]); got != "back" {
			t.Errorf("the other direction: %q", got)
		}
		if got := receive(t, p["b"]); got != "" {
			t.Errorf("while held: %q", got)
		}
		n.Heal("a", "b")
		last := time.Now()
		for i := range 20 {
			if got := receive(t, p["b"]); got != fmt.Sprint(i) {
				t.Errorf("packet %d is %q", i, got)
			}
		}
		if took := time.Since(last); took > 10*time.Millisecond {
			t.Errorf("after healing they took %v", took)
		}
	})
}

func TestHold_ThenCut_LosesWhatWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		p := packets(t, n, "a", "b")
		n.SetFault("a", "b", Fault{Hold: true})
		_, _ = p["a"].WriteTo([]byte("x"), p["b"].LocalAddr())
		n.SetFault("a", "b", Fault{Cut: true})
		n.HealAll()
		if got := receive(t, p["b"]); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestPause_LooksLikeAStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, b := dial(t, n)
		p := packets(t, n, "a", "b")
		n.Pause("b")
		_, _ = a.Write([]byte("to it"))
		_, _ = b.Write([]byte("from it"))
		_, _ = p["a"].WriteTo([]byte("packet"), p["b"].LocalAddr())
		if got := readAll(t, a); got != "" {
			t.Errorf("it sent %q", got)
		}
		if got := readAll(t, b); got != "" {
			t.Errorf("it took %q", got)
		}
		fresh, err := n.Host("a").Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatalf("its system takes dials: %v", err)
		}
		defer fresh.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("b").Dial(ctx, "a:9"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it dialled: %v", err)
		}
		n.HealAll() // mends links, not hosts
		if got := receive(t, p["b"]); got != "" {
			t.Errorf("it took the packet %q", got)
		}
		n.Resume("b")
		if got := readAll(t, a) + readAll(t, b) + receive(t, p["b"]); got != "from itto itpacket" {
			t.Errorf("after resuming: %q", got)
		}
	})
}

func TestPause_ThenCrash_TheNextStartRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		packets(t, n, "b")
		n.Pause("b")
		n.Crash("b")
		p := packets(t, n, "a", "b")
		_, _ = p["a"].WriteTo([]byte("x"), p["b"].LocalAddr())
		if got := receive(t, p["b"]); got != "x" {
			t.Errorf("got %q", got)
		}
	})
}

func TestDelayAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, b := dial(t, n)
		p := packets(t, n, "a", "b")
		n.SetFault("a", "b", Fault{Delay: 50 * time.Millisecond, Jitter: 20 * time.Millisecond})
		least, most := time.Hour, time.Duration(0)
		for i := range 50 {
			start := time.Now()
			_, _ = p["a"].WriteTo(fmt.Append(nil, i), p["b"].LocalAddr())
			if receive(t, p["b"]) == "" {
				t.Fatal("lost")
			}
			least, most = min(least, time.Since(start)), max(most, time.Since(start))
		}
		if least < 50*time.Millisecond || most > 71*time.Millisecond || most-least < 10*time.Millisecond {
			t.Errorf("packets took %v to %v", least, most)
		}
		for i := range 20 {
			_, _ = a.Write([]byte{byte('a' + i)})
		}
		if got := readAll(t, b); got != "abcdefghijklmnopqrst" {
			t.Errorf("a stream came as %q", got)
		}
	})
}

func TestLoss_OfPacketsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, b := dial(t, n)
		p := packets(t, n, "a", "b")
		n.SetFault("a", "b", Fault{Loss: 0.5})
		got := 0
		for range 400 {
			_, _ = p["a"].WriteTo([]byte("x"), p["b"].LocalAddr())
		}
		for receive(t, p["b"]) != "" {
			got++
		}
		if got < 130 || got > 270 {
			t.Errorf("%d of 400 packets came through a link that loses half", got)
		}
		_, _ = a.Write([]byte("stream"))
		if got := readAll(t, b); got != "stream" {
			t.Errorf("the stream gave %q", got)
		}
	})
}

func TestSplit_SidesAndBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		hosts := []string{"a", "b", "c", "d", "e"}
		p := packets(t, n, hosts...)
		sees := func(from, to string) bool {
			_, _ = p[from].WriteTo([]byte("x"), p[to].LocalAddr())
			return receive(t, p[to]) != ""
		}
		n.Split([]string{"a", "b", "c"}, []string{"c", "d"}) // c is the bridge, e is not named
		want := map[string]bool{"ab": true, "ac": true, "bc": true, "cd": true}
		for i, x := range hosts {
			for _, y := range hosts[i+1:] {
				ok := want[x+y] || y == "e"
				if sees(x, y) != ok || sees(y, x) != ok {
					t.Errorf("%s and %s see each other: want %v", x, y, ok)
				}
			}
		}
		n.HealAll()
		if !sees("a", "d") || !sees("d", "a") {
			t.Error("not healed")
		}
	})
}

// TestOnly_HoldsOneKindOfStream: a fault may be about streams that begin with a given text, in both their directions.
func TestOnly_HoldsOneKindOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		l, err := n.Host("b").Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		n.SetFault("b", "a", Fault{Hold: true, Only: "GR1"})
		for _, head := range []string{"GR1", "GM1"} {
			here, err := n.Host("a").Dial(t.Context(), "b:1")
			if err != nil {
				t.Fatal(err)
			}
			defer here.Close()
			there, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer there.Close()
			_, _ = here.Write([]byte(head + "hello"))
			if got := readAll(t, there); got != head+"hello" {
				t.Errorf("%s: the sound direction gave %q", head, got)
			}
			_, _ = there.Write([]byte("answer"))
			got := readAll(t, here)
			if held := head == "GR1"; held != (got == "") {
				t.Errorf("%s: the other direction gave %q", head, got)
			}
		}
	})
}
