package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	demoBudget  = 90 * time.Second // for all of it
	demoRun     = 10 * time.Second // that the job takes when nothing happens to it
	demoMembers = 7                // at most
)

var errDemoBudget = fmt.Errorf("the demo is not done after %v", demoBudget)

// demoOptions are the flags of demo.
type demoOptions struct {
	members int
	kill    string
	keep    bool
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Short: "Show a job that survives the death of the master", Args: cobra.NoArgs,
		Long: "Start members as processes of their own, run a job over a file of 3,376 rows, kill -9 the master in the middle,\n" +
			"and compare the output with the input, row by row. It takes about 20 seconds and leaves nothing behind.\n" +
			"The exit code is 0 only if another member became master, the job ended FINISHED, and the output has each row once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.running = true
			if err := o.validate(); err != nil {
				return usage(err)
			}
			return a.demo(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.members, "members", 3, "how many members to start")
	cmd.Flags().StringVar(&o.kill, "kill", "master", "whom to kill: master or none")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the directory with the output and the members' logs")
	return cmd
}

func (o demoOptions) validate() error {
	switch {
	case o.kill != "master" && o.kill != "none":
		return fmt.Errorf("--kill: %q is neither master nor none", o.kill)
	case o.members < 1 || o.members > demoMembers:
		return fmt.Errorf("--members: %d is not from 1 to %d", o.members, demoMembers)
	case o.kill == "master" && o.members < 3:
		return fmt.Errorf("--members: of %d members the master cannot be spared: the others would be no majority; take 3 or more, or --kill none", o.members)
	}
	return nil
}

// demo is one run.
type demo struct {
	demoOptions
	dir      string
	screen   *demoScreen
	children []*demoChild
	client   *client
	names    map[string]string // of members, by id

	job    string // id
	total  int    // rows of the input
	tasks  map[int]demoTask
	killed *demoChild // the master that was
}

// demo runs all of it. Children die with the thread that started them (see childAttributes), so this goroutine keeps its thread.
func (a *app) demo(ctx context.Context, o demoOptions) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE) // that ends the process otherwise, without the clean-up
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, demoBudget, errDemoBudget)
	defer cancel()
	d := &demo{demoOptions: o, screen: newDemoScreen(a.stdout, a.environ), names: map[string]string{}, tasks: map[int]demoTask{}}
	var err error
	if d.dir, err = os.MkdirTemp("", "gridnode-demo-"); err != nil {
		return err
	}
	err = d.run(ctx, a.environ)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	d.screen.clear()
	if err != nil && (ctx.Err() == nil || errors.Is(err, errDemoBudget)) {
		d.showLogs(a)
	}
	return errors.Join(err, d.end())
}

func (d *demo) run(ctx context.Context, environ []string) error {
	if err := d.startMembers(ctx, environ); err != nil {
		return err
	}
	if err := d.submit(ctx); err != nil {
		return err
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	return d.prove()
}

// showLogs prints how the members' logs end, for somebody who has to find out why it failed.
func (d *demo) showLogs(a *app) {
	for _, c := range d.children {
		for _, line := range c.lastLines(5) {
			fmt.Fprintf(a.stderr, "%s: %s\n", c.name, line)
		}
	}
}

// end kills what still runs and removes what is there.
func (d *demo) end() error {
	if d.client != nil {
		d.client.close()
	}
	for _, c := range d.children {
		c.kill()
	}
	if d.keep {
		d.screen.say("members stopped; output and logs are in %s", d.dir)
		return nil
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	d.screen.say("members stopped, %s removed", d.dir)
	return nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// prove compares the output with the input.
func (d *demo) prove() error {
	want, err := demoInput()
	if err != nil {
		return err
	}
	got, files, err := readOutput(d.path("out"), want[0])
	if err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	c := compareRows(want[1:], got)
	d.screen.say("input    %s rows", grouped(c.want))
	d.screen.say("output   %s rows in %s: %d missing, %d doubled, %d foreign", grouped(c.got), plural(files, "file"), c.missing, c.doubled, c.foreign)
	if !c.exact() {
		return errors.New("the output is not the input")
	}
	d.screen.say("proven: each row of the input is in the output exactly once")
	return nil
}
