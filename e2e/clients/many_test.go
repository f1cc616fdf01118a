package clients

import (
	"fmt"
	"testing"
	"time"
)

// Of many clients with locks that leave at once, and many that only lose one of their connections, the first ones' locks are free in time, the
// others' stay, and nobody else waits for that.
func TestManyClientsLeaveAtOnce(t *testing.T) {
	t.Parallel()
	members := startMembers(t, 2)
	safe(t, members)
	const clients = 300
	var leaving []*rawClient
	for i := range clients {
		only, both := rawConnect(t, members[1], i), rawConnect(t, members[1], clients+i)
		only.onKey(t, rawTryLock, fmt.Sprint("only", i), 1, -1, 0, 1)
		both.onKey(t, rawTryLock, fmt.Sprint("both", i), 1, -1, 0, 1)
		rawConnect(t, members[0], clients+i)
		leaving = append(leaving, only, both)
	}
	probe := rawConnect(t, members[0], 2*clients)
	slowest := time.Duration(0)
	held := func(what string) (n int) {
		for i := range clients {
			began := time.Now()
			m := probe.onKey(t, rawIsLocked, fmt.Sprint(what, i))
			n += int(m[0].body[13])
			slowest = max(slowest, time.Since(began))
		}
		return n
	}
	if only, both := held("only"), held("both"); only != clients || both != clients {
		t.Fatalf("%d and %d locks, want %d each", only, both, clients)
	}
	for _, c := range leaving {
		_ = c.conn.Close()
	}
	left := time.Now()
	await(t, "the locks of those that are gone", func() bool { return held("only") == 0 })
	if took := time.Since(left); took < 4*time.Second || took > 12*time.Second {
		t.Errorf("locks of clients that left were free after %v", took)
	}
	if n := held("both"); n != clients {
		t.Errorf("%d of %d locks are left of clients that are connected to another member", n, clients)
	}
	if slowest > 3*time.Second {
		t.Errorf("a request took %v meanwhile", slowest)
	}
	t.Logf("free after %v; the slowest request took %v", time.Since(left).Round(time.Millisecond), slowest.Round(time.Millisecond))
}
