package imap

import (
	"runtime"
	"testing"
	"time"
	"weak"
)

// holder stands for a member: it has the stores, and tells their home of itself.
type holder struct {
	home   *Home
	stores []*Store
}

func newHolder(stores int) *holder {
	m := &holder{}
	m.home = NewHome(HomeConfig{MaxBytes: 1 << 20, Spread: func() (int, int) { return 1, max(1, len(m.stores)) }})
	for range stores {
		s := m.home.NewStore(func(v uint64) uint64 { return v })
		for i := range 30 {
			c := change{Map: []string{"a", "b", "c"}[i%3], Key: Bytes([]byte{byte(i)}), Value: String("v"), TTL: time.Duration(i%2) * time.Hour}
			s.apply(&c, uint64(i+1), s.at(time.Now()))
		}
		m.stores = append(m.stores, s)
	}
	return m
}

// isGarbage lets the collector run until it has taken the store.
func isGarbage(t *testing.T, what string, p weak.Pointer[Store]) {
	t.Helper()
	for range 100 {
		if runtime.GC(); p.Value() == nil {
			return
		}
	}
	t.Errorf("%s is still there", what)
}

// A store that nobody uses any more is garbage, and its entries with it, also if what its home was told leads back to it, as a member's does. What
// it counted for is taken back.
func TestStore_IsGarbageWhenNobodyUsesIt(t *testing.T) {
	m := newHolder(2)
	both, old, last := m.home.Used(), weak.Make(m.stores[0]), weak.Make(m.stores[1])
	if both == 0 {
		t.Fatal("nothing is counted")
	}
	m.stores = m.stores[1:]
	m.stores = append([]*Store(nil), m.stores...)
	isGarbage(t, "a store that was replaced", old)
	for end := time.Now().Add(10 * time.Second); m.home.Used() != both/2 && time.Now().Before(end); {
		runtime.GC() // the count follows
	}
	if used := m.home.Used(); used != both/2 {
		t.Errorf("%d bytes are used, want %d", used, both/2)
	}
	runtime.KeepAlive(m)
	isGarbage(t, "the store of a member that is gone", last)
}
