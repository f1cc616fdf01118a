package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gridnode/engine"
)

// served runs a fixture, with quick streams, until the test ends.
func served(t *testing.T, poll time.Duration) (f *fixture, stop func()) {
	t.Helper()
	f = newFixture(t)
	f.streams.poll, f.streams.heartbeat = poll, 50*time.Millisecond
	f.http.ReadTimeout, f.http.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond // a stream lives longer
	f.cfg.RequestTimeout = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return f, stop
}

// follow opens a stream.
func (f *fixture) follow(t *testing.T, id, last string) (*http.Response, *bufio.Scanner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+f.Addr().String()+"/api/v1/jobs/"+id+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp, bufio.NewScanner(resp.Body)
}

// sent is an event as a client reads it. A comment has no name, and its text is in data.
type sent struct {
	name, id, data string
}

// next returns the next event or comment; ok is false at the end of the stream.
func next(sc *bufio.Scanner) (e sent, ok bool) {
	for sc.Scan() {
		line := sc.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			return e, true
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data", name == "":
			e.data = value
		}
	}
	return e, false
}

// nextEvent skips comments.
func nextEvent(t *testing.T, sc *bufio.Scanner) sent {
	t.Helper()
	for {
		e, ok := next(sc)
		if !ok {
			t.Fatalf("the stream ended: %v", sc.Err())
		}
		if e.name != "" {
			return e
		}
	}
}

const streamed = "733584788375666689"

// A stream shows a job at once, then each change, says that it lives, and ends with the job.
func TestJobEvents(t *testing.T) {
	f, _ := served(t, 5*time.Millisecond)
	v := f.jobs.views[streamed]
	v.Incarnation = "i-1"
	f.jobs.show(v)
	resp, sc := f.follow(t, streamed, "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	first := nextEvent(t, sc)
	var d detailShape
	if err := json.Unmarshal([]byte(first.data), &d); err != nil || first.name != "job" || d.JobID != streamed || d.Metrics.SinkRows != 99 || d.Tables["fake"].SourceRows != 100 {
		t.Fatalf("first event %+v, %v", first, err)
	}
	for began, beats := time.Now(), 0; beats < 12; beats++ { // longer than any request may take
		if e, ok := next(sc); !ok || e.name != "" {
			t.Fatalf("after %v: %+v %v: nothing has changed", time.Since(began), e, ok)
		}
		v.Metrics.SinkQPS++ // rates alone are no change
		f.jobs.show(v)
	}
	v.Metrics.SinkRows = 200
	f.jobs.show(v)
	second := nextEvent(t, sc)
	if !strings.Contains(second.data, `"sinkRows":200`) || second.id == first.id {
		t.Errorf("second event %+v", second)
	}
	f.jobs.fail(engine.ErrRetryable) // no master for a while
	for range 3 {
		if e, ok := next(sc); !ok || e.name != "" {
			t.Fatalf("without a master: %+v %v", e, ok)
		}
	}
	f.jobs.fail(nil)
	v.Status, v.FinishTime = engine.JobFinished, time.Now()
	f.jobs.show(v)
	end := nextEvent(t, sc)
	if end.name != "end" || !strings.Contains(end.data, `"status":"FINISHED"`) {
		t.Errorf("last event %+v", end)
	}
	if e, ok := next(sc); ok {
		t.Errorf("after the end: %+v", e)
	}
}

// A client that comes back gets what it has not seen, and is told when there is nothing more to come.
func TestJobEvents_Resume(t *testing.T) {
	f, _ := served(t, 5*time.Millisecond)
	_, sc := f.follow(t, streamed, "")
	first := nextEvent(t, sc)
	_, sc = f.follow(t, streamed, first.id)
	if _, ok := next(sc); !ok { // the comment at the beginning
		t.Fatal("no stream")
	}
	if e, ok := next(sc); !ok || e.name != "" {
		t.Errorf("an event was repeated: %+v", e)
	}
	v := f.jobs.views[streamed]
	v.Restarts++
	f.jobs.show(v)
	if e := nextEvent(t, sc); e.id == first.id {
		t.Errorf("the change has the id of the event before it")
	}
	_, sc = f.follow(t, streamed, "of another life")
	nextEvent(t, sc)
	v.Status = engine.JobFailed
	f.jobs.show(v)
	end := nextEvent(t, sc)
	if resp, _ := f.follow(t, streamed, end.id); resp.StatusCode != http.StatusNoContent {
		t.Errorf("after the end: %d", resp.StatusCode)
	}
	if resp, sc := f.follow(t, streamed, first.id); resp.StatusCode != 200 || nextEvent(t, sc).id != end.id {
		t.Error("the end was missed")
	}
}

// Streams are bounded, and a stopping server ends them at once.
func TestJobEvents_Bounds(t *testing.T) {
	f, stop := served(t, time.Minute)
	for id, want := range map[string]int{"5": 404, "x": 400, "0": 404} {
		if resp, _ := f.follow(t, id, ""); resp.StatusCode != want {
			t.Errorf("events of job %s: %d", id, resp.StatusCode)
		}
	}
	var open []*bufio.Scanner
	for range maxStreams {
		resp, sc := f.follow(t, streamed, "")
		if resp.StatusCode != 200 {
			t.Fatalf("stream %d: %d", len(open), resp.StatusCode)
		}
		open = append(open, sc)
	}
	resp, _ := f.follow(t, streamed, "")
	if body := readAll(t, resp.Body); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, fmt.Sprint(maxStreams)) {
		t.Errorf("one stream too many: %d %s", resp.StatusCode, body)
	}
	if resp := f.do("GET", "/overview", ""); resp.Code != 200 {
		t.Errorf("streams keep others away: %d", resp.Code)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the server stopped after %v", took)
	}
	for _, sc := range open {
		for ok := true; ok; {
			_, ok = next(sc)
		}
	}
}

// A stream whose client went away is given up, and a job that is forgotten ends it.
func TestJobEvents_ClientGoesAway(t *testing.T) {
	f, _ := served(t, 5*time.Millisecond)
	resp, sc := f.follow(t, streamed, "")
	nextEvent(t, sc)
	_ = resp.Body.Close()
	limit := time.After(10 * time.Second)
	for range maxStreams { // all tokens are there only when the stream has given its own back
		select {
		case f.streams.tokens <- struct{}{}:
		case <-limit:
			t.Fatal("the stream goes on without a reader")
		}
	}
	for range maxStreams {
		<-f.streams.tokens
	}
	_, sc = f.follow(t, streamed, "")
	nextEvent(t, sc)
	f.jobs.mu.Lock()
	delete(f.jobs.views, streamed)
	f.jobs.mu.Unlock()
	if e := nextEvent(t, sc); e.name != "gone" {
		t.Errorf("%+v", e)
	}
	if _, ok := next(sc); ok {
		t.Error("it goes on after the job is gone")
	}
	req, err := http.NewRequest("HEAD", "http://"+f.Addr().String()+"/api/v1/jobs/8/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	head, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer head.Body.Close()
	if b, err := io.ReadAll(head.Body); err != nil || len(b) > 0 || head.StatusCode != 200 {
		t.Errorf("HEAD: %d %q %v", head.StatusCode, b, err)
	}
}
