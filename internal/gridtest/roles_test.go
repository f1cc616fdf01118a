package gridtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/imap"
	"gridnode/node"
)

// roles gives each host roles of its own.
func rolesOption(of map[string][]string) Option {
	return func(cfg *node.Config) {
		if r := of[cfg.Name]; r != nil {
			cfg.Roles = r
		}
	}
}

var witnessOnly = []string{node.RoleWitness}

// at returns the live member of a host.
func (c *Cluster) at(host string) *Member {
	c.t.Helper()
	for _, m := range c.Live() {
		if m.Host == host {
			return m
		}
	}
	c.t.Fatalf("%s does not live", host)
	return nil
}

// fill writes some entries, which all have to be acknowledged, and returns them.
func (c *Cluster) fill(m *Member, n int) *tally {
	c.t.Helper()
	w := &tally{acked: map[string]string{}}
	for i := range n {
		w.set(context.Background(), m.Map("sets"), fmt.Sprintf("k%d", i), fmt.Sprint(i))
	}
	if len(w.acked) != n {
		c.t.Fatalf("%d of %d writes", len(w.acked), n)
	}
	return w
}

// works waits until a member reads and writes, and checks that nothing that was acknowledged is lost.
func (c *Cluster) works(m *Member, w *tally) {
	c.t.Helper()
	c.Await(20*time.Second, m.Host+" to write", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := m.Map("m").Set(ctx, key("after"), imap.String("v"), 0)
		return err == nil
	})
	w.check(c.t, m)
	if n := m.Node.State().Losses; n != 0 {
		c.t.Errorf("%d partitions were lost", n)
	}
}

// stopped checks that a member cannot do anything, for ever as far as it is concerned, and says so.
func (c *Cluster) stopped(m *Member) {
	c.t.Helper()
	time.Sleep(time.Second) // what was acknowledged to it until then was right
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		if _, err := m.Map("m").Get(ctx, key("k")); !errors.Is(err, grid.ErrNoQuorum) {
			c.t.Errorf("%s, without a majority: %v", m.Host, err)
		}
		cancel()
		time.Sleep(20 * time.Second)
	}
}

// TestTwoMembers_WhatEachDeathDoes: one of the two votes, and is master. If the other dies all goes on. If this one dies nothing does, until an
// operator says so; then nothing is lost, for the other has a copy of all.
func TestTwoMembers_WhatEachDeathDoes(t *testing.T) {
	for _, masterDies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(t, 2, few)
			defer c.Stop()
			w := c.fill(c.Live()[0], 50)
			victim := c.Master()
			if !masterDies {
				victim = slices.DeleteFunc(c.Live(), func(m *Member) bool { return m == c.Master() })[0]
			}
			c.Crash(victim)
			left := c.Live()[0]
			if masterDies {
				c.stopped(left)
				if _, err := left.Node.Recover(context.Background(), true); err != nil {
					t.Fatal(err)
				}
			}
			c.works(left, w)
			c.Add() // it finds the survivor if that is m1, m2 or m3
			c.AwaitSafe(2, time.Minute)
			c.works(c.Live()[1], w)
		})
	}
}

// TestTwoMembersAndAWitness_AnyOneDeath: all three vote, so the cluster goes on whoever dies, and nothing is lost. The witness holds nothing.
func TestTwoMembersAndAWitness_AnyOneDeath(t *testing.T) {
	for _, host := range []string{"m1", "m2", "m3"} { // m3 is the witness
		for _, master := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := Start(t, 3, few, rolesOption(map[string][]string{"m3": witnessOnly}))
				defer c.Stop()
				if c.Master().Host == host != master { // make it so
					if !c.moveMaster(host, master) {
						return
					}
				}
				w := c.fill(c.Live()[0], 50)
				id := c.at("m3").ID()
				for _, p := range c.Live()[0].Node.State().Partitions {
					if p.InSync(id) || p.IsJoining(id) {
						t.Fatalf("the witness holds %+v", p)
					}
				}
				c.Crash(c.at(host))
				for _, m := range c.Live() {
					c.works(m, w)
				}
				c.AwaitSafe(2, time.Minute)
			})
		}
	}
}

// moveMaster makes the member at host master, or another one; a witness, too. ok is false if it does not come out so.
func (c *Cluster) moveMaster(host string, to bool) (ok bool) {
	for range 20 {
		old := c.Master()
		if old.Host == host == to {
			c.AwaitSafe(3, time.Minute)
			return true
		}
		c.Net.Isolate(old.Host)
		c.Await(20*time.Second, "another master", func() bool {
			return slices.ContainsFunc(c.Live(), func(m *Member) bool {
				return m != old && m.Node.State().Master != old.ID() && m.Node.State().Master != ""
			})
		})
		c.Net.HealAll()
		c.Await(time.Minute, "three members", func() bool { return c.allSee(3) })
		c.AwaitSafe(3, time.Minute)
	}
	return false
}

// TestWitnessAndDataMemberDie: two of three voters are gone. Nothing goes on by itself; a recovery finds all the data on the one that is left.
func TestWitnessAndDataMemberDie_RecoveryLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, rolesOption(map[string][]string{"m3": witnessOnly}))
		defer c.Stop()
		w := c.fill(c.Live()[0], 50)
		c.Crash(c.at("m3"))
		c.Crash(c.at("m1"))
		c.stopped(c.at("m2"))
		report, err := c.at("m2").Node.Recover(context.Background(), true)
		if err != nil || len(report.Lost)+len(report.Doubtful) > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		c.works(c.at("m2"), w)
	})
}

