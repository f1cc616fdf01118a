package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	anyPort   = "127.0.0.1:0"
	safeLimit = 60 * time.Second // to be safe again, with little data
	maxProbes = 8                // keys that are written to measure one failure, each in a partition of its own
)

// run is one measurement.
type run struct {
	options
	out   io.Writer
	began time.Time
	rng   *rand.Rand
	fleet fleet
	load  *load
	bulk  *bulk         // entries to copy; nil if there are none
	keys  map[int]*slot // a key for each partition, which only probes write
	lost  int
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%7.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// begin starts a cluster with load on it.
func (r *run) begin(ctx context.Context) error {
	if err := r.fleet.prepare(ctx, r.options); err != nil {
		return err
	}
	r.load = newLoad(r.options)
	for i := range r.members {
		if _, err := r.fleet.start(ctx, fmt.Sprintf("n%d", i+1), anyPort, anyPort); err != nil {
			return err
		}
	}
	if _, err := r.awaitSafe(ctx, time.Now(), safeLimit); err != nil {
		return err
	}
	r.load.targets.only(r.fleet.members)
	if err := r.learnKeys(ctx); err != nil {
		return err
	}
	if r.callers > 0 {
		if err := r.startJob(ctx); err != nil {
			return err
		}
	}
	r.load.run(ctx, r.options.load)
	r.say("%d members are safe, %d clients write, %d tasks and %d processes compute", r.members, r.options.load, r.callers, r.spinners)
	return nil
}

// learnKeys finds a key for each partition.
func (r *run) learnKeys(ctx context.Context) error {
	var v struct{ Partitions int }
	if err := r.load.client.get(ctx, r.fleet.members[0], "/api/v1/cluster", &v); err != nil {
		return err
	}
	r.keys = map[int]*slot{}
	for i := 0; len(r.keys) < v.Partitions; i++ {
		s := &slot{key: fmt.Sprintf("p%d", i)}
		if i > 40*v.Partitions || !r.load.write(ctx, s, i) {
			return fmt.Errorf("after %d keys, %d of %d partitions have one: %s", i, len(r.keys), v.Partitions, strings.Join(r.load.tally.texts, "; "))
		}
		if r.keys[s.partition] == nil {
			r.keys[s.partition] = s
		}
	}
	return nil
}

// startJob starts tasks that make rows as fast as they can and drop them, longer than any run lasts.
func (r *run) startJob(ctx context.Context) error {
	job := fmt.Sprintf(`{"env":{"job.name":"compute","job.mode":"BATCH","parallelism":%d,"job.retry.times":1000000,"job.retry.interval.seconds":1},
"source":[{"plugin_name":"FakeSource","mode":"sequence","row.num":1000000000000,"schema":{"fields":{"id":"bigint","text":"string"}}}],
"sink":[{"plugin_name":"Assert","rules":{"row_rules":[{"rule_type":"MIN_ROW","rule_value":0}]}}]}`, r.callers)
	a, err := r.load.client.do(ctx, http.MethodPost, r.fleet.members[0].http+"/submit-job", job)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("submit: %d %s", a.status, a.body)
	}
	return err
}

// perform runs the mode and returns the first words of the result.
func (r *run) perform(ctx context.Context) (string, error) {
	switch r.mode {
	case modeKill:
		return r.rounds(ctx, r.kills, r.killOne)
	case modeStop:
		return r.rounds(ctx, r.stops, r.stopOne)
	case modeRolling:
		return r.rolling(ctx)
	case modeJoin:
		return r.join(ctx)
	default:
		return r.resafe(ctx)
	}
}

