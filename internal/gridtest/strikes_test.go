package gridtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gridnode/grid"
	"gridnode/internal/memnet"
)

// do makes a step and returns what ends it.
func (n *nemesis) do(ctx context.Context, s step) (end func()) {
	net := n.c.Net
	if s.act == join {
		m := n.c.Add()
		n.note("%s joins", m.Host)
		n.f.fault("join")
		n.employ(ctx, m)
		return nil
	}
	m, backup := n.find(s.who)
	if n.last = m; m == nil {
		n.note("nobody to %s: no %s", s.act, s.who)
		return nil
	}
	n.f.fault(string(s.act))
	n.note("%s %s (%s; backup %s, master %s)", s.act, m.Host, s.who, hostOf(backup), hostOf(n.c.Master()))
	others := n.others(m)
	switch s.act {
	case crash, crashIfSpare:
		if s.act == crashIfSpare && !n.spare(m) {
			n.note("%s is not spare", m.Host)
			return nil
		}
		n.stops[m]()
		n.c.Crash(m)
		return func() {
			fresh := n.c.Restart(m)
			n.note("%s starts again", m.Host)
			n.employ(ctx, fresh)
		}
	case leave:
		if err := n.c.Leave(m); err != nil {
			n.f.violate("%s did not leave in good order: %v", m.Host, err)
		}
		n.stops[m]()
		n.note("%s has left", m.Host)
		return nil
	case pause:
		net.Pause(m.Host)
		return n.ended(m, func() { net.Resume(m.Host) })
	}
	n.disturb(s, m, backup, others)
	return n.ended(m, func() {
		for _, o := range others {
			net.Heal(m.Host, o)
		}
	})
}

func (n *nemesis) ended(m *Member, end func()) func() {
	return func() {
		n.note("%s is sound again", m.Host)
		end()
	}
}

// disturb makes links of a member faulty.
func (n *nemesis) disturb(s step, m, backup *Member, others []string) {
	net := n.c.Net
	switch s.act {
	case isolate:
		net.Isolate(m.Host)
	case deaf:
		for _, o := range others {
			net.CutOneWay(o, m.Host)
		}
	case mute:
		for _, o := range others {
			net.CutOneWay(m.Host, o)
		}
	case bridge:
		net.Split(append(slices.DeleteFunc(slices.Clone(others), func(o string) bool { return o == hostOf(backup) }), m.Host), others)
	case oneWay:
		net.CutOneWay(m.Host, hostOf(backup))
	case slowIn:
		if master := n.c.Master(); master != nil && master != m {
			net.SetFault(master.Host, m.Host, memnet.Fault{Delay: s.delay})
		}
	case slowPair:
		net.SetFault(m.Host, hostOf(backup), memnet.Fault{Delay: s.delay})
	case slowNew:
		next := fmt.Sprintf("m%d", len(n.c.members)+1)
		for _, o := range append(others, m.Host) {
			net.SetFault(o, next, memnet.Fault{Delay: s.delay})
		}
	case tableLag:
		for _, o := range others {
			net.SetFault(o, m.Host, memnet.Fault{Hold: true, Only: "GR1"})
		}
	default:
		panic("no such action: " + string(s.act))
	}
}

func hostOf(m *Member) string {
	if m == nil {
		return "nobody"
	}
	return m.Host
}

// others are the hosts of the live members but one.
func (n *nemesis) others(m *Member) (out []string) {
	for _, o := range n.c.Live() {
		if o != m {
			out = append(out, o.Host)
		}
	}
	return out
}

// find returns the member in a role, and the backup of the partition that it was found by.
func (n *nemesis) find(who role) (m, backup *Member) {
	primary, backup := n.replicasOf(n.focused())
	master := n.c.Master()
	switch who {
	case thePrimary:
		return primary, backup
	case theBackup:
		return backup, primary
	case theMaster:
		return master, backup
	case theSame:
		return n.last, backup
	case theOutsider:
		for i := range 64 {
			k := fmt.Sprintf("r%d", i)
			if p, b := n.replicasOf(k); p != nil && b != nil && p != master && b != master {
				n.refocus(k)
				return p, b
			}
		}
		return nil, nil
	}
	live := n.c.Live()
	return live[n.rnd.IntN(len(live))], backup
}

// spare waits until no partition has a member as its only in-sync replica, and no two members are left, of whom one has the only vote. It reports
// whether it came to that.
func (n *nemesis) spare(m *Member) bool {
	id := m.ID()
	for range 100 {
		s := m.Node.State()
		if len(s.Members) > 2 && !slices.ContainsFunc(s.Partitions, func(p grid.Partition) bool { return p.InSync(id) && len(p.Replicas) < 2 }) {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// replicasOf returns the live primary of a key and its first live backup, as the first live member that knows knows them.
func (n *nemesis) replicasOf(name string) (primary, backup *Member) {
	for _, m := range n.c.Live() {
		s := m.Node.State()
		p, ok := m.Node.Maps().Partition(key(name))
		if s == nil || !ok || len(s.Partitions) == 0 || len(s.Partitions[p].Replicas) == 0 {
			continue
		}
		for _, o := range n.c.Live() {
			switch {
			case o.ID() == s.Partitions[p].Replicas[0]:
				primary = o
			case s.Partitions[p].InSync(o.ID()) && backup == nil:
				backup = o
			}
		}
		if primary != nil {
			return primary, backup
		}
		backup = nil
	}
	return nil, nil
}
