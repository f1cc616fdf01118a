package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many ask at once, one look is under way at a time, and nobody gets an answer that was begun before the question.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[time.Time]
		var under, runs atomic.Int32
		look := func(context.Context) (time.Time, error) {
			began := time.Now()
			if under.Add(1) > 1 {
				t.Error("two looks at once")
			}
			runs.Add(1)
			time.Sleep(100 * time.Millisecond)
			under.Add(-1)
			return began, nil
		}
		var callers sync.WaitGroup
		for i := range 500 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				began, err := s.get(t.Context(), look)
				if err != nil || began.Before(asked) || time.Since(asked) > 200*time.Millisecond {
					t.Errorf("asked at %v, began at %v, answered after %v, %v", asked, began, time.Since(asked), err)
				}
			})
		}
		callers.Wait()
		if n := runs.Load(); n > 7 {
			t.Errorf("%d looks for 500 questions within half a second", n)
		}
	})
}

// Who goes away while making the look for others leaves it to them; who goes away while waiting holds up nobody; an error is everybody's.
func TestShared_Deserters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		var runs atomic.Int32
		bad := errors.New("the store is on fire")
		look := func(ctx context.Context) (int, error) {
			n := int(runs.Add(1))
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if n == 3 {
				return 0, bad
			}
			return n, nil
		}
		ask := func(patience time.Duration) <-chan error {
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			go func() {
				defer cancel()
				_, err := s.get(ctx, look)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := ask(300 * time.Millisecond) // makes look 1, and goes away
		second := ask(600 * time.Millisecond)
		third, fourth := ask(time.Minute), ask(time.Minute)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first got %v", err)
		}
		if err := <-second; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second got %v", err)
		}
		e3, e4 := <-third, <-fourth
		if n := runs.Load(); n < 2 || n > 4 || ignoring(e3, bad) != nil || ignoring(e4, bad) != nil { // up to who takes over from the first
			t.Errorf("%d looks; the others got %v and %v", n, e3, e4)
		}
		if n, err := s.get(t.Context(), func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}
