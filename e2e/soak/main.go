// Package main is the soak test: real members, random jobs, and members that are killed, stopped and replaced at random instants, while a checker asks
// every member all along and reads what the jobs put out. The last line is a summary; the exit code is 1 if anything happened that must not.
//
//	go run ./e2e/soak -jobs 300 -faults 200 -seed 7 -minutes 10
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var cfg config
	flag.IntVar(&cfg.jobs, "jobs", 100, "jobs that are submitted; one more comes with each point at which a member is killed")
	flag.IntVar(&cfg.faults, "faults", 50, "faults that happen to members")
	flag.Uint64Var(&cfg.seed, "seed", uint64(time.Now().UnixNano()), "what everything that is random follows from")
	minutes := flag.Float64("minutes", 5, "how long jobs and faults go on; what is under way then has three minutes to end")
	flag.IntVar(&cfg.members, "members", 5, "members of the cluster; from 5 on two may die at once")
	flag.IntVar(&cfg.slots, "slots", 0, "slots of each member, for which jobs wait; by default each member has as many as are asked for")
	flag.BoolVar(&cfg.files, "files", false, "keep checkpoints in a directory, besides the grid")
	flag.StringVar(&cfg.keep, "keep", "", "directory for logs and output, which stays; by default a temporary one that goes if all is well")
	flag.Parse()
	cfg.span = time.Duration(*minutes * float64(time.Minute))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bad, err := soak(ctx, cfg, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || bad > 0 {
		stop()
		os.Exit(1)
	}
}
