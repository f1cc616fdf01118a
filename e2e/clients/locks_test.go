package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/hzerrors"
)

// The tests here are public cases about locks, by their ids.

// holderVar makes a run of the test binary hold locks until it is killed: it has the address of the member to do so through.
const holderVar = "GRIDNODE_TEST_HOLDER"

// hold is what such a run does.
func hold(address string) {
	ctx := context.Background()
	client, err := hazelcast.StartNewClientWithConfig(ctx, through(address))
	if err == nil {
		var m *hazelcast.Map
		if m, err = client.GetMap(ctx, "guarded"); err == nil {
			err = m.Lock(m.NewLockContext(ctx), "k")
		}
	}
	fmt.Println("held:", err)
	time.Sleep(5 * time.Minute)
	os.Exit(1)
}

// startHolder starts a process with a client that has the lock of k, through that member.
func startHolder(t *testing.T, m *Process) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+m.Address())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held: <nil>\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	return cmd
}

// guarded is the map whose keys are locked, as a client of these members sees it.
func guarded(t *testing.T, ctx context.Context, members ...*Process) *hazelcast.Map {
	t.Helper()
	m, err := connect(t, ctx, members).GetMap(ctx, "guarded")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// guardedThrough is guarded for a client that talks to one member only.
func guardedThrough(t *testing.T, ctx context.Context, p *Process) *hazelcast.Map {
	t.Helper()
	client, err := hazelcast.StartNewClientWithConfig(ctx, through(p.Address()))
	if err != nil {
		t.Fatal(err)
	}
	shutdownLater(t, client)
	m, err := client.GetMap(ctx, "guarded")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lockLater asks for the lock of k, and sends when it has it. What is not answered it asks again, as the client may not have sent it.
func lockLater(ctx context.Context, m *hazelcast.Map) (owner context.Context, got chan error) {
	owner, got = m.NewLockContext(ctx), make(chan error, 1)
	const wait, answer = 4 * time.Second, 2 * time.Second
	go func() { // ends with ctx
		for {
			call, done := context.WithTimeout(owner, wait+answer)
			had, err := m.TryLockWithTimeout(call, "k", wait)
			done()
			if had || err != nil && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil) {
				got <- err
				return
			}
		}
	}()
	return owner, got
}

func awaitLock(t *testing.T, what string, got chan error, limit time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case err := <-got:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: had after %v", what, time.Since(began).Round(time.Millisecond))
	case <-time.After(limit):
		t.Fatalf("%s: not had within %v", what, limit)
	}
}

// C133: the client that has a lock is killed, together with the member that it is connected to; later only a client.
func TestC133_HolderAndItsMemberAreKilled(t *testing.T) {
	ctx := caseContext(t)
	members := startMembers(t, 3)
	safe(t, members)
	m := guarded(t, ctx, members...)
	for _, withMember := range []bool{true, false} {
		holder := startHolder(t, members[1])
		owner, got := lockLater(ctx, m)
		if withMember {
			members[1].Kill()
			members = append(members[:1], members[2])
		}
		_ = holder.Process.Kill()
		awaitLock(t, fmt.Sprintf("the lock, with its member killed %v", withMember), got, 15*time.Second)
		if err := m.Unlock(owner, "k"); err != nil {
			t.Fatal(err)
		}
		if locked, err := m.IsLocked(ctx, "k"); err != nil || locked {
			t.Fatalf("locked after the unlock: %v, %v", locked, err)
		}
	}
}

// C135: the member of the client that has the lock stands still until it is removed, and comes back as another.
func TestC135_TheHoldersMemberStandsStill(t *testing.T) {
	ctx := caseContext(t)
	members := startMembers(t, 3)
	safe(t, members)
	theirs := guardedThrough(t, ctx, members[2])
	former := theirs.NewLockContext(ctx)
	if err := theirs.Lock(former, "k"); err != nil {
		t.Fatal(err)
	}
	m := guardedThrough(t, ctx, members[0]) // one that talks to all may have asked the member that stands still, and notices after a minute
	owner, got := lockLater(ctx, m)
	signal(t, members[2], syscall.SIGSTOP)
	awaitLock(t, "the lock of a client whose member stands still", got, 15*time.Second)
	signal(t, members[2], syscall.SIGCONT)
	late, cancel := context.WithTimeout(former, 40*time.Second)
	defer cancel()
	switch err := theirs.Unlock(late, "k"); {
	case errors.Is(err, hzerrors.ErrIllegalMonitorState):
	case errors.Is(err, context.DeadlineExceeded):
		t.Log("the client did not come back to its member in time")
	default:
		t.Errorf("unlock by the former holder: %v", err)
	}
	if locked, err := m.IsLocked(ctx, "k"); err != nil || !locked {
		t.Errorf("the waiter's lock is gone: %v, %v", locked, err)
	}
	if err := m.Unlock(owner, "k"); err != nil {
		t.Error(err)
	}
}

// A client that is connected to other members keeps its locks when the member dies through which it took them, for as long as it lives.
func TestLock_OfALivingClientOutlivesItsMember(t *testing.T) {
	ctx := caseContext(t)
	members := startMembers(t, 3)
	safe(t, members)
	theirs := guarded(t, ctx, members...)
	owner := theirs.NewLockContext(ctx)
	const keys = 12
	for i := range keys {
		if err := theirs.Lock(owner, fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	members[2].Kill()
	m := guarded(t, ctx, members[:2]...)
	rival := m.NewLockContext(ctx)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for i := range keys {
			if ok, err := m.TryLock(rival, fmt.Sprint("k", i)); ok || err != nil {
				t.Fatalf("k%d is locked by another client: %v, %v", i, ok, err)
			}
		}
	}
	for i := range keys {
		if err := theirs.Unlock(owner, fmt.Sprint("k", i)); err != nil {
			t.Errorf("k%d: %v", i, err)
		}
		if ok, err := m.TryLock(rival, fmt.Sprint("k", i)); !ok || err != nil {
			t.Errorf("k%d after its unlock: %v, %v", i, ok, err)
		}
	}
}

// C136: the member that has the key dies while one holds its lock and another waits.
func TestC136_TheKeysMemberDiesDuringTheWait(t *testing.T) {
	ctx := caseContext(t)
	members := startMembers(t, 3)
	safe(t, members)
	first, second := guarded(t, ctx, members...), guarded(t, ctx, members...)
	holder := first.NewLockContext(ctx)
	if err := first.Lock(holder, "k"); err != nil {
		t.Fatal(err)
	}
	_, got := lockLater(ctx, second)
	time.Sleep(500 * time.Millisecond)
	members[primaryOf(t, members, "k")].Kill()
	time.Sleep(3 * time.Second)
	if err := first.Unlock(holder, "k"); err != nil {
		t.Fatalf("unlock at the next primary: %v", err)
	}
	awaitLock(t, "the lock", got, 5*time.Second)
}
