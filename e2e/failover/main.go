package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	mode             string
	kills, stops     int
	members, entries int
	load, callers    int
	spinners         int
	pause, limit     time.Duration
	seed             uint64
	binary, logs     string
	logLevel         string
}

const (
	modeKill    = "kill"
	modeStop    = "stop"
	modeRolling = "rolling"
	modeJoin    = "join"
	modeResafe  = "resafe"
)

// errProduct is the kind of error that is a fault of gridnode, as far as this program can tell.
var errProduct = errors.New("gridnode did not keep a promise")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	os.Exit(program(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// program is the whole program; it returns the exit code: 1 for a promise that was not kept, 2 for wrong flags, 3 if it could not measure.
func program(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "failover:", err)
		return 2
	}
	switch err := measure(ctx, o, stdout, stderr); {
	case err == nil:
		return 0
	case errors.Is(err, errProduct):
		fmt.Fprintln(stderr, "failover:", err)
		return 1
	default:
		fmt.Fprintln(stderr, "failover:", err)
		return 3
	}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("failover", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.mode, "mode", "", "what to do: kill (kill -9), stop (SIGSTOP), rolling (replace all by SIGTERM), join, resafe (default kill, or stop with -stops)")
	f.IntVar(&o.kills, "kills", 10, "how many members to kill, one after the other")
	f.IntVar(&o.stops, "stops", 10, "how many members to stop, one after the other")
	f.IntVar(&o.members, "members", 3, "members of the cluster")
	f.IntVar(&o.load, "load", 8, "clients that write all the time, each one request after the other")
	f.IntVar(&o.callers, "callers", 0, "tasks inside the members that compute all the time")
	f.IntVar(&o.spinners, "spinners", 0, "processes beside the members that compute all the time")
	f.IntVar(&o.entries, "entries", 100_000, "entries of 100 bytes that join and resafe have to copy")
	f.DurationVar(&o.pause, "pause", 3*time.Second, "how long a member is stopped at least: half of it to all of it, and until its partitions take writes")
	f.DurationVar(&o.limit, "limit", 0, "give up after that time (default: as long as it may reasonably take)")
	f.Uint64Var(&o.seed, "seed", 0, "repeats the choices of an earlier run (default: a new seed)")
	f.StringVar(&o.binary, "binary", "", "gridnode to run (default: built from this source)")
	f.StringVar(&o.logs, "logs", "", "directory to leave the members' logs in (default: they are removed)")
	f.StringVar(&o.logLevel, "log-level", "info", "of the members")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: there are flags only", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.complete(given)
	return o, o.validate(given)
}

// complete fills in what follows from other flags.
func (o *options) complete(given map[string]bool) {
	if o.mode == "" {
		if o.mode = modeKill; given["stops"] {
			o.mode = modeStop
		}
	}
	if !given["seed"] {
		o.seed = rand.Uint64N(1 << 32)
	}
	if o.limit == 0 {
		o.limit = 2 * time.Minute
		switch o.mode {
		case modeKill:
			o.limit += time.Duration(o.kills) * 15 * time.Second
		case modeStop:
			o.limit += time.Duration(o.stops) * (25*time.Second + o.pause)
		case modeRolling:
			o.limit += time.Duration(o.members) * time.Minute
		default:
			o.limit += time.Duration(o.entries) * time.Millisecond
		}
	}
}

func (o *options) validate(given map[string]bool) error {
	if given["stops"] && o.mode != modeStop || given["kills"] && o.mode != modeKill {
		return fmt.Errorf("-kills goes with -mode kill, -stops with -mode stop; -mode is %q", o.mode)
	}
	switch o.mode {
	case modeKill, modeStop, modeRolling, modeJoin, modeResafe:
	default:
		return fmt.Errorf("-mode: %q is none of kill, stop, rolling, join, resafe", o.mode)
	}
	for _, n := range []struct {
		flag     string
		v        int
		low, top int
	}{
		{"kills", o.kills, 1, 10_000}, {"stops", o.stops, 1, 10_000}, {"members", o.members, 3, 9}, {"load", o.load, 1, 256},
		{"callers", o.callers, 0, 256}, {"spinners", o.spinners, 0, 256}, {"entries", o.entries, 1, 1_000_000},
	} {
		if n.v < n.low || n.v > n.top {
			return fmt.Errorf("-%s: %d is not from %d to %d", n.flag, n.v, n.low, n.top)
		}
	}
	if o.pause < 100*time.Millisecond || o.pause > time.Minute {
		return fmt.Errorf("-pause: %v is not from 100ms to 1m", o.pause)
	}
	return nil
}

// measure runs one mode. Children die with the thread that started them (see childAttributes), so it keeps its thread.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("not done within -limit %v", o.limit))
	defer cancel()
	r := &run{options: o, out: stdout, began: time.Now(), rng: rand.New(rand.NewPCG(o.seed, 0))}
	r.say("repeat with: -mode %s -members %d -load %d -callers %d -spinners %d -seed %d", o.mode, o.members, o.load, o.callers, o.spinners, o.seed)
	defer func() {
		if err != nil && ctx.Err() == nil {
			r.fleet.showLogs(stderr)
		}
		err = errors.Join(err, r.end())
	}()
	if err := r.begin(ctx); err != nil {
		return cause(ctx, err)
	}
	result, err := r.perform(ctx)
	if err == nil {
		err = r.verify(ctx)
	}
	if err != nil {
		return cause(ctx, err)
	}
	return r.conclude(result)
}

// cause is err, or why the context has ended if it has.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
