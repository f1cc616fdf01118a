package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// demoChild is a member in a process of its own.
type demoChild struct {
	name   string
	log    string // file
	cmd    *exec.Cmd
	banner *demoBanner
	ended  chan struct{} // closed when the process is gone
}

// demoBanner reads what gridnode start prints once it is ready.
type demoBanner struct {
	mu    sync.Mutex // guards what follows
	text  strings.Builder
	said  bool
	ready chan struct{} // closed when all is there
}

// Write implements [io.Writer].
func (b *demoBanner) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said {
		return len(p), nil
	}
	b.text.Write(p)
	if text := b.text.String(); strings.HasSuffix(text, "\n") && strings.Contains(text, "\n  next ") {
		b.said = true
		close(b.ready)
	}
	return len(p), nil
}

// value returns the word behind a word of the banner.
func (b *demoBanner) value(word string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == word {
			return fields[1]
		}
	}
	return ""
}

// startChild starts a member that prints its log to a file. Settings of the demo's own environment do not reach it.
func (d *demo) startChild(environ []string, name string, args ...string) (*demoChild, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &demoChild{name: name, log: d.path(name + ".log"), banner: &demoBanner{ready: make(chan struct{})}, ended: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	c.cmd = exec.Command(self, append([]string{"start", "--name", name, "--bind", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = d.dir, c.banner, log, childAttributes()
	c.cmd.Env = slices.DeleteFunc(slices.Clone(environ), func(v string) bool { return strings.HasPrefix(v, envPrefix) })
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	d.children = append(d.children, c)
	go func() { // ends with the process, which demo.end kills
		defer close(c.ended)
		_ = c.cmd.Wait() // that it was killed is no news
	}()
	return c, nil
}

func (c *demoChild) pid() int { return c.cmd.Process.Pid }

// kill is kill -9; it returns when the process is gone.
func (c *demoChild) kill() {
	_ = c.cmd.Process.Kill() // or it has ended already
	<-c.ended
}

func (c *demoChild) awaitReady(ctx context.Context) error {
	select {
	case <-c.banner.ready:
		return nil
	case <-c.ended:
		return fmt.Errorf("member %s ended before it was ready", c.name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *demoChild) lastLines(n int) []string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// startMembers starts the first member, then the others, which join it, and waits until they are a cluster in which each partition has its
// backup. The name of the cluster is nobody else's, so no other member on this machine is touched.
func (d *demo) startMembers(ctx context.Context, environ []string) error {
	d.screen.say("%s, each a process of its own, in %s", plural(d.members, "member"), d.dir)
	cluster := "demo-" + uuid.NewString()[:8]
	first, err := d.startChild(environ, "n1", "--cluster", cluster, "--join=") // it looks for nobody
	if err != nil {
		return err
	}
	if err := first.awaitReady(ctx); err != nil {
		return err
	}
	for i := 2; i <= d.members; i++ {
		if _, err := d.startChild(environ, fmt.Sprintf("n%d", i), "--cluster", cluster, "--join", first.banner.value("members")); err != nil {
			return err
		}
	}
	for _, c := range d.children {
		if err := c.awaitReady(ctx); err != nil {
			return err
		}
	}
	if err := d.reach(nil); err != nil {
		return err
	}
	return d.awaitSafe(ctx)
}

// reach makes the client ask all members but one.
func (d *demo) reach(except *demoChild) error {
	var endpoints []string
	for _, c := range d.children {
		if c != except {
			endpoints = append(endpoints, c.banner.value("http"))
		}
	}
	if d.client != nil {
		d.client.close()
	}
	var err error
	d.client, err = newClient(endpoints, nil, time.Second)
	return err
}

// demoCluster is the answer to GET /api/v1/cluster.
type demoCluster struct {
	clusterInfo
	Size       int
	Master     string // id
	MasterName string
	Term       uint64
}

func (d *demo) awaitSafe(ctx context.Context) error {
	for {
		var c demoCluster
		if _, err := d.client.get(ctx, "/api/v1/cluster", &c); err == nil && c.Size == d.members && c.MasterName != "" && (c.Safe || d.members == 1) {
			d.showMembers(c)
			return d.learnNames(ctx)
		}
		if err := d.alive(); err != nil {
			return err
		}
		if err := pause(ctx, demoPoll); err != nil {
			return err
		}
	}
}

func (d *demo) showMembers(c demoCluster) {
	for _, m := range d.children {
		role := "member"
		if m.name == c.MasterName {
			role = fmt.Sprintf("master, term %d", c.Term)
		}
		d.screen.say("  %s  pid %-7d  %-23s  %s", m.name, m.pid(), m.banner.value("http"), role)
	}
	d.screen.say("%s", c.line())
}

// learnNames asks which member has which id: tasks name their members by that.
func (d *demo) learnNames(ctx context.Context) error {
	var list struct {
		Members []struct{ ID, Name string }
	}
	if _, err := d.client.get(ctx, "/api/v1/members", &list); err != nil {
		return err
	}
	for _, m := range list.Members {
		d.names[m.ID] = m.Name
	}
	return nil
}

// alive returns an error if a member has ended that was not to.
func (d *demo) alive() error {
	for _, c := range d.children {
		select {
		case <-c.ended:
			if c != d.killed {
				return errors.New("member " + c.name + " ended by itself")
			}
		default:
		}
	}
	return nil
}
