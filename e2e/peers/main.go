// Peers measures gridnode beside Hazelcast itself: the same official Go client, unmodified, the same load, three members each with one backup.
//
//	mvn dependency:copy -Dartifact=com.hazelcast:hazelcast:5.5.0 -DoutputDirectory=.
//	go run ./e2e/peers -hazelcast hazelcast-5.5.0.jar
//
// The rounds alternate between the systems, each freshly started, so that what else the machine does hits both; before it is measured a system works
// for long enough for Java to have compiled what it needs. For each cell it prints the operations per second, the latencies in microseconds, and the
// CPU time of the members and of this process in seconds per million operations; then the ratios, each the median of the rounds' with the lowest and
// the highest. On one machine the client takes up to half of the CPU, so CPU time tells more of a system than operations per second do. An operation
// that fails ends the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// options are what a run is about.
type options struct {
	hazelcast string // jar of Hazelcast
	gridnode  string // binary
	members   int
	rounds    int
	window    time.Duration
	warm      time.Duration
	callers   []int
	value     int // bytes
	keys      int
	logs      string
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.StringVar(&o.hazelcast, "hazelcast", "", "jar of Hazelcast, such as hazelcast-5.5.0.jar; without it gridnode is measured alone")
	f.StringVar(&o.gridnode, "gridnode", "", "gridnode binary; by default it is built")
	f.IntVar(&o.members, "members", 3, "members of each system")
	f.IntVar(&o.rounds, "rounds", 3, "rounds, in each of which every system is started once")
	f.DurationVar(&o.window, "window", 5*time.Second, "how long a cell is measured")
	f.DurationVar(&o.warm, "warm", 15*time.Second, "how long a system works before it is measured")
	f.IntVar(&o.value, "value", 100, "bytes of a value")
	f.IntVar(&o.keys, "keys", 100_000, "entries")
	f.StringVar(&o.logs, "logs", "", "directory for the members' logs, which stays")
	callers := f.String("callers", "16,64,256", "numbers of callers at once, each a cell for each kind of load")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 4096 {
			return o, fmt.Errorf("-callers: %q is not a number from 1 to 4096", text)
		}
		o.callers = append(o.callers, n)
	}
	for name, ok := range map[string]bool{
		"-members: 1 to 9": o.members >= 1 && o.members <= 9, "-rounds: at least 1": o.rounds >= 1, "-window: at least 100ms": o.window >= 100*time.Millisecond,
		"-warm: not negative":  o.warm >= 0,
		"-value: 1 to 1048576": o.value >= 1 && o.value <= 1<<20, "-keys: 1 to 10000000": o.keys >= 1 && o.keys <= 10_000_000,
	} {
		if !ok {
			return o, errors.New(name)
		}
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "gridnode-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.logs == "" {
		o.logs = dir
	} else if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return err
	}
	if o.gridnode == "" {
		o.gridnode = filepath.Join(dir, "gridnode")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.gridnode, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	systems := []system{gridnode{o}}
	if o.hazelcast != "" {
		systems = append(systems, hazelcast{o, dir})
	}
	table := &table{}
	for round := range o.rounds {
		for _, s := range systems {
			cells, err := measure(ctx, s, o)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			for _, c := range cells {
				c.round = round
				table.add(c)
				fmt.Println(c)
			}
		}
	}
	fmt.Print(table.ratios(systems[0].name()))
	return nil
}
