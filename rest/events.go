package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"gridnode/engine"
)

// Of streams of events.
const (
	maxStreams        = 64 // at once; more are answered 503
	streamPoll        = time.Second
	streamHeartbeat   = 10 * time.Second
	streamWriteWithin = 10 * time.Second // a client that takes longer to read is cut off
)

// streams are the open streams of events of a server.
type streams struct {
	tokens    chan struct{} // one per open stream
	over      chan struct{} // closed when the server stops
	poll      time.Duration
	heartbeat time.Duration
}

func newStreams() streams {
	return streams{tokens: make(chan struct{}, maxStreams), over: make(chan struct{}), poll: streamPoll, heartbeat: streamHeartbeat}
}

// jobEvents streams a job as server-sent events: the whole of it when it has changed, at most once a second, until it has ended. Each event is a
// picture, not a difference, so nothing is missing after a gap: a client that comes back with the id of its last event gets the next one as soon
// as there is something else to show, and 204 if that event was the last.
func (s *Server) jobEvents(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.streams.tokens <- struct{}{}:
		defer func() { <-s.streams.tokens }()
	default:
		return failf(http.StatusServiceUnavailable, "%d streams of events are open already", cap(s.streams.tokens))
	}
	v, err := s.streamedJob(r)
	if err != nil {
		return err
	}
	e, err := eventOf(v)
	if err != nil {
		return err
	}
	last := r.Header.Get("Last-Event-ID")
	if e.end && last == e.id {
		w.WriteHeader(http.StatusNoContent) // tells a browser to come back no more
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := &eventWriter{w: w, rc: http.NewResponseController(w)}
	if r.Method == http.MethodHead {
		return nil
	}
	out.begin()
	s.streamJob(r, out, e, last)
	return nil
}

// streamedJob looks at the job, for as long as one request may take.
func (s *Server) streamedJob(r *http.Request) (engine.JobView, error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.RequestTimeout)
	defer cancel()
	return s.oneJob(r.WithContext(ctx))
}

// streamJob sends events until the job has ended or is forgotten, the client is gone, or the server stops. Errors have no other reader than the
// client now, and while no master can be asked they say so as comments.
func (s *Server) streamJob(r *http.Request, out *eventWriter, e event, last string) {
	tick := time.NewTicker(s.streams.poll)
	defer tick.Stop()
	for said := time.Now(); ; {
		switch {
		case e.id != "" && e.id != last:
			out.event(e)
			last, said = e.id, time.Now()
		case time.Since(said) >= s.streams.heartbeat:
			out.comment("still here")
			said = time.Now()
		}
		if out.err != nil || e.end {
			return
		}
		select {
		case <-tick.C:
		case <-s.streams.over:
			out.comment("this member stops")
			return
		case <-r.Context().Done():
			return
		}
		v, err := s.streamedJob(r)
		if err == nil {
			e, err = eventOf(v)
		}
		if he, ok := errors.AsType[*httpError](err); ok && he.status == http.StatusNotFound {
			e = event{name: "gone", id: "gone", data: []byte(`{}`), end: true}
		} else if err != nil {
			e = event{}
			s.log.Debug("job of a stream cannot be seen", "path", r.URL.EscapedPath(), "error", err)
		}
	}
}

// event is one picture of a job.
type event struct {
	name string
	id   string // the same for the same picture
	data []byte
	end  bool // nothing comes after it
}

func eventOf(v engine.JobView) (event, error) {
	d := detailOf(v)
	still, err := json.Marshal(d.withoutRates())
	if err != nil {
		return event{}, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(still)
	e := event{name: "job", id: fmt.Sprintf("%s-%016x", v.Incarnation, sum.Sum64()), end: v.Status.Final()}
	if e.end {
		e.name = "end"
	}
	e.data, err = json.Marshal(d)
	return e, err
}

// eventWriter writes events, each within a bounded time. After the first error it writes nothing more.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

// begin lifts the server's deadlines, which are meant for requests, and sends the headers.
func (o *eventWriter) begin() {
	if err := o.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
		return
	}
	o.comment("a job's events; each is the whole of it")
}

func (o *eventWriter) event(e event) {
	o.send(fmt.Appendf(nil, "event: %s\nid: %s\ndata: %s\n\n", e.name, e.id, e.data)) // JSON has no line breaks outside of texts, and escapes them there
}

func (o *eventWriter) comment(text string) { o.send([]byte(": " + text + "\n\n")) }

func (o *eventWriter) send(b []byte) {
	if o.err != nil {
		return
	}
	if err := o.rc.SetWriteDeadline(time.Now().Add(streamWriteWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
		return
	}
	if _, o.err = o.w.Write(b); o.err != nil {
		return
	}
	if err := o.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
	}
}
