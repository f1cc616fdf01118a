package e2e

import (
	"net"
	"strings"
	"testing"
	"time"
)

// freePorts returns addresses of ports that nobody listens on.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		ln, err := net.Listen("tcp", loopback)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		out = append(out, ln.Addr().String())
	}
	return out
}

// TestFormation_ThreeAtOnce covers C176 as well: three members that know each other, by number or by name, start at the same moment, and
// become one cluster with one master.
func TestFormation_ThreeAtOnce(t *testing.T) {
	t.Parallel()
	for _, byName := range []bool{false, true} {
		c := newCluster(t, "--expect", "3")
		at := freePorts(t, 3)
		for i, addr := range at {
			seeds := strings.Join(at, ",")
			if byName && i > 0 {
				seeds = strings.ReplaceAll(seeds, "127.0.0.1", "localhost")
			}
			c.spawn("--bind", addr, "--http", loopback, "--join", seeds)
		}
		start := time.Now()
		for _, m := range c.members {
			m.awaitReady()
		}
		c.awaitSafe(3)
		t.Logf("formed in %v", time.Since(start).Round(time.Millisecond))
		if c.master() == nil {
			t.Error("there is no master that all agree on")
		}
		first := read[clusterView](c.members[0], "/api/v1/cluster")
		for _, m := range c.members {
			if v := read[clusterView](m, "/api/v1/cluster"); v.ClusterID != first.ClusterID || v.Partitions != 271 || v.Name != c.name {
				t.Errorf("%s is in %+v, the first in %+v", m.name, v, first)
			}
		}
	}
}

// TestC177_C180_C182_Misconfigured: a seed that cannot be resolved, a cluster of another name, ports that are taken.
func TestC177_C180_C182_Misconfigured(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	n1 := c.members[0]
	c.spawn("--bind", loopback, "--http", loopback, "--join", "no-such-host.invalid:7100,"+n1.grid).awaitReady()
	c.awaitSafe(3)

	stranger := newCluster(t)
	x := stranger.spawn("--bind", loopback, "--http", loopback, "--join", n1.grid)
	for _, taken := range [][]string{
		{"--bind", n1.grid, "--http", loopback, "--join="}, {"--bind", loopback, "--http", strings.TrimPrefix(n1.http, "http://"), "--join="},
	} {
		cmd := program(append([]string{"start", "--cluster", c.name}, taken...)...)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		out, err := cmd.CombinedOutput()
		kill.Stop()
		port := n1.grid
		if taken[1] == loopback {
			port = strings.TrimPrefix(n1.http, "http://")
		}
		if err == nil || cmd.ProcessState.ExitCode() < 1 || !strings.Contains(string(out), port) || strings.Contains(string(out), "goroutine ") {
			t.Errorf("%v: %v\n%s", taken, err, out)
		}
	}
	select {
	case <-x.ready:
		t.Error("a member of another cluster says that it is ready")
	case <-x.ended:
		if !strings.Contains(x.output(), c.name) && !strings.Contains(x.output(), "cluster") {
			t.Errorf("it ended without a word about the cluster's name: %s", x.output())
		}
	case <-time.After(2 * time.Second):
		if !strings.Contains(x.output(), "cluster") {
			t.Errorf("it waits without a word about the cluster's name: %s", x.output())
		}
	}
	x.kill()
	c.awaitSafe(3)
}

// TestC179_IPv6: three members on ::1 form a cluster, addresses are written with brackets, and what is no address is refused by name.
func TestC179_IPv6(t *testing.T) {
	t.Parallel()
	const six = "[::1]:0"
	ln, err := net.Listen("tcp", six)
	if err != nil {
		t.Skip("this machine has no IPv6 loopback: ", err)
	}
	_ = ln.Close()
	c := newCluster(t)
	for range 3 {
		c.add(six, six)
	}
	c.awaitSafe(3)
	for _, m := range c.members {
		if !strings.HasPrefix(m.grid, "[::1]:") || !strings.HasPrefix(m.http, "http://[::1]:") {
			t.Errorf("%s says that it is at %s and %s", m.name, m.grid, m.http)
		}
		list := read[struct {
			Members []struct{ Name, Address, HTTP string }
		}](m, "/api/v1/members")
		for i, x := range list.Members {
			if x.Address != c.members[i].grid || x.HTTP != c.members[i].http {
				t.Errorf("%s lists %s at %s and %s, not at %s and %s", m.name, x.Name, x.Address, x.HTTP, c.members[i].grid, c.members[i].http)
			}
		}
	}
	waits := newCluster(t)
	for seed, says := range map[string]string{"::1": "[::1]:5701", "no-such-host.invalid:7100": "no-such-host.invalid:7100"} { // C177, too
		m := waits.spawn("--bind", loopback, "--http", loopback, "--join", seed)
		waits.await(15*time.Second, "it says that it waits for "+says, func() bool { return strings.Contains(m.output(), says) })
		m.kill()
	}
	for _, wrong := range [][]string{
		{"--bind", loopback, "--join", "1.2.3.4:5:6"}, {"--bind", "no-such-host.invalid:7100", "--join="}, {"--bind", "203.0.113.7:7100", "--insecure", "--join="},
	} {
		cmd := program(append([]string{"start", "--http", loopback, "--cluster", c.name}, wrong...)...)
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		out, err := cmd.CombinedOutput()
		kill.Stop()
		text := wrong[1]
		if text == loopback {
			text = wrong[3]
		}
		if err == nil || cmd.ProcessState.ExitCode() < 1 || !strings.Contains(string(out), text) || strings.Contains(string(out), "goroutine ") {
			t.Errorf("%v: %v\n%s", wrong, err, out)
		}
	}
}
