package imap

import (
	"fmt"
	"sync"
	"testing"

	"gridnode/imap/query"
)

// A predicate is made ready once for all partitions, and what is kept of predicates is bounded.
func TestMatchers(t *testing.T) {
	var m matchers
	one := query.EqualTo("a", query.IntOf(1)).Append(nil)
	first, err := m.of(one)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.of(one); err != nil || again != first {
		t.Errorf("made again: %v", err)
	}
	if _, err := m.of([]byte("no predicate")); err == nil {
		t.Error("bytes that are no predicate were taken")
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				p := query.EqualTo("a", query.IntOf(int64(i%100*(w+1))))
				got, err := m.of(p.Append(nil))
				if err != nil || got.Predicate().String() != p.String() {
					t.Errorf("%v became %v, %v", p, got, err)
				}
			}
		})
	}
	wg.Wait()
	many := make([]query.Value, 60_000)
	for n := range 10 {
		for i := range many {
			many[i] = query.TextOf(fmt.Sprintf("a text of some length %d %d", n, i))
		}
		if _, err := m.of(query.In("a", many...).Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	size := 0
	for raw := range m.list {
		size += len(raw)
	}
	if len(m.list) > maxMatchers || size > maxMatcherBytes || size != m.bytes {
		t.Errorf("%d predicates of %d bytes are kept, %d are counted", len(m.list), size, m.bytes)
	}
}
