package partition

import (
	"cmp"
	"math"
	"slices"
)

// assignment chooses for every partition a number of members out of those that are allowed for it. Choosing a member costs 0 or 1.
//
// [assignment.balance] makes the loads (how often each member is chosen) as even as can be, and among the assignments that are so even
// finds one of the least total cost. It is a minimum-cost flow: replacing one member by another in some partition is an edge between the
// two, and moving load from one member to another is a path. As long as every change follows a path that is cheapest between its ends, no
// cycle of negative cost comes up; and once no path evens the loads, or keeps them and saves cost, none of both can be had at all.
type assignment struct {
	n       int // members
	allowed []bool
	chosen  []bool
	cost    []int8
	sizes   []int
	load    []int // of each member

	// edges[d+1][u*n+v] counts the partitions in which u can be replaced by v at the cost d.
	edges [3][]int
	saves int // number of edges of negative cost

	// worse rates replacing one member by another in a partition, among those that cost the same; lower is better.
	worse func(id, from, to int) int
}

func newAssignment(partitions, members int, worse func(id, from, to int) int) *assignment {
	a := &assignment{
		n:       members,
		allowed: make([]bool, partitions*members),
		chosen:  make([]bool, partitions*members),
		cost:    make([]int8, partitions*members),
		sizes:   make([]int, partitions),
		load:    make([]int, members),
		worse:   worse,
	}
	for i := range a.edges {
		a.edges[i] = make([]int, members*members)
	}
	return a
}

func (a *assignment) has(id, m int) bool { return a.chosen[id*a.n+m] }

// size is the number of members chosen for the partition.
func (a *assignment) size(id int) int { return a.sizes[id] }

// only returns the first member chosen for the partition, or -1.
func (a *assignment) only(id int) int { return slices.Index(a.chosen[id*a.n:(id+1)*a.n], true) }

// allow, choose and discard set the assignment up. What is chosen must be the cheapest for the loads that it makes.
func (a *assignment) allow(id, m int, cost int8) {
	a.allowed[id*a.n+m], a.cost[id*a.n+m] = true, cost
}

func (a *assignment) choose(id, m int) {
	a.chosen[id*a.n+m] = true
	a.sizes[id]++
	a.load[m]++
}

func (a *assignment) discard(id, m int) {
	a.chosen[id*a.n+m] = false
	a.sizes[id]--
	a.load[m]--
}

// price is what replacing from by to costs in the partition, if that can be done.
func (a *assignment) price(id, from, to int) (d int, ok bool) {
	i, j := id*a.n+from, id*a.n+to
	if !a.chosen[i] || a.chosen[j] || !a.allowed[j] {
		return 0, false
	}
	return int(a.cost[j] - a.cost[i]), true
}

// count adds the partition's edges to the counters, or takes them away.
func (a *assignment) count(id, by int) {
	for u := range a.n {
		if !a.chosen[id*a.n+u] {
			continue
		}
		for v := range a.n {
			if d, ok := a.price(id, u, v); ok {
				a.edges[d+1][u*a.n+v] += by
				if d < 0 {
					a.saves += by
				}
			}
		}
	}
}

// replace chooses to instead of from in the partition.
func (a *assignment) replace(id, from, to int) {
	a.count(id, -1)
	a.discard(id, from)
	a.choose(id, to)
	a.count(id, 1)
}

// cheapest returns the least cost of an edge between two members.
func (a *assignment) cheapest(from, to int) (d int, ok bool) {
	for i := range a.edges {
		if a.edges[i][from*a.n+to] > 0 {
			return i - 1, true
		}
	}
	return 0, false
}

// balance evens the loads at the least cost, from what was chosen so far. It may be called once.
func (a *assignment) balance() {
	for id := range a.sizes {
		a.count(id, 1)
	}
	for a.improve() {
	}
}

// improve moves one unit of load along one path, if that makes the loads more even, or leaves them as even and saves cost.
func (a *assignment) improve() bool {
	heaviest := make([]int, a.n)
	for m := range heaviest {
		heaviest[m] = m
	}
	slices.SortStableFunc(heaviest, func(x, y int) int { return cmp.Compare(a.load[y], a.load[x]) })
	least := slices.Min(a.load)
	for _, from := range heaviest {
		if a.load[from]-least < 2 && a.saves == 0 {
			return false
		}
		dist, via := a.paths(from)
		if to := a.end(from, dist); to >= 0 {
			a.shift(via, from, to)
			return true
		}
	}
	return false
}

const unreachable = math.MaxInt

// paths returns the cost of the cheapest path from one member to each other, and on it the member before (Bellman and Ford).
func (a *assignment) paths(from int) (dist, via []int) {
	dist, via = make([]int, a.n), make([]int, a.n)
	for m := range dist {
		dist[m] = unreachable
	}
	dist[from] = 0
	for again, round := true, 0; again && round < a.n; round++ {
		again = false
		for u := range a.n {
			if dist[u] == unreachable {
				continue
			}
			for v := range a.n {
				if d, ok := a.cheapest(u, v); ok && (dist[v] == unreachable || dist[u]+d < dist[v]) {
					dist[v], via[v], again = dist[u]+d, u, true
				}
			}
		}
	}
	return dist, via
}

// end chooses where a path from one member should lead, or -1 if none is worth it: the cheapest, then to the least load.
func (a *assignment) end(from int, dist []int) int {
	best := -1
	for m, d := range dist {
		gap := a.load[from] - a.load[m]
		if d == unreachable || gap < 1 || gap == 1 && d >= 0 {
			continue
		}
		if best < 0 || d < dist[best] || d == dist[best] && a.load[m] < a.load[best] {
			best = m
		}
	}
	return best
}

// shift replaces members along the path, from its end to its beginning, each in the partition where that is best.
func (a *assignment) shift(via []int, from, to int) {
	for to != from {
		u := via[to]
		d, _ := a.cheapest(u, to)
		a.replace(a.place(u, to, d), u, to)
		to = u
	}
}

// place returns the best partition to replace one member by another at that cost. There is one: the counters say so.
func (a *assignment) place(from, to, cost int) int {
	best, rate := -1, 0
	for id := range a.sizes {
		if d, ok := a.price(id, from, to); !ok || d != cost {
			continue
		}
		if r := a.worse(id, from, to); best < 0 || r < rate {
			best, rate = id, r
		}
	}
	return best
}
