package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	hz "github.com/hazelcast/hazelcast-go-client"
	hzcluster "github.com/hazelcast/hazelcast-go-client/cluster"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"
	"golang.org/x/sync/errgroup"
)

const (
	connectWithin = 10 * time.Second
	warmUp        = time.Second // before each cell
	fillers       = 64
)

// kinds of load: how many of ten operations are gets; the others set.
var kinds = []struct {
	name string
	gets int
}{{"get", 10}, {"set", 0}, {"80/20", 8}}

func connect(ctx context.Context, c *cluster) (*hz.Client, error) {
	cfg := hz.Config{}
	cfg.Cluster.Name = c.clusterName
	cfg.Cluster.Network.SetAddresses(c.addresses...)
	cfg.Cluster.ConnectionStrategy.Timeout = types.Duration(connectWithin)
	cfg.Cluster.ConnectionStrategy.ReconnectMode = hzcluster.ReconnectModeOff
	cfg.Logger.Level = logger.OffLevel
	return hz.StartNewClientWithConfig(ctx, cfg)
}

// load is what a cell's callers do.
type load struct {
	m      *hz.Map
	value  []byte
	keys   int
	gets   int
	after  time.Time // what ends before is warm-up
	before time.Time
}

// measure starts a system, fills a map and measures every cell.
func measure(ctx context.Context, s system, o options) (cells []cell, err error) {
	c, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	client, err := connect(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Shutdown(context.Background()) }()
	m, err := client.GetMap(ctx, "peers")
	if err != nil {
		return nil, err
	}
	l := load{m: m, value: make([]byte, o.value), keys: o.keys}
	if err := l.fill(ctx); err != nil {
		return nil, fmt.Errorf("fill: %w", err)
	}
	l.gets = 5
	if _, err := l.cell(ctx, slices.Max(o.callers), o.warm, c.pids); err != nil { // Java compiles while it runs
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	for _, kind := range kinds {
		for _, callers := range o.callers {
			l.gets = kind.gets
			out, err := l.cell(ctx, callers, o.window, c.pids)
			if err != nil {
				return nil, fmt.Errorf("%s by %d: %w", kind.name, callers, err)
			}
			out.system, out.load, out.callers = s.name(), kind.name, callers
			cells = append(cells, out)
		}
	}
	return cells, nil
}

func (l load) fill(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range fillers {
		g.Go(func() error {
			for k := i; k < l.keys; k += fillers {
				if err := l.m.Set(ctx, key(k), l.value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func key(k int) string { return fmt.Sprintf("k%015d", k) }

// cell lets so many callers work, each on one operation at a time.
func (l load) cell(ctx context.Context, callers int, window time.Duration, pids []int) (c cell, err error) {
	l.after = time.Now().Add(warmUp)
	l.before = l.after.Add(window)
	g, ctx := errgroup.WithContext(ctx)
	samples := make([][]time.Duration, callers)
	for i := range callers {
		g.Go(func() (err error) {
			samples[i], err = l.work(ctx)
			return err
		})
	}
	var used [2][2]float64 // by the members and by this process, at both ends of the window
	g.Go(func() error {
		for i, at := range []time.Time{l.after, l.before} {
			select {
			case <-time.After(time.Until(at)):
			case <-ctx.Done():
				return ctx.Err()
			}
			for j, who := range [][]int{pids, {os.Getpid()}} {
				if used[i][j], err = cpu(who); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return c, err
	}
	all := slices.Concat(samples...)
	slices.Sort(all)
	millions := float64(len(all)) / 1e6
	c.perSecond = float64(len(all)) / window.Seconds()
	c.p50, c.p99, c.p999 = rank(all, 0.5), rank(all, 0.99), rank(all, 0.999)
	c.serverCPU, c.clientCPU = (used[1][0]-used[0][0])/millions, (used[1][1]-used[0][1])/millions
	return c, nil
}

// work makes calls until the window is over, and returns how long those took that ended within it.
func (l load) work(ctx context.Context) (samples []time.Duration, err error) {
	for {
		began, k := time.Now(), key(rand.IntN(l.keys))
		if rand.IntN(10) < l.gets {
			var v any
			if v, err = l.m.Get(ctx, k); err == nil && v == nil {
				err = fmt.Errorf("%s is not there", k)
			}
		} else {
			err = l.m.Set(ctx, k, l.value)
		}
		if err != nil {
			return nil, err
		}
		switch now := time.Now(); {
		case now.After(l.before):
			return samples, nil
		case now.After(l.after):
			samples = append(samples, now.Sub(began))
		}
	}
}
