package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

const entries = "/api/v1/maps/e2e/entries/"

// writer writes entries of its own, and counts one counter up by compare-and-set, through one member until it is stopped. Counting cannot be
// repeated without being noticed.
type writer struct {
	m              *member
	name, counter  string
	stop, done     chan struct{}
	acked          map[string]string
	maybe          map[string][]string // writes of unknown outcome: they may take place at any time
	added, unknown int                 // increments
	conflicts      int                 // increments that another writer was ahead of
	refused        int                 // requests that were answered 503
	unreachable    int                 // requests without any answer
	wrong          []string            // answers that must not be
	slowest        time.Duration
}

// startWriters starts a writer at each of the members, all with one counter.
func startWriters(counter string, at ...*member) []*writer {
	var all []*writer
	for i, m := range at {
		w := &writer{
			m: m, name: fmt.Sprintf("w%d", i), counter: counter, stop: make(chan struct{}), done: make(chan struct{}),
			acked: map[string]string{}, maybe: map[string][]string{},
		}
		all = append(all, w)
		go w.run()
	}
	return all
}

func (w *writer) run() {
	defer close(w.done)
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return
		default:
			w.put(fmt.Sprintf("%s-%d", w.name, i%97), strconv.Itoa(i))
			w.increment()
		}
	}
}

// send sends a request and counts what became of it; sure is false if nobody knows whether it took place.
func (w *writer) send(method, key, body string, header ...string) (a answer, sure bool) {
	start := time.Now()
	a, err := w.m.call(method, entries+key, []byte(body), append(header, "Content-Type", "text/plain")...)
	w.slowest = max(w.slowest, time.Since(start))
	switch {
	case err != nil:
		w.unreachable++
		time.Sleep(5 * time.Millisecond) // the member may be gone
		return answer{}, false
	case a.status == http.StatusServiceUnavailable:
		w.refused++
	case a.status == http.StatusGatewayTimeout:
		return a, false
	case a.status >= 400 && a.status != http.StatusNotFound && a.status != http.StatusPreconditionFailed:
		w.wrong = append(w.wrong, fmt.Sprintf("%s %s: %d %s", method, key, a.status, a.body))
	}
	return a, true
}

func (w *writer) put(key, value string) {
	switch a, sure := w.send("PUT", key, value); {
	case !sure:
		w.maybe[key] = append(w.maybe[key], value)
	case a.status < 300:
		w.acked[key] = value
	}
}

func (w *writer) increment() {
	a, _ := w.send("GET", w.counter, "")
	n, condition := 0, []string{"If-None-Match", "*"}
	switch a.status {
	case http.StatusOK:
		n, _ = strconv.Atoi(string(a.body))
		condition = []string{"If-Match", a.header.Get("ETag")}
	case http.StatusNotFound:
	default:
		return
	}
	switch a, sure := w.send("PUT", w.counter, strconv.Itoa(n+1), condition...); {
	case !sure:
		w.unknown++
	case a.status < 300:
		w.added++
	case a.status == http.StatusPreconditionFailed:
		w.conflicts++
	}
}

// check ends the writers and holds what was acknowledged against what the members read.
func check(t *testing.T, writers []*writer, readers ...*member) {
	t.Helper()
	for _, w := range writers {
		close(w.stop)
	}
	added, unknown := 0, 0
	for i, w := range writers {
		<-w.done
		added, unknown = added+w.added, unknown+w.unknown
		for k, v := range w.acked {
			if got := string(readers[i%len(readers)].get(entries + k).body); got != v && !slices.Contains(w.maybe[k], got) {
				t.Errorf("the acknowledged write of %s=%s reads %q", k, v, got)
			}
		}
		if len(w.wrong) > 0 {
			t.Errorf("writer at %s: %d wrong answers, the first is %s", w.m.name, len(w.wrong), w.wrong[0])
		}
		t.Logf("writer at %s: %d increments, %d of unknown outcome, %d behind another's; %d requests refused, %d unanswered; the slowest took %v",
			w.m.name, w.added, w.unknown, w.conflicts, w.refused, w.unreachable, w.slowest.Round(time.Millisecond))
	}
	for _, m := range readers {
		if n, _ := strconv.Atoi(string(m.get(entries + writers[0].counter).body)); n < added || n > added+unknown {
			t.Errorf("%s reads %d from the counter after %d acknowledged and %d unknown increments", m.name, n, added, unknown)
		}
	}
	if added == 0 {
		t.Error("no increment was acknowledged at all")
	}
}
