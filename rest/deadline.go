package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"gridnode/grid"
)

// errTooSlow is why a request is given up: the grid or the engine did not answer within Config.GridTimeout. By itself it says nothing about
// what became of the request; whoever gives up knows, and says so with an error of his own.
var errTooSlow = errors.New("no answer within the time that a request may wait for the cluster")

// deadlined lets a handler wait for the cluster for no longer than Config.GridTimeout, counted from when the body has been read: a slow upload
// is the client's affair, and readTimeout bounds it.
func (s *Server) deadlined(h handlerFunc) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		timer := &lateTimer{after: s.cfg.GridTimeout, fire: func() { cancel(errTooSlow) }}
		defer timer.stop()
		r = r.WithContext(ctx)
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			r.Body = &watchedBody{ReadCloser: r.Body, ended: timer.start}
		} else { // nobody reads a body, even if there is one
			timer.start()
		}
		err := h(w, r)
		if errors.Is(err, context.Canceled) && context.Cause(ctx) == errTooSlow { // from a call that knows no more than that
			err = fmt.Errorf("%w: %w", grid.ErrIndeterminate, errTooSlow)
		}
		return err
	}
}

// oneCall bounds one call of several that a request makes one after the other. The caller calls cancel.
func (s *Server) oneCall(r *http.Request) (ctx context.Context, cancel context.CancelFunc) {
	return context.WithTimeoutCause(r.Context(), s.cfg.GridTimeout, errTooSlow)
}

// lateTimer is a timer that is started later, once.
type lateTimer struct {
	after time.Duration
	fire  func()

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	over  bool
}

func (t *lateTimer) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil && !t.over {
		t.timer = time.AfterFunc(t.after, t.fire)
	}
}

func (t *lateTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// watchedBody tells when it has been read to its end, or cannot be read any further.
type watchedBody struct {
	io.ReadCloser
	ended func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended()
	}
	return n, err
}

// End makes the server give up all that needs the cluster, for a cause that says why nothing can succeed here any more. Open requests end now,
// each with what is known of it: 503 if it did not run, 504 if that is unknown. Later ones are answered 503. Run, once its context has ended,
// waits no longer than it takes to send these answers.
func (s *Server) End(cause error) { s.end(fmt.Errorf("%w: %w", grid.ErrClosed, cause)) }

// refused returns the error for requests that come after End, or nil.
func (s *Server) refused() error {
	if s.ending.Err() == nil {
		return nil
	}
	return context.Cause(s.ending)
}