// TestBothDataMembersDie_OnlyTheWitnessIsLeft: it can recover the cluster, and nothing in it.
func TestBothDataMembersDie_OnlyTheWitnessIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few, rolesOption(map[string][]string{"m3": witnessOnly}))
		defer c.Stop()
		c.fill(c.Live()[0], 50)
		c.Crash(c.at("m1"))
		c.Crash(c.at("m2"))
		c.stopped(c.at("m3"))
		report, err := c.at("m3").Node.Recover(context.Background(), true)
		if err != nil || len(report.Lost) != 17 {
			t.Fatalf("%+v, %v", report, err)
		}
		if v := c.view(c.at("m3")); v.DataMembers != 0 || v.LostPartitions != 17 || v.Safe {
			t.Errorf("%+v", v)
		}
		c.Add()
		c.AwaitSafe(2, time.Minute)
		c.fill(c.at("m3"), 20)
	})
}

// TestRoles_DataAndWorkerApart: replicas are on members with the role data only, tasks on those with the role worker only. The death of a worker
// costs no data, that of a data member no task. Without any worker a job waits, and goes on when there is one.
func TestRoles_DataAndWorkerApart(t *testing.T) {
	of := map[string][]string{"m1": {grid.RoleData}, "m2": {grid.RoleData}, "m3": {grid.RoleWorker}, "m4": {grid.RoleWorker}, "m5": witnessOnly, "m6": {grid.RoleWorker}}
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 5, few, shortCleanup, rolesOption(of), func(cfg *node.Config) { cfg.Join = append(cfg.Join, "m5:5701") })
		defer c.Stop()
		w := c.fill(c.at("m5"), 50) // any member is a door, a witness too
		s := c.Live()[0].Node.State()
		for i, p := range s.Partitions {
			for _, id := range append(slices.Clone(p.Replicas), p.Joining...) {
				if m, _ := s.Member(id); !m.Has(grid.RoleData) {
					t.Errorf("partition %d is on %s", i, m.Name)
				}
			}
		}
		dir := t.TempDir()
		id := submit(t, c.at("m5"), sequenceJob(dir, 4, 200, 20))
		on := func() (hosts []string) {
			v, _ := look(c.Live()[0], id)
			for _, task := range v.Tasks {
				if m, ok := c.Live()[0].Node.State().Member(grid.MemberID(task.Member)); ok && task.Status == engine.TaskRunning {
					hosts = append(hosts, m.Name)
				}
			}
			return hosts
		}
		c.Await(20*time.Second, "four tasks", func() bool { return len(on()) == 4 })
		for _, h := range on() {
			if h != "m3" && h != "m4" {
				t.Errorf("a task runs on %s", h)
			}
		}
		c.Crash(c.at("m1"))
		c.works(c.at("m4"), w)
		c.AwaitSafe(4, time.Minute)
		if v, _ := look(c.Live()[0], id); v.Restarts != 0 || len(on()) != 4 {
			t.Errorf("the death of a data member cost a task: %d restarts, tasks on %v", v.Restarts, on())
		}
		c.Crash(c.at("m3"))
		c.Await(20*time.Second, "all tasks on m4", func() bool {
			h := on()
			return len(h) == 4 && !slices.ContainsFunc(h, func(x string) bool { return x != "m4" })
		})
		c.works(c.at("m5"), w)
		c.AwaitSafe(3, time.Minute)
		c.Crash(c.at("m4")) // the last worker
		c.works(c.at("m5"), w)
		time.Sleep(5 * time.Second)
		if v, ok := look(c.at("m2"), id); !ok || v.Status.Final() {
			t.Errorf("without a worker the job is %v", v.Status)
		}
		c.begin("m6")
		if end := c.awaitEnd(id, 3*time.Minute); end != engine.JobFinished {
			t.Errorf("the job ended %s", end)
		}
		exact(t, dir, 800)
	})
}

// TestZone_DiesAsAWhole: with two zones each partition has a replica in both. A third zone with a witness keeps the majority when either of them
// dies; without it a recovery is needed if the zone with the majority died. Nothing is lost either way.
func TestZone_DiesAsAWhole(t *testing.T) {
	for _, third := range []bool{true, false} {
		for _, dies := range []string{"east", "west"} {
			synctest.Test(t, func(t *testing.T) {
				zone := map[string]string{"m1": "east", "m2": "west", "m3": "east", "m4": "west", "m5": "third"}
				n := 4
				if third {
					n = 5
				}
				c := Start(t, n, few, rolesOption(map[string][]string{"m5": witnessOnly}), func(cfg *node.Config) {
					cfg.Attributes = map[string]string{"zone": zone[cfg.Name]}
					cfg.Join = append(cfg.Join, "m4:5701")
				})
				defer c.Stop()
				w := c.fill(c.Live()[0], 50)
				s := c.Live()[0].Node.State()
				for i, p := range s.Partitions {
					seen := map[string]bool{}
					for _, id := range p.Replicas {
						m, _ := s.Member(id)
						seen[m.Attributes["zone"]] = true
					}
					if !seen["east"] || !seen["west"] {
						t.Errorf("partition %d is in %v only", i, seen)
					}
				}
				for _, m := range c.Live() {
					if zone[m.Host] == dies {
						c.Crash(m)
					}
				}
				m := c.Live()[0]
				time.Sleep(10 * time.Second)
				if _, err := m.Map("m").Get(context.Background(), key("k")); third && err != nil {
					t.Errorf("%s died, and there is a third zone: %v", dies, err)
				} else if errors.Is(err, grid.ErrNoQuorum) {
					report, err := m.Node.Recover(context.Background(), true)
					if err != nil || len(report.Lost)+len(report.Doubtful) > 0 {
						t.Fatalf("%+v, %v", report, err)
					}
				} else if err != nil {
					t.Errorf("%s died: %v", dies, err)
				}
				c.works(m, w)
			})
		}
	}
}
