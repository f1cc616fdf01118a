package main

import (
	"io"
	"sync"
	"time"
)

const (
	logPatience  = 100 * time.Millisecond // for which a line waits to be written before lines only gather
	maxUnwritten = 1 << 20                // bytes that gather
	lastWords    = time.Second            // for what is left at the end
)

// logWriter is what a member writes its log to. Whoever logs waits until his line is written, so that it is there if the process dies right
// after it; but a member must not stand still because somebody does not read its log. Then lines gather, those that do not fit are left out and
// counted, and nobody waits until something has been read again.
type logWriter struct {
	out  io.Writer
	note func(lost int) []byte // the line that says how many were left out; may be nil
	wake chan struct{}         // holds one token when there is something to write
	quit chan struct{}
	done chan struct{} // closed when all is written after quit

	mu    sync.Mutex // guards what follows; never held while writing
	buf   []byte
	batch chan struct{} // closed when what is in buf now is written
	stuck bool          // out has not taken anything for logPatience
	lost  int
}

// newLogWriter starts a writer. It is to be ended by close.
func newLogWriter(out io.Writer, note func(lost int) []byte) *logWriter {
	w := &logWriter{
		out: out, note: note, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), batch: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write never fails: there is nobody to tell.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	if len(w.buf)+len(line) > maxUnwritten {
		w.lost++
		w.mu.Unlock()
		return len(line), nil
	}
	w.buf = append(w.buf, line...)
	written, stuck := w.batch, w.stuck
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // a token is there
	}
	if stuck {
		return len(line), nil
	}
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
		w.mu.Lock()
		w.stuck = true
		w.mu.Unlock()
	}
	return len(line), nil
}

func (w *logWriter) run() {
	defer close(w.done)
	for ending := false; !ending; {
		select {
		case <-w.wake:
		case <-w.quit:
			ending = true
		}
		for w.writeBatch() {
		}
	}
}

// writeBatch writes what has gathered; ok is false if there was nothing.
func (w *logWriter) writeBatch() (ok bool) {
	w.mu.Lock()
	buf, written, lost := w.buf, w.batch, w.lost
	w.buf, w.batch, w.lost = nil, make(chan struct{}), 0
	w.mu.Unlock()
	if lost > 0 && w.note != nil {
		buf = append(buf, w.note(lost)...)
	}
	if len(buf) > 0 {
		_, _ = w.out.Write(buf)
	}
	w.mu.Lock()
	w.stuck = false
	w.mu.Unlock()
	close(written)
	return len(buf) > 0
}

// close waits until all is written, for lastWords at most: a write that never returns is left behind, with its goroutine, for the process ends.
// Nothing may be written after it.
func (w *logWriter) close() {
	close(w.quit)
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}
