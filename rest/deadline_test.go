package rest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/grid"
)

// stuckMaps and stuckJobs answer when their context ends, as a cluster without a majority does.
type stuckMaps struct {
	*fakeMaps
	as error // what they make of it; nil: the context's own error
}

func (s stuckMaps) wait(ctx context.Context) error {
	<-ctx.Done()
	if s.as == nil {
		return ctx.Err()
	}
	return s.as
}

func (s stuckMaps) Get(ctx context.Context, _, _ string) (Value, error) {
	return Value{}, s.wait(ctx)
}

func (s stuckMaps) Put(ctx context.Context, _, _ string, _ Value, _ PutOptions) (PutResult, error) {
	return PutResult{}, s.wait(ctx)
}

func (s stuckMaps) Delete(ctx context.Context, _, _ string, _ uint64) (DeleteResult, error) {
	return DeleteResult{}, s.wait(ctx)
}

func (s stuckMaps) Size(ctx context.Context, _ string) (int, error) { return 0, s.wait(ctx) }
func (s stuckMaps) List(ctx context.Context) ([]MapInfo, error)     { return nil, s.wait(ctx) }
func (s stuckMaps) Entries(ctx context.Context, _ string, _ int) ([]Entry, error) {
	return nil, s.wait(ctx)
}

type stuckJobs struct {
	*fakeJobs
	as error
}

func (s stuckJobs) wait(ctx context.Context) error { return stuckMaps{as: s.as}.wait(ctx) }

func (s stuckJobs) Submit(ctx context.Context, _ engine.SubmitRequest) (engine.SubmitResult, error) {
	return engine.SubmitResult{}, s.wait(ctx)
}
func (s stuckJobs) Stop(ctx context.Context, _ engine.StopRequest) error { return s.wait(ctx) }
func (s stuckJobs) Info(ctx context.Context, _ string) (engine.JobView, error) {
	return engine.JobView{}, s.wait(ctx)
}
func (s stuckJobs) Running(ctx context.Context) ([]engine.JobView, error) { return nil, s.wait(ctx) }
func (s stuckJobs) Finished(ctx context.Context, _ engine.JobStatus) ([]engine.JobView, error) {
	return nil, s.wait(ctx)
}
func (s stuckJobs) FinishedPage(ctx context.Context, _ engine.JobStatus, _, _ int) (engine.JobsPage, error) {
	return engine.JobsPage{}, s.wait(ctx)
}
func (s stuckJobs) Jobs(ctx context.Context, _ engine.JobStatus, _, _ int) (engine.JobsPage, error) {
	return engine.JobsPage{}, s.wait(ctx)
}
func (s stuckJobs) Overview(ctx context.Context) (engine.Overview, error) {
	return engine.Overview{}, s.wait(ctx)
}
func (s stuckJobs) Cleanups(ctx context.Context) ([]engine.CleanupView, error) {
	return nil, s.wait(ctx)
}

// stuck makes all that needs the cluster wait for ever.
func (f *fixture) stuck(as error) {
	f.cfg.Maps, f.cfg.Jobs = stuckMaps{f.maps, as}, stuckJobs{f.jobs, as}
}

// clusterRequests are requests that need the cluster, one of each kind.
var clusterRequests = []struct{ method, target, body string }{
	{"GET", "/api/v1/maps", ""},
	{"GET", "/api/v1/maps/m/size", ""},
	{"GET", "/api/v1/maps/m/entries", ""},
	{"GET", "/api/v1/maps/m/entries/k", ""},
	{"PUT", "/api/v1/maps/m/entries/k", "v"},
	{"DELETE", "/api/v1/maps/m/entries/k", ""},
	{"GET", "/overview", ""},
	{"GET", "/running-jobs", ""},
	{"GET", "/finished-jobs", ""},
	{"GET", "/job-info/7", ""},
	{"GET", "/api/v1/jobs/cleanup", ""},
	{"POST", "/submit-job", "{}"},
	{"POST", "/submit-jobs", "[{},{}]"},
	{"POST", "/stop-job", `{"jobId":7}`},
	{"POST", "/stop-jobs", `[{"jobId":7},{"jobId":8}]`},
}

