package clients

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/aggregate"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/predicate"
	"github.com/hazelcast/hazelcast-go-client/serialization"
)

// threeMembers starts a cluster and returns its members and a client of it.
func threeMembers(t *testing.T, ctx context.Context) ([]*Process, *hazelcast.Client) {
	t.Helper()
	members := startMembers(t, 3)
	return members, connect(t, ctx, members)
}

func connect(t *testing.T, ctx context.Context, members []*Process) *hazelcast.Client {
	t.Helper()
	cfg := hazelcast.Config{}
	cfg.Cluster.Name = "clients"
	for _, m := range members {
		cfg.Cluster.Network.Addresses = append(cfg.Cluster.Network.Addresses, m.Address())
	}
	cfg.Logger.Level = logger.ErrorLevel
	client, err := hazelcast.StartNewClientWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	return client
}

// The locks of a client that is gone are free once it had the time to come back; those of one that lives are not.
func TestGoClient_LocksEndWithTheClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	members, first := threeMembers(t, ctx)
	second := connect(t, ctx, members)
	mine, err := first.GetMap(ctx, "guarded")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := second.GetMap(ctx, "guarded")
	if err != nil {
		t.Fatal(err)
	}
	owner := mine.NewLockContext(ctx)
	for i := range 12 { // on every member
		if err := mine.Lock(owner, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := theirs.TryLockWithTimeout(theirs.NewLockContext(ctx), "0", 8*time.Second); err != nil || ok {
		t.Fatalf("the lock of a client that lives was given away: %v, %v", ok, err)
	}
	if err := first.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if ok, err := theirs.TryLockWithTimeout(theirs.NewLockContext(ctx), fmt.Sprint(i), 20*time.Second); err != nil || !ok {
			t.Errorf("lock %d of a client that is gone is not to be had: %v, %v", i, ok, err)
		}
	}
}

// An unmodified Go client uses maps as its documentation shows, and loses nothing when a member dies under it.
func TestGoClient_UsesMapsAndSurvivesAKill(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	members, client := threeMembers(t, ctx)
	m, err := client.GetMap(ctx, "people")
	if err != nil {
		t.Fatal(err)
	}
	var added atomic.Int32
	if _, err := m.AddListener(ctx, hazelcast.MapListener{EntryAdded: func(*hazelcast.EntryNotified) { added.Add(1) }}, false); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		value := serialization.JSON(fmt.Sprintf(`{"age":%d}`, i))
		if _, err := m.Put(ctx, fmt.Sprint("p", i), value); err != nil {
			t.Fatal(err)
		}
	}
	old, err := m.GetValuesWithPredicate(ctx, predicate.And(predicate.GreaterOrEqual("age", 40), predicate.Less("age", 50)))
	if err != nil || len(old) != 10 {
		t.Errorf("10 people are in their forties: %d, %v", len(old), err)
	}
	if n, err := m.Aggregate(ctx, aggregate.Count("age")); err != nil || n != int64(100) {
		t.Errorf("count: %v, %v", n, err)
	}
	await(t, "events of people", func() bool { return added.Load() > 0 }) // it may have connected to some members only meanwhile
	locks(t, ctx, m)
	numbers, err := client.GetMap(ctx, "numbers")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a backup of everything", func() bool { return members[0].Safe(len(members)) })
	acked := map[string]int64{}
	for i := range int64(300) {
		if i == 100 {
			members[0].Kill()
		}
		one, cancelOne := context.WithTimeout(ctx, unsent) // a few may get no answer
		if key := fmt.Sprint(i); numbers.Set(one, key, i) == nil {
			acked[key] = i
		}
		cancelOne()
	}
	if len(acked) < 290 {
		t.Errorf("only %d of 300 writes were acknowledged", len(acked))
	}
	for key, want := range acked {
		if got, err := numbers.Get(ctx, key); err != nil || got != want {
			t.Fatalf("%s is %v, %v; acknowledged was %d", key, got, err, want)
		}
	}
	if n, err := m.Size(ctx); err != nil || n != 100 {
		t.Errorf("size after a death: %d, %v", n, err)
	}
}

// locks has one thread keep another out.
func locks(t *testing.T, ctx context.Context, m *hazelcast.Map) {
	t.Helper()
	one, two := m.NewLockContext(ctx), m.NewLockContext(ctx)
	if err := m.Lock(one, "p1"); err != nil {
		t.Fatal(err)
	}
	if ok, err := m.TryLock(two, "p1"); err != nil || ok {
		t.Errorf("a locked key is locked again: %v, %v", ok, err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- m.Lock(two, "p1") }() // ends with the unlock below, or the test's context
	if err := m.Unlock(one, "p1"); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if err := m.Unlock(two, "p1"); err != nil {
		t.Errorf("the waiter's unlock: %v", err)
	}
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
