package main

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gridnode/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

// cli runs the program in this process. A test changes the app first, if it has to.
type cli struct {
	app            *app
	stdout, stderr bytes.Buffer
}

func newCLI(environ ...string) *cli {
	c := &cli{app: newApp()}
	c.app.stdin, c.app.stdout, c.app.stderr, c.app.environ = strings.NewReader(""), &c.stdout, &c.stderr, environ
	c.app.patience, c.app.poll = 5*time.Second, time.Millisecond
	return c
}

func (c *cli) run(ctx context.Context, args ...string) result {
	code := c.app.run(ctx, args)
	return result{code, c.stdout.String(), c.stderr.String()}
}

// fakeMember is a member that does nothing, or fails.
type fakeMember struct {
	cfg   node.Config
	ready chan struct{}
	err   error // of Run, at once
}

func (m *fakeMember) Run(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	<-ctx.Done()
	return nil
}
func (m *fakeMember) Ready() <-chan struct{} { return m.ready }
func (m *fakeMember) Info() node.Info {
	return node.Info{Name: cmp.Or(m.cfg.Name, "n1"), ClusterName: m.cfg.ClusterName, GridAddr: m.cfg.Bind, HTTPAddr: "http://" + m.cfg.HTTP}
}

// restServer is a member's REST as far as a test needs it: answers by method and path.
type restServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, path with query, and body of each
	headers  []http.Header
}

type answer struct {
	status int
	header map[string]string
	body   string
}

func newREST(t *testing.T, next func(call string, nth int) answer) *restServer {
	t.Helper()
	s := &restServer{}
	seen := map[string]int{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		call := r.Method + " " + r.URL.RequestURI()
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(call+" "+body.String()))
		s.headers = append(s.headers, r.Header.Clone())
		nth := seen[call]
		seen[call]++
		s.mu.Unlock()
		a := next(call, nth)
		w.Header().Set("Server", "gridnode/test")
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		if a.status == 0 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
	}))
	t.Cleanup(s.Close)
	return s
}

// fixed answers the same to each call, and 404 to others.
func fixed(answers map[string]answer) func(string, int) answer {
	return func(call string, _ int) answer {
		if a, ok := answers[call]; ok {
			return a
		}
		return answer{404, nil, `{"status":"fail","message":"nothing at ` + call + `"}`}
	}
}

// seen returns the requests so far, and their headers.
func (s *restServer) seen() ([]string, []http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.headers)
}