// awaitSafe waits until all members see one safe cluster of all of them, and returns how long that took since the start. That each has its share
// is looked at, too: safe is to say so.
func (r *run) awaitSafe(ctx context.Context, start time.Time, limit time.Duration) (time.Duration, error) {
	last := ""
	for {
		if err := r.fleet.alive(); err != nil {
			return 0, err
		}
		if last = r.unsafe(ctx); last == "" {
			return time.Since(start), nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if time.Since(start) > limit {
			return 0, fmt.Errorf("%w: the cluster is not safe after %v: %s", errProduct, limit, last)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// unsafe says what is missing.
func (r *run) unsafe(ctx context.Context) string {
	master := ""
	for _, m := range r.fleet.members {
		var v clusterView
		if err := r.load.client.get(ctx, m, "/api/v1/cluster", &v); err != nil {
			return err.Error()
		}
		if v.Size != len(r.fleet.members) || !v.Safe || v.Moves > 0 || v.LostPartitions > 0 || v.MasterName == "" || master != "" && v.MasterName != master {
			return fmt.Sprintf("%s sees %+v", m.name, v)
		}
		master = v.MasterName
		if uneven := r.uneven(ctx, m); uneven != "" {
			return uneven
		}
	}
	return ""
}

// uneven says which member has less than its share of partitions, as primary or as backup.
func (r *run) uneven(ctx context.Context, through *member) string {
	var v struct {
		Members []struct {
			Name                    string
			Owned, Backups, Joining int
		}
	}
	if err := r.load.client.get(ctx, through, "/api/v1/members", &v); err != nil {
		return err.Error()
	}
	owned, backups := 0, 0
	for _, m := range v.Members {
		owned, backups = owned+m.Owned, backups+m.Backups
	}
	for _, m := range v.Members {
		if m.Owned < owned/len(v.Members)-1 || m.Backups < backups/len(v.Members)-1 || m.Joining > 0 {
			return fmt.Sprintf("%s sees %+v of %d and %d", through.name, m, owned, backups)
		}
	}
	return ""
}

func (r *run) isMaster(ctx context.Context, m *member) bool {
	var v clusterView
	return r.load.client.get(ctx, m, "/api/v1/cluster", &v) == nil && v.MasterName == m.name
}

// verify ends the load and reads every key through every member.
func (r *run) verify(ctx context.Context) error {
	r.load.finish()
	if _, err := r.awaitSafe(ctx, time.Now(), safeLimit); err != nil {
		return err
	}
	keys := r.load.ledger.all()
	var lost atomic.Int64
	err := each(ctx, len(keys), func(i int) error {
		floor := r.load.ledger.floor(keys[i])
		if slices.ContainsFunc(r.fleet.members, func(m *member) bool { return !r.readable(ctx, m, keys[i], floor) }) {
			lost.Add(1)
		}
		return nil
	})
	r.lost = int(lost.Load())
	if r.bulk != nil {
		r.lost += r.bulk.missing(ctx, r.fleet.members)
	}
	r.say("%d keys read through each of %d members", len(keys), len(r.fleet.members))
	return err
}

// readable reports whether a key reads as it must; a member may be busy for a while.
func (r *run) readable(ctx context.Context, m *member, key string, floor int) bool {
	var wrong error
	err := poll(ctx, 10*time.Second, "an answer", func() bool {
		a, err := r.load.client.do(ctx, http.MethodGet, m.http+mapPath+key, "")
		if err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout {
			return false
		}
		wrong = r.load.judge(key, floor, a)
		return true
	})
	if err = errors.Join(err, wrong); err != nil && ctx.Err() == nil {
		r.load.tally.fault("at the end, through %s: %s: %v", m.name, key, err)
	}
	return err == nil
}

// conclude prints the result; its error says that the result is bad.
func (r *run) conclude(result string) error {
	t := &r.load.tally
	requests, p99, longest := t.latency.Load().summary(0.99)
	r.say("%d writes acknowledged, %d reads right; %d refused (503), %d unknown (504), %d unanswered, %d wrong",
		t.acknowledged.Load(), t.read.Load(), t.refused.Load(), t.unknown.Load(), t.unanswered.Load(), t.faults)
	r.say("%d requests, p99 %s, longest %s", requests, seconds(p99), seconds(longest))
	for _, s := range t.slowest {
		r.say("slow: %s %s through %s, sent after %.1fs, took %s", s.method, s.key, s.member, s.start.Sub(r.began).Seconds(), seconds(s.took))
	}
	for _, text := range t.texts {
		r.say("! %s", text)
	}
	errs := t.errors()
	if r.mode == modeRolling {
		fmt.Fprintf(r.out, "rolling errors=%d %s lost=%d\n", errs, result, r.lost)
	} else {
		fmt.Fprintf(r.out, "%s lost=%d errors=%d\n", result, r.lost, errs)
	}
	if r.lost > 0 || t.faults > 0 || t.unanswered.Load() > 0 || r.mode == modeRolling && errs > 0 {
		return fmt.Errorf("%w: lost %d, wrong %d, unanswered %d", errProduct, r.lost, t.faults, t.unanswered.Load())
	}
	return nil
}

// end leaves nothing behind.
func (r *run) end() error {
	err := r.fleet.end()
	if r.load != nil {
		r.load.client.http.CloseIdleConnections()
	}
	return err
}
