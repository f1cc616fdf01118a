package main

import (
	"bytes"
	"io"
)

// trap waits for the first member that comes to a point, and kills it there.
type trap struct {
	point point
	hit   chan *member // has room for one
}

// set arms a trap in place of the one before.
func (f *fleet) set(p point) *trap {
	t := &trap{point: p, hit: make(chan *member, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trap = t
	return t
}

// unset takes the trap away. Afterwards nobody runs into it any more; the member that had, is returned.
func (f *fleet) unset() *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.trap
	f.trap = nil
	if t == nil {
		return nil
	}
	select {
	case m := <-t.hit:
		return m
	default:
		return nil
	}
}

// passed looks at a line of a member's log, and kills the member if it is the one that the trap waits for.
func (f *fleet) passed(m *member, line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trap == nil || len(f.trap.hit) > 0 || !f.trap.point.in(line) {
		return
	}
	_ = m.cmd.Process.Kill()
	f.trap.hit <- m
}

func (p point) in(line []byte) bool {
	for _, text := range p.texts {
		if !bytes.Contains(line, []byte(text)) {
			return false
		}
	}
	return true
}

// watcher writes a member's log, and shows each line of it. It is for one goroutine.
type watcher struct {
	to   io.Writer
	at   func(*member, []byte)
	m    *member
	rest []byte // of a line that has not ended yet
}

// Write implements [io.Writer].
func (w *watcher) Write(b []byte) (int, error) {
	all := append(w.rest, b...)
	for {
		line, after, found := bytes.Cut(all, []byte("\n"))
		if !found {
			break
		}
		w.at(w.m, line)
		all = after
	}
	w.rest = bytes.Clone(all)
	return w.to.Write(b)
}
