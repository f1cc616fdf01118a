package gridtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/engine"
	"gridnode/grid"
	"gridnode/node"
)

// separated makes m1 and m2 masters, and all others workers: m3 with two slots, the others with one.
func separated(cfg *node.Config) {
	cfg.Roles = []string{node.RoleMaster}
	if cfg.Name != "m1" && cfg.Name != "m2" {
		cfg.Roles = []string{grid.RoleWorker}
	}
	cfg.Attributes = map[string]string{"zone": "z-" + cfg.Name, "group": "basic"}
	cfg.Engine.DynamicSlot, cfg.Engine.SlotNum = false, 1
	if cfg.Name == "m3" {
		cfg.Engine.SlotNum = 2
	}
}

// awaitStatus waits until a member shows the job in a state.
func (c *Cluster) awaitStatus(id string, want engine.JobStatus, limit time.Duration) engine.JobView {
	c.t.Helper()
	var v engine.JobView
	c.Await(limit, fmt.Sprintf("job %s is %s", id, want), func() bool {
		var ok bool
		v, ok = look(c.Live()[0], id)
		if ok && v.Status.Final() && v.Status != want {
			c.t.Fatalf("job %s is %s (%s), want %s", id, v.Status, v.ErrorMsg, want)
		}
		return ok && v.Status == want
	})
	return v
}

func (c *Cluster) slots() (total, free int) {
	c.t.Helper()
	var o engine.Overview
	c.Await(10*time.Second, "an overview", func() bool {
		var err error
		o, err = c.Live()[0].Jobs().Overview(context.Background())
		return err == nil
	})
	return o.TotalSlots, o.FreeSlots
}

// C014, in the shape in which it was reported: masters without slots, workers with a fixed number of them, each with its own. The death of the
// master neither frees nor loses slots, and a job with a tag gets a worker as soon as one has it.
// It is Z18 of the engine's zetaRows.
func TestJob_MastersAndWorkersApart_SlotsAndTags(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 4, few, shortCleanup, separated)
		defer c.Stop()
		ctx := context.Background()
		submit := func(id, env string, tasks int) error {
			config := strings.Replace(string(sequenceJob(dir+"/"+id, tasks, 100000, 20)), `"env":{`, `"env":{`+env, 1)
			_, err := c.Live()[0].Jobs().Submit(ctx, engine.SubmitRequest{JobID: id, Config: []byte(config)})
			return err
		}
		if err := submit("1", "", 4); !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "3 slots in all") {
			t.Fatalf("submit of a job with four tasks = %v", err)
		}
		if err := submit("2", "", 3); err != nil {
			t.Fatal(err)
		}
		v := c.awaitStatus("2", engine.JobRunning, 10*time.Second)
		load := map[string]int{}
		for _, task := range v.Tasks {
			m, _ := c.Live()[0].Node.State().Member(grid.MemberID(task.Member))
			load[m.Name]++
		}
		if load["m3"] != 2 || load["m4"] != 1 {
			t.Errorf("load = %v", load)
		}
		if err := submit("3", `"tag_filter":{"group":"platform"},`, 1); err != nil {
			t.Fatal(err)
		}
		if v := c.awaitStatus("3", engine.JobPending, 10*time.Second); !strings.Contains(v.PendingFor, "no worker has the tags group=platform") {
			t.Errorf("job 3 waits for %q", v.PendingFor)
		}

		old := c.Master()
		c.Crash(old)
		c.Await(10*time.Second, "a new master", func() bool { return c.Master() != nil && c.Master() != old })
		if v := c.awaitStatus("2", engine.JobRunning, 30*time.Second); v.Restarts != 0 {
			t.Errorf("job 2 was started again: %d restarts", v.Restarts)
		}
		if total, free := c.slots(); total != 3 || free != 0 {
			t.Errorf("%d of %d slots are free while job 2 holds all", free, total)
		}
		m4 := c.Live()[len(c.Live())-1]
		if err := m4.Node.SetTags(ctx, map[string]string{"group": "platform", "zone": "elsewhere"}); grid.KindOf(err) != grid.Definite {
			t.Errorf("a member changed its zone: %v", err)
		}
		if err := m4.Node.SetTags(ctx, map[string]string{"group": "platform"}); err != nil {
			t.Fatal(err)
		}
		c.Await(10*time.Second, "the queue knows the tag", func() bool {
			v, ok := look(c.Live()[0], "3")
			return ok && strings.Contains(v.PendingFor, "workers with the tags group=platform have 1 slots, 0 free")
		})
		if m, _ := c.Live()[0].Node.State().Member(m4.ID()); m.Attributes["zone"] != "z-m4" {
			t.Errorf("attributes = %v", m.Attributes)
		}
		if err := c.Live()[0].Jobs().Stop(ctx, engine.StopRequest{JobID: "2"}); err != nil {
			t.Fatal(err)
		}
		c.awaitStatus("2", engine.JobCanceled, 10*time.Second)
		v = c.awaitStatus("3", engine.JobRunning, 10*time.Second)
		if v.Tasks[0].Member != string(m4.ID()) {
			t.Errorf("job 3 runs on %s", v.Tasks[0].Member)
		}
		if total, free := c.slots(); total != 3 || free != 2 {
			t.Errorf("%d of %d slots are free", free, total)
		}
		if err := c.Live()[0].Jobs().Stop(ctx, engine.StopRequest{JobID: "3"}); err != nil {
			t.Fatal(err)
		}
		c.awaitStatus("3", engine.JobCanceled, 10*time.Second)
		c.engineMapsEmpty(time.Minute)
	})
}
