package imap

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gridnode/grid"
	"gridnode/imap/query"
)

// gossip are registries that announce to each other; what was announced may come late, more than once or never.
type gossip struct {
	t    *rapid.T
	ids  []grid.MemberID
	regs []*Registry
	sent []letter
}

type letter struct {
	from, to int
	a        announcement
}

func newGossip(t *rapid.T, n int) *gossip {
	g := &gossip{t: t}
	for i := range n {
		g.add(i)
	}
	return g
}

func (g *gossip) add(i int) {
	id := grid.MemberID(fmt.Sprint("m", i))
	g.ids, g.regs = append(g.ids, id), append(g.regs, NewRegistry(id, nil))
	for _, r := range g.regs {
		for _, id := range g.ids {
			if id != r.self && r.told[id] == nil {
				r.told[id] = &told{}
			}
		}
	}
}

func (g *gossip) announce(from, to int) {
	if from != to {
		g.sent = append(g.sent, letter{from, to, *g.regs[from].announcement()})
	}
}

func (g *gossip) deliver(l letter) {
	if err := g.regs[l.to].learn(g.ids[l.from], l.a); err != nil {
		g.t.Fatal(err)
	}
	g.regs[l.from].answered(g.ids[l.to], l.a.Version, nil)
}

func (g *gossip) forget(i int) {
	s := &grid.State{}
	for _, id := range g.ids {
		s.Members = append(s.Members, grid.Member{ID: id})
	}
	g.regs[i].forgetDropped(s)
}

// settle lets all hear from all until nothing is new to anybody.
func (g *gossip) settle() {
	for round := 0; ; round++ {
		if round > 10*len(g.regs) {
			g.t.Fatal("the members tell each other without end")
		}
		news := false
		for from, r := range g.regs {
			for to, id := range g.ids {
				if from != to && r.told[id].known < r.version {
					news = true
					g.deliver(letter{from, to, *r.announcement()})
				}
			}
		}
		if !news {
			return
		}
	}
}

func (g *gossip) keys(i int, name string) (keys []string) {
	if def := g.regs[i].indexes[name]; def != nil {
		for _, cfg := range def.list {
			keys = append(keys, cfg.Key())
		}
	}
	slices.Sort(keys)
	return keys
}

// Whatever comes late or twice, all members have the same indexes in the end; one that all knew to be gone does not come back, one that was added
// after that stays, and nothing is kept of what is gone.
func TestProperty_IndexesOfMembersConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGossip(t, rapid.IntRange(1, 4).Draw(t, "members"))
		some := func(what string) int { return rapid.IntRange(0, len(g.regs)-1).Draw(t, what) }
		name := func() string { return rapid.SampledFrom([]string{"m", "n"}).Draw(t, "map") }
		index := func() IndexConfig {
			return IndexConfig{Type: query.Hash, Attributes: []string{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "attribute")}}
		}
		add := func(i int, name string, cfg IndexConfig) {
			if _, err := g.regs[i].addIndexes(name, []IndexConfig{cfg}); err != nil {
				t.Fatal(err)
			}
		}
		drop := func(i int, name string) {
			if _, err := g.regs[i].dropIndexes(name); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				add(some("who"), name(), index())
			case 2:
				drop(some("who"), name())
			case 3, 4, 5:
				g.announce(some("from"), some("to"))
			case 6:
				if len(g.sent) > 0 { // it may come again
					g.deliver(g.sent[rapid.IntRange(0, len(g.sent)-1).Draw(t, "letter")])
				}
			case 7:
				g.forget(some("who"))
			case 8: // a removal that was waited for
				n := name()
				g.settle()
				drop(some("who"), n)
				g.settle()
				for i := range g.regs {
					if k := g.keys(i, n); len(k) > 0 {
						t.Fatalf("member %d has %v after all know that they are gone", i, k)
					}
				}
				add(some("who"), n, index())
			case 9: // one that was waited for
				n, cfg := name(), index()
				g.settle()
				add(some("who"), n, cfg)
				g.settle()
				for i := range g.regs {
					if !slices.Contains(g.keys(i, n), cfg.Key()) {
						t.Fatalf("member %d does not have %s", i, cfg.Key())
					}
				}
			}
		}
		g.settle()
		want := []string{fmt.Sprint(g.keys(0, "m")), fmt.Sprint(g.keys(0, "n"))}
		for _, l := range g.sent {
			g.deliver(l)
		}
		for i := range g.regs {
			g.forget(i)
		}
		g.settle()
		for i, r := range g.regs {
			g.forget(i)
			if got := []string{fmt.Sprint(g.keys(i, "m")), fmt.Sprint(g.keys(i, "n"))}; !slices.Equal(got, want) || len(r.dropped) > 0 {
				t.Fatalf("member %d has %v, not %v; %d removals are kept", i, got, want, len(r.dropped))
			}
		}
	})
}
