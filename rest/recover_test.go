package rest

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"gridnode/grid"
)

// recoverFrom asks for a recovery from a remote address.
func (f *fixture) recoverFrom(remote, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", "/api/v1/cluster/recover", strings.NewReader(body))
	req.RemoteAddr = remote
	rec := httptest.NewRecorder()
	f.http.Handler.ServeHTTP(rec, req)
	return rec
}

func TestRecover_RefusesWhatIsNotMeant(t *testing.T) {
	for _, tt := range []struct {
		remote, body string
		status       int
		says         string
	}{
		{"10.1.2.3:4000", `{"force":true,"cluster":"dev"}`, 403, "own machine"},
		{"garbage", `{}`, 403, "own machine"},
		{"127.0.0.1:4000", `{"force":true}`, 400, `"dev"`},
		{"127.0.0.1:4000", `{"force":true,"cluster":"prod"}`, 400, `"prod"`},
		{"127.0.0.1:4000", `{"cluster":"prod"}`, 400, `"prod"`},
		{"127.0.0.1:4000", `{"forse":true,"cluster":"dev"}`, 400, "forse"},
		{"127.0.0.1:4000", `{"force":"yes","cluster":"dev"}`, 400, "force"},
		{"127.0.0.1:4000", ``, 400, "empty"},
	} {
		f := newFixture(t)
		rec := f.recoverFrom(tt.remote, tt.body)
		if text := message(t, rec); rec.Code != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s from %s: %d %s", tt.body, tt.remote, rec.Code, text)
		}
		if len(f.grid.forced) > 0 {
			t.Errorf("%s from %s: the grid was asked", tt.body, tt.remote)
		}
	}
}

func TestRecover_SaysWhatItMeans_AndIsLogged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		body   string
		report grid.Recovery
		says   []string
	}{
		{"dry", `{}`, grid.Recovery{}, []string{"would go on: n1", "would be dropped: n2, n3", "lost partitions: none", "missing in the others: none"}},
		{"dry, named", `{"cluster":"dev"}`, grid.Recovery{}, []string{"would go on: n1"}},
		{"done", `{"force":true,"cluster":"dev"}`, grid.Recovery{Promoted: 4, Lost: []grid.PartitionID{3, 7}, Doubtful: []grid.PartitionID{9}},
			[]string{"go on: n1", "are dropped: n2, n3", "lost partitions: 2", "3 7", "may be missing in 1 partitions", ": 9", "two clusters"}},
	} {
		f := newFixture(t)
		f.grid.report = tt.report
		f.grid.report.Survivors, f.grid.report.Dropped = f.grid.state.Members[:1], f.grid.state.Members[1:]
		rec := f.recoverFrom("[::1]:4000", tt.body)
		var shape recoverShape
		if err := json.Unmarshal(rec.Body.Bytes(), &shape); err != nil || rec.Code != 200 {
			t.Fatalf("%s: %d %s", tt.name, rec.Code, rec.Body)
		}
		force := strings.Contains(tt.body, "true")
		if shape.Applied != force || shape.Cluster != "dev" || shape.Promoted != tt.report.Promoted || len(shape.Lost) != len(tt.report.Lost) ||
			len(shape.Survivors) != 1 || shape.Dropped[1].Name != "n3" || shape.Doubtful == nil {
			t.Errorf("%s: %+v", tt.name, shape)
		}
		text := strings.Join(shape.Says, "\n")
		for _, want := range tt.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it does not say %q:\n%s", tt.name, want, text)
			}
		}
		if log := f.logs.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, fmt.Sprint("applied=", force)) ||
			!strings.Contains(log, rec.Header().Get("X-Request-Id")) || !strings.Contains(log, "[::1]:4000") {
			t.Errorf("%s: the log has %s", tt.name, log)
		}
	}
}

func TestRecover_RefusalIs409AndLogged(t *testing.T) {
	f := newFixture(t)
	f.grid.refuses = fmt.Errorf("%w: 2 of 3 voters answer", grid.ErrRefused)
	rec := f.recoverFrom("127.0.0.1:1", `{"force":true,"cluster":"dev"}`)
	if text := message(t, rec); rec.Code != 409 || !strings.Contains(text, "2 of 3 voters") || !strings.Contains(f.logs.String(), "2 of 3 voters") {
		t.Errorf("%d %s, log %s", rec.Code, text, f.logs.String())
	}
}

// Without a majority every 503 that may come from that says so; others say what they said.
func TestNoQuorum_IsSaid(t *testing.T) {
	const known = "1 of 3 voters answer, not n2, n3"
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{grid.ErrNoLease, true}, {fmt.Errorf("ask: %w", grid.ErrUnreachable), true}, {grid.ErrNotReady, true}, {grid.ErrNoMaster, true},
		{grid.ErrClosed, false}, {grid.ErrOverloaded, false}, {grid.ErrBadRequest, false}, {grid.ErrIndeterminate, false},
	} {
		f := newFixture(t)
		f.maps.err = tt.err
		f.grid.noQuorum = fmt.Errorf("%w: %s", grid.ErrNoQuorum, known)
		rec := f.do("GET", "/api/v1/maps/m/entries/k", "")
		text := message(t, rec)
		if got := strings.Contains(text, known) && strings.Contains(text, grid.ErrNoQuorum.Error()); got != tt.want || !strings.Contains(text, tt.err.Error()) {
			t.Errorf("%v: %d %s", tt.err, rec.Code, text)
		}
		if tt.want && (rec.Code != 503 || rec.Header().Get("Retry-After") == "") {
			t.Errorf("%v: %d, Retry-After %q", tt.err, rec.Code, rec.Header().Get("Retry-After"))
		}
	}
	f := newFixture(t) // said once, not twice
	f.maps.err = fmt.Errorf("%w: %s", grid.ErrNoQuorum, known)
	f.grid.noQuorum = f.maps.err
	if text := message(t, f.do("GET", "/api/v1/maps/m/entries/k", "")); strings.Count(text, known) != 1 {
		t.Error(text)
	}
	for range cap(f.inFlight) {
		f.inFlight <- struct{}{}
	}
	if text := message(t, f.do("GET", "/overview", "")); strings.Contains(text, known) {
		t.Errorf("too many requests: %s", text)
	}
}
