package transport

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// TestDrop_EndsWhatWaits: whatever waits for a member when it is dropped ends at that moment, and says whether it can have been read.
func TestDrop_EndsWhatWaits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		begin func(p *pair, done func(error)) // starts what is to wait
		want  error
	}{
		{"sent, and the other side stands still", func(p *pair, done func(error)) {
			go func() { _, err := p.a.Call(within(time.Minute), "b", hold, nil); done(err) }()
			<-p.held
			p.net.Cut("a", "b")
		}, grid.ErrIndeterminate},
		{"sent without waiting", func(p *pair, done func(error)) {
			p.a.Request("b", hold, nil, func(_ []byte, err error) { done(err) })
			<-p.held
		}, grid.ErrIndeterminate},
		{"sent on a connection that the other side has dialled", func(p *pair, done func(error)) {
			_, _ = p.b.Call(within(time.Second), "a", echo, nil)
			p.a.Request("b", hold, nil, func(_ []byte, err error) { done(err) })
			<-p.held
		}, grid.ErrIndeterminate},
		{"sent by address", func(p *pair, done func(error)) {
			go func() { _, err := p.a.CallAddr(within(time.Minute), "b:1", hold, nil); done(err) }()
			<-p.held
		}, grid.ErrIndeterminate},
		{"behind a write that does not get through", func(p *pair, done func(error)) {
			_, _ = p.a.Call(within(time.Second), "b", echo, nil)
			p.net.Cut("a", "b")
			for range 2 { // more than the network takes
				_ = p.a.Send("b", wire.Effects, make([]byte, 1<<20))
			}
			synctest.Wait()
			p.a.Request("b", hold, nil, func(_ []byte, err error) { done(err) })
		}, grid.ErrUnreachable},
		{"waiting for a dial", func(p *pair, done func(error)) {
			p.net.Cut("a", "b")
			p.a.Request("b", hold, nil, func(_ []byte, err error) { done(err) })
		}, grid.ErrUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				ended := make(chan error, 1)
				tc.begin(p, func(err error) { ended <- err })
				synctest.Wait()
				begin := time.Now()
				p.a.Drop("b")
				if err := <-ended; !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if took := time.Since(begin); took > time.Millisecond {
					t.Errorf("it took %s", took)
				}
				p.net.HealAll()
			})
		})
	}
}

// TestDrop_LocksNobodyOut: a member that is alive learns of its removal by asking again.
func TestDrop_LocksNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		if _, err := p.a.Call(within(time.Second), "b", echo, nil); err != nil {
			t.Fatal(err)
		}
		p.b.Drop("a")
		p.b.Drop("nobody")
		synctest.Wait()
		if got, err := p.a.Call(within(time.Second), "b", echo, []byte("x")); err != nil || string(got) != "a x" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestDrop_SweepsADial drops at every moment of a dial: nothing is left waiting, and no connection is left over.
func TestDrop_SweepsADial(t *testing.T) {
	for at := time.Duration(0); at < time.Millisecond; at += 10 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			ended := make(chan error, 1)
			p.a.Request("b", hold, nil, func(_ []byte, err error) { ended <- err })
			time.Sleep(at)
			p.a.Drop("b")
			synctest.Wait()
			select {
			case err := <-ended:
				if !errors.Is(err, grid.ErrUnreachable) && !errors.Is(err, grid.ErrIndeterminate) {
					t.Errorf("at %s: %v", at, err)
				}
			default:
				t.Errorf("at %s: it still waits", at)
			}
			if left := p.a.connsOf("b"); len(left) > 0 {
				t.Errorf("at %s: %d connections are left", at, len(left))
			}
		})
	}
}
