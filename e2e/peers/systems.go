package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gridnode/e2e/clients"
)

const startWithin = time.Minute // a member

// system is something that the Go client can use.
type system interface {
	name() string
	// start starts the members; they end with cluster.kill. An error leaves none behind.
	start(ctx context.Context) (*cluster, error)
}

// cluster is the members of a system that run.
type cluster struct {
	clusterName string
	addresses   []string
	pids        []int
	kills       []func()
}

func (c *cluster) kill() {
	for _, k := range c.kills {
		k()
	}
}

type gridnode struct{ o options }

func (gridnode) name() string { return "gridnode" }

func (g gridnode) start(context.Context) (*cluster, error) {
	c := &cluster{clusterName: "peers"}
	var seeds []string
	for i := range g.o.members {
		port, log, err := place(g.o.logs, "gridnode", i)
		if err != nil {
			c.kill()
			return nil, err
		}
		p, err := clients.Start(g.o.gridnode, []string{"start"}, clients.Wanted{Cluster: c.clusterName, Port: port, Seeds: seeds}, log)
		_ = log.Close() // the member has its own
		if err != nil {
			c.kill()
			return nil, err
		}
		seeds = append(seeds, p.Address())
		if err := safe(p, i+1); err != nil {
			p.Kill()
			c.kill()
			return nil, err
		}
		c.addresses, c.pids, c.kills = append(c.addresses, p.Address()), append(c.pids, p.PID()), append(c.kills, p.Kill)
	}
	return c, nil
}

// safe waits until every partition has its backups.
func safe(p *clients.Process, members int) error {
	for deadline := time.Now().Add(startWithin); !p.Safe(members); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("no safe cluster of %d members after %v", members, startWithin)
		}
	}
	return nil
}

// place returns a free port and a file for the log of a member.
func place(logs, name string, i int) (int, *os.File, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = ln.Close() }()
	log, err := os.Create(filepath.Join(logs, fmt.Sprintf("%s-%d.log", name, i)))
	return ln.Addr().(*net.TCPAddr).Port, log, err
}

type hazelcast struct {
	o   options
	dir string
}

func (hazelcast) name() string { return "hazelcast" }

// hazelcastConfig is Hazelcast's own defaults but for where members find each other: maps have one synchronous backup and are read at the primary.
const hazelcastConfig = `hazelcast:
  cluster-name: peers
  properties:
    hazelcast.phone.home.enabled: "false"
  network:
    port:
      port: %d
      auto-increment: false
    join:
      auto-detection:
        enabled: false
      multicast:
        enabled: false
      tcp-ip:
        enabled: true
        member-list: [%s]
`

func (h hazelcast) start(ctx context.Context) (*cluster, error) {
	if _, err := os.Stat(h.o.hazelcast); err != nil {
		return nil, err
	}
	c := &cluster{clusterName: "peers"}
	logs := make([]*os.File, h.o.members)
	ports := make([]int, h.o.members)
	for i := range h.o.members {
		var err error
		if ports[i], logs[i], err = place(h.o.logs, "hazelcast", i); err != nil {
			return nil, err
		}
		c.addresses = append(c.addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])))
	}
	for i, port := range ports {
		if err := h.member(c, port, logs[i]); err != nil {
			c.kill()
			return nil, err
		}
		if err := saysMembers(ctx, logs[i].Name(), i+1); err != nil {
			c.kill()
			return nil, err
		}
	}
	return c, nil
}

// saysMembers waits until a member of Hazelcast has logged that the cluster has so many.
func saysMembers(ctx context.Context, log string, n int) error {
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); {
		b, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), fmt.Sprintf("Members {size:%d,", n)) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("no cluster of %d members after %v; see %s", n, startWithin, log)
}

func (h hazelcast) member(c *cluster, port int, log *os.File) error {
	defer func() { _ = log.Close() }()
	config := filepath.Join(h.dir, strconv.Itoa(port)+".yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, hazelcastConfig, port, strings.Join(c.addresses, ", ")), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("java", "-Xms1g", "-Xmx1g", "--add-modules", "java.se", "--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
		"--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
		"--add-opens", "java.management/sun.management=ALL-UNNAMED", "--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED",
		"-Dhazelcast.config="+config, "-cp", h.o.hazelcast, "com.hazelcast.core.server.HazelcastMemberStarter")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.pids = append(c.pids, cmd.Process.Pid)
	c.kills = append(c.kills, func() {
		err := cmd.Process.Kill()
		if errors.Is(err, os.ErrProcessDone) {
			return
		}
		_ = cmd.Wait() // that it was killed is no news
	})
	return nil
}

// ticks is how many of the kernel's ticks are in a second, as Linux shows CPU time to programs.
const ticks = 100

// cpu is the CPU time in seconds that processes have had.
func cpu(pids []int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += float64(n) / ticks
		}
	}
	return sum, nil
}
