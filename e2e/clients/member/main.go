// Command member is a member as a program of one's own would have it: with entry processors, interceptors and a map store of its own. They are
// those that the test suite of Hazelcast's Go client expects of the members that it is run against, where they are classes of Java.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"gridnode/grid/transport"
	"gridnode/imap"
	"gridnode/node"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("member", flag.ContinueOnError)
	cfg := node.DefaultConfig()
	f.StringVar(&cfg.ClusterName, "cluster", cfg.ClusterName, "name of the cluster")
	f.StringVar(&cfg.Bind, "bind", cfg.Bind, "host:port for members and clients")
	f.StringVar(&cfg.HTTP, "http", cfg.HTTP, "host:port for REST")
	join := f.String("join", "", "host:port of members to join")
	stored := f.String("stored", "", "maps that have a store, by name")
	store := f.String("store", "", "directory of the store")
	if err := f.Parse(args); err != nil {
		return err
	}
	cfg.GridPortAuto, cfg.HTTPPortAuto, cfg.Discover = false, false, false
	if *join != "" {
		cfg.Join = strings.Split(*join, ",")
	}
	if *stored != "" {
		dir, err := filepath.Abs(*store)
		if err != nil {
			return err
		}
		cfg.Loaders = imap.Loaders{}
		for name := range strings.SplitSeq(*stored, ",") {
			cfg.Loaders[name] = dirStore(dir)
		}
	}
	cfg.Processors, cfg.Interceptors, cfg.Comparators = processors, interceptors, comparators
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d := &doors{Network: transport.TCP()}
	d.crashOn()
	cfg.Network = d
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return n.Run(ctx)
}