func TestClusterThatDoesNotAnswer_IsToldInTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		as     error
		status int
	}{
		{"it did not run", fmt.Errorf("ask: %w", grid.ErrNoLease), 503},
		{"that is unknown", fmt.Errorf("ask: %w", grid.ErrIndeterminate), 504},
		{"the context's own error", nil, 504},
	} {
		for _, q := range clusterRequests {
			t.Run(tt.name+" "+q.method+" "+q.target, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t)
					f.stuck(tt.as)
					begin := time.Now()
					rec := f.do(q.method, q.target, q.body)
					text := message(t, rec)
					if took := time.Since(begin); rec.Code != tt.status || took != DefaultGridTimeout {
						t.Errorf("%d after %v: %s", rec.Code, took, text)
					}
					if got := rec.Header().Get("Retry-After") != ""; got != (tt.status == 503 || q.method == "GET") {
						t.Errorf("Retry-After: %q", rec.Header().Get("Retry-After"))
					}
					if got := strings.Contains(rec.Body.String(), `"outcome":"unknown"`); got != (tt.status == 504) {
						t.Errorf("outcome unknown: %v", got)
					}
				})
			})
		}
	}
}

// slowBody gives a byte a second.
type slowBody struct{ left int }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	b.left--
	p[0] = 'x'
	return 1, nil
}

// The time that a client takes to send a value is not taken from the time for the cluster.
func TestSlowUpload_HasItsWholeTimeForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		begin := time.Now()
		req := httptest.NewRequest("PUT", "/api/v1/maps/m/entries/k", &slowBody{left: 20})
		rec := httptest.NewRecorder()
		f.http.Handler.ServeHTTP(rec, req)
		if took := time.Since(begin); rec.Code != http.StatusCreated || took != 20*time.Second {
			t.Errorf("%d after %v: %s", rec.Code, took, rec.Body)
		}
		f.stuck(grid.ErrNoLease)
		begin = time.Now()
		req = httptest.NewRequest("PUT", "/api/v1/maps/m/entries/k", &slowBody{left: 20})
		rec = httptest.NewRecorder()
		f.http.Handler.ServeHTTP(rec, req)
		if took := time.Since(begin); rec.Code != 503 || took != 20*time.Second+DefaultGridTimeout {
			t.Errorf("%d after %v: %s", rec.Code, took, rec.Body)
		}
	})
}

// After End, open requests are answered with what is known of them, later ones are refused, and Run waits for nobody.
func TestEnd_AnswersOpenRequestsAtOnce(t *testing.T) {
	for _, as := range []error{grid.ErrNoLease, grid.ErrIndeterminate} {
		f := newFixture(t)
		f.stuck(as)
		f.cfg.GridTimeout, f.cfg.ShutdownTimeout = time.Minute, time.Minute
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- f.Run(ctx) }()
		client := &http.Client{Timeout: time.Minute}
		answered := make(chan int, 2)
		for _, method := range []string{"GET", "PUT"} {
			go func() {
				req, _ := http.NewRequest(method, "http://"+f.Addr().String()+"/api/v1/maps/m/entries/k", strings.NewReader("v"))
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					answered <- 0
					return
				}
				_ = readAll(t, res.Body)
				_ = res.Body.Close()
				answered <- res.StatusCode
			}()
		}
		for len(f.inFlight) < 2 {
			time.Sleep(time.Millisecond)
		}
		dead, err := net.Dial("tcp", f.Addr().String()) // sends nothing, and has to be cut off
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		f.End(fmt.Errorf("removed"))
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		for range 2 {
			if status, want := <-answered, failureOf(as).status; status != want {
				t.Errorf("%v: answered %d, want %d", as, status, want)
			}
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, q := range clusterRequests {
			rec := f.do(q.method, q.target, q.body)
			if text := message(t, rec); rec.Code != 503 || rec.Header().Get("Retry-After") == "" || !strings.Contains(text, "removed") {
				t.Errorf("%s %s: %d %s", q.method, q.target, rec.Code, text)
			}
		}
		_ = dead.Close()
		client.CloseIdleConnections()
	}
}
