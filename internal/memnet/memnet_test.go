package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial returns both ends of a stream from a to b.
func dial(t *testing.T, n *Net) (atA, atB net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	atA, err = n.Host("a").Dial(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	atB, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = atA.Close(), atB.Close() })
	return atA, atB
}

func TestStream_CarriesBytesWithLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		n.SetLatency("a", "b", 10*time.Millisecond)
		a, b := dial(t, n)
		want := bytes.Repeat([]byte("0123456789"), 100_000) // more than the buffer
		go func() {
			_, _ = a.Write(want)
			_ = a.Close()
		}()
		begin := time.Now()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if took := time.Since(begin); took < 10*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

func TestStream_WriteDoesNotWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := dial(t, New(1))
		begin := time.Now()
		if _, err := a.Write(make([]byte, streamBuffer)); err != nil || time.Since(begin) != 0 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := a.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("a full buffer: %v after %s", err, time.Since(begin))
		}
	})
}

func TestStream_DeadlineMovesWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := dial(t, New(1))
		begin := time.Now()
		_ = a.SetReadDeadline(begin.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = a.SetReadDeadline(begin.Add(2 * time.Second)) })
		_, err := a.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begin) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestStream_CloseUnblocksBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := dial(t, New(1))
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the other end: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the closed end: %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write to nobody: %v", err)
		}
	})
}

func TestCut_StallsStreamsUntilHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, b := dial(t, n)
		n.CutOneWay("a", "b")
		_, _ = a.Write([]byte("late"))
		_, _ = b.Write([]byte("back"))
		var buf [4]byte
		if _, err := a.Read(buf[:]); err != nil || string(buf[:]) != "back" {
			t.Errorf("the open direction: %q, %v", buf, err)
		}
		_ = b.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := b.Read(buf[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the cut direction: %v", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Second, n.HealAll)
		if _, err := b.Read(buf[:]); err != nil || string(buf[:]) != "late" {
			t.Errorf("after healing: %q, %v", buf, err)
		}
	})
}

func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		if _, err := n.Host("a").Dial(t.Context(), "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody there: %v", err)
		}
		dial(t, n)
		n.CutOneWay("b", "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := n.Host("a").Dial(ctx, "b:1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("a cut link: %v after %s", err, time.Since(begin))
		}
		n.Heal("a", "b")
		c, err := n.Host("a").Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatalf("after healing: %v", err)
		}
		_ = c.Close()
	})
}

func TestCrash_ResetsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, b := dial(t, n)
		lost := n.Host("b")
		time.AfterFunc(time.Second, func() { n.Crash("b") })
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the survivor: %v", err)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("a crashed host wrote")
		}
		if _, err := n.Host("a").Dial(t.Context(), "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling it: %v", err)
		}
		if _, err := lost.Dial(t.Context(), "a:1"); err == nil {
			t.Error("a crashed host dialled")
		}
		if _, err := lost.Listen("b:2"); err == nil {
			t.Error("a crashed host listened")
		}
		l, err := n.Host("b").Listen("b:1")
		if err != nil {
			t.Fatalf("after the restart: %v", err)
		}
		_ = l.Close()
	})
}

func TestCrash_BehindACutLinkIsSeenAfterHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, _ := dial(t, n)
		n.Cut("a", "b")
		n.Crash("b")
		_ = a.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while cut: %v", err)
		}
		n.HealAll()
		_ = a.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after healing: %v", err)
		}
	})
}

func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		a, err := n.Host("a").ListenPacket("a:1")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b, err := n.Host("b").ListenPacket("b:1")
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		msg := []byte("one")
		_, _ = a.WriteTo(msg, b.LocalAddr())
		copy(msg, "xxx") // it was copied
		var buf [16]byte
		k, from, err := b.ReadFrom(buf[:])
		if err != nil || string(buf[:k]) != "one" || from.String() != "a:1" {
			t.Errorf("got %q from %v, %v", buf[:k], from, err)
		}
		n.Cut("a", "b")
		_, _ = a.WriteTo(msg, b.LocalAddr())
		n.HealAll()
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		if _, _, err := b.ReadFrom(buf[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a packet over a cut link: %v", err)
		}
		for range 2 * packetBuffer { // lost when full, never blocking
			_, _ = a.WriteTo(msg, b.LocalAddr())
		}
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		if _, _, err := a.ReadFrom(buf[:]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed one: %v", err)
		}
	})
}

func TestListen_BusyPort(t *testing.T) {
	h := New(1).Host("a")
	l, err := h.Listen("a:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Listen(":1"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	_ = l.Close()
	if l, err = h.Listen("0.0.0.0:1"); err != nil {
		t.Errorf("after closing: %v", err)
	} else {
		_ = l.Close()
	}
	if _, err := h.Listen("b:1"); err == nil {
		t.Error("listened on another host's address")
	}
}
