package engine

import (
	"context"
	"sync"
)

// shared makes one look serve all that ask at about the same time. Only one look is under way at once; who asks meanwhile gets the next one, which begins
// after they have asked, so nobody gets an answer that is older than the question. The answer is read only. The zero value is ready.
type shared[T any] struct {
	mu   sync.Mutex
	now  *look[T] // under way
	next *look[T] // for those who came since it began
}

type look[T any] struct {
	begun   bool          // under mu of shared
	done    chan struct{} // closed when what follows is set
	v       T
	err     error
	dropped bool // its maker was not waited for any more: that is no answer
}

// get returns what f returns when it is run after get was called, by this caller or by another one.
func (s *shared[T]) get(ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	for {
		l, mine, before := s.join()
		if mine {
			return s.run(ctx, l, f)
		}
		select {
		case <-before:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if s.begin(l) {
			return s.run(ctx, l, f)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if !l.dropped {
			return l.v, l.err
		}
	}
}

// join finds the look for a caller: it is to make that itself, or to wait until the one before has ended.
func (s *shared[T]) join() (l *look[T], mine bool, before <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &look[T]{done: make(chan struct{})}
	}
	l = s.next
	if s.now != nil {
		return l, false, s.now.done
	}
	s.now, s.next, l.begun = l, nil, true
	return l, true, nil
}

// begin makes the caller the maker of a look, unless another one is.
func (s *shared[T]) begin(l *look[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.begun { // and so it is what is under way, or was
		return false
	}
	s.now, s.next, l.begun = l, nil, true
	return true
}

func (s *shared[T]) run(ctx context.Context, l *look[T], f func(context.Context) (T, error)) (T, error) {
	defer close(l.done) // also if f panics: then there is no answer
	l.dropped = true
	defer func() {
		s.mu.Lock()
		s.now = nil
		s.mu.Unlock()
	}()
	l.v, l.err = f(ctx)
	l.dropped = l.err != nil && ctx.Err() != nil
	return l.v, l.err
}
