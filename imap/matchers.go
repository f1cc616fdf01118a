package imap

import (
	"sync"

	"gridnode/imap/query"
)

// What is kept of predicates: a query asks each partition of a member with the same one.
const (
	maxMatchers     = 64
	maxMatcherBytes = 4 << 20 // of their wire forms
)

// matchers keeps predicates that have been made ready lately. Its methods may be called at once.
type matchers struct {
	mu    sync.Mutex // guards what follows
	list  map[string]*query.Matcher
	bytes int
}

// of returns the predicate of a wire form.
func (m *matchers) of(raw []byte) (*query.Matcher, error) {
	m.mu.Lock()
	known := m.list[string(raw)]
	m.mu.Unlock()
	if known != nil {
		return known, nil
	}
	p, err := query.Decode(raw)
	if err != nil {
		return nil, err
	}
	made, err := query.Compile(p)
	if err != nil || len(raw) > maxMatcherBytes/2 {
		return made, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list == nil || len(m.list) >= maxMatchers || m.bytes+len(raw) > maxMatcherBytes {
		m.list, m.bytes = map[string]*query.Matcher{}, 0
	}
	if m.list[string(raw)] == nil {
		m.list[string(raw)] = made
		m.bytes += len(raw)
	}
	return made, nil
}
