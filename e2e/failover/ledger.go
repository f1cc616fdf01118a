package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxRefused is how many refused writes of one key are remembered. A read that is slower than that many writes is not held against them.
const maxRefused = 64

// ledger holds what clients know about the entries that they write. Each key has one writer at a time, who writes the numbers 1, 2, 3 and so
// on, each under the condition that the entry still is as he saw it last. So numbers only grow, a number that was acknowledged or read once is
// the least that any later read may show, and a write of unknown outcome cannot take place any more once a later one was acknowledged.
// All methods may be called at once.
type ledger struct {
	mu   sync.Mutex // guards what follows
	keys map[string]*line
}

// line is what is known about one key. 0 stands for an entry that is absent.
type line struct {
	known   int   // the highest number that was acknowledged or read
	tried   int   // the highest number that was sent
	refused []int // numbers above known that the cluster said it did not write, in order
}

func newLedger() *ledger { return &ledger{keys: map[string]*line{}} }

// begin returns the next number to write to the key.
func (l *ledger) begin(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[key]
	if e == nil {
		e = &line{}
		l.keys[key] = e
	}
	e.tried++
	return e.tried
}

// acknowledged says that the cluster promised to have written n.
func (l *ledger) acknowledged(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[key].raise(n)
}

// refuse says that the cluster promised not to have written n.
func (l *ledger) refuse(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[key]
	if e.refused = append(e.refused, n); len(e.refused) > maxRefused {
		e.refused = slices.Delete(e.refused, 0, len(e.refused)-maxRefused)
	}
}

func (e *line) raise(n int) {
	if n > e.known {
		e.known = n
		e.refused = slices.DeleteFunc(e.refused, func(r int) bool { return r < n })
	}
}

// floor is the least that a read of the key which begins now may show.
func (l *ledger) floor(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.keys[key]; e != nil {
		return e.known
	}
	return 0
}

// check judges a read that ended now and showed n. The floor is of the moment at which it began.
func (l *ledger) check(key string, floor, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[key]
	switch {
	case n < floor && n == 0:
		return fmt.Errorf("%s is absent, although %d had been acknowledged or read before", key, floor)
	case n < floor:
		return fmt.Errorf("%s reads %d, although %d had been acknowledged or read before", key, n, floor)
	case n > 0 && (e == nil || n > e.tried):
		return fmt.Errorf("%s reads %d, which nobody wrote", key, n)
	case n > 0 && slices.Contains(e.refused, n):
		return fmt.Errorf("%s reads %d, the write of which was refused", key, n)
	}
	if e != nil {
		e.raise(n)
	}
	return nil
}

// all returns the keys in order.
func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, len(l.keys))
	for k := range l.keys {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// valueOf is what is stored for the n-th write of a key. It names the key, so that values of other keys are not taken for it.
func valueOf(key string, n int) string { return key + " " + strconv.Itoa(n) }

// numberIn is the reverse of valueOf.
func numberIn(key, value string) (int, error) {
	text, ok := strings.CutPrefix(value, key+" ")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 {
		return 0, fmt.Errorf("%s reads %q, which is no value of this key", key, value)
	}
	return n, nil
}
