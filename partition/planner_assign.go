package partition

import "math"

// assignment chooses members for partitions, a given number for each. Of all choices it finds one that is the best in this order:
//
//  1. the loads (how often each member is chosen) are as even as can be;
//  2. the fewest pairs of members of one partition share a zone;
//  3. the cost, 0 or 1 for each member chosen, is the least.
//
// It is a minimum-cost flow, solved by successive shortest paths: each new choice may push choices made before to other members, along the
// cheapest path from the partition to the member that ends up with more load. That never leaves a cycle of changes with a gain, so at the
// end no better choice exists. (Ahuja, Magnanti, Orlin: "Network Flows", 1993, sections 9.7 and 14.5: both the load of a member and the
// crowd of a zone in a partition have a convex cost.)
//
// The network is folded onto the members: an edge from u to v says that v can take u's place in some partition.
type assignment struct {
	n     int   // members
	zone  []int // the zone of each
	zones int
	rank  []int // decides between choices that are equally good, for each partition and member; lower is better

	// For each partition and member:
	allowed []bool
	chosen  []bool
	cost    []int8

	crowd []int // for each partition and zone: members chosen
	load  []int // for each member: how often it is chosen

	kinds  []int // price of each kind of edge, growing
	spread int   // the most that one replacement adds to the pairs that share a zone
	edges  []int // for each two members and kind: in how many partitions the edge is there
	lowest []int // for each two members: the cheapest kind that is there, or len(kinds)

	dist, via []int // of paths
}

// hop is one edge of a path: to takes from's place in the partition.
type hop struct{ id, from, to int }

// newAssignment makes an assignment of up to size members for each partition. Nobody is allowed anywhere yet.
func newAssignment(partitions, size int, zone, rank []int) *assignment {
	n := len(zone)
	a := &assignment{
		n: n, zone: zone, rank: rank, spread: size - 1,
		allowed: make([]bool, partitions*n), chosen: make([]bool, partitions*n), cost: make([]int8, partitions*n),
		load: make([]int, n), dist: make([]int, n), via: make([]int, n),
	}
	for _, z := range zone {
		a.zones = max(a.zones, z+1)
	}
	a.crowd = make([]int, partitions*a.zones)
	for pairs := -a.spread; pairs <= a.spread; pairs++ {
		for cost := -1; cost <= 1; cost++ {
			a.kinds = append(a.kinds, a.price(pairs, cost))
		}
	}
	a.edges = make([]int, n*n*len(a.kinds))
	a.lowest = make([]int, n*n)
	for i := range a.lowest {
		a.lowest[i] = len(a.kinds)
	}
	return a
}

// price joins what one edge costs into one number: pairs before cost, and that before the number of edges. A path has less than n+1 edges.
// Among paths of one cost the one with the fewest edges never uses a partition twice, so the costs of its edges do not affect each other.
func (a *assignment) price(pairs, cost int) int {
	return (pairs*(2*a.n+3)+cost)*(a.n+2) + 1
}

func (a *assignment) allow(id, m int, cost int8) {
	a.allowed[id*a.n+m], a.cost[id*a.n+m] = true, cost
}

func (a *assignment) has(id, m int) bool { return a.chosen[id*a.n+m] }

// first returns the first member chosen for the partition, or -1.
func (a *assignment) first(id int) int {
	for m := range a.n {
		if a.has(id, m) {
			return m
		}
	}
	return -1
}

// add chooses one more member for the partition; ok is false if no more are allowed.
func (a *assignment) add(id int) (ok bool) {
	a.paths(id)
	to := a.lightest(id)
	if to < 0 {
		return false
	}
	var path []hop
	for a.via[to] >= 0 {
		from := a.via[to]
		path = append(path, hop{a.place(from, to), from, to})
		to = from
	}
	a.set(id, to, true)
	for _, h := range path {
		a.replace(h)
	}
	return true
}

const unreachable = math.MaxInt / 2

// paths finds the cheapest path from the partition to each member (Bellman and Ford): its price in dist, and in via the member before it,
// or -1 if the partition itself is before it.
func (a *assignment) paths(id int) {
	for m := range a.n {
		a.dist[m], a.via[m] = unreachable, -1
		if i := id*a.n + m; a.allowed[i] && !a.chosen[i] {
			a.dist[m] = a.price(a.crowd[id*a.zones+a.zone[m]], int(a.cost[i]))
		}
	}
	for again := true; again; {
		again = false
		for u, du := range a.dist {
			if du == unreachable {
				continue
			}
			for v, kind := range a.lowest[u*a.n : (u+1)*a.n] {
				if kind < len(a.kinds) && du+a.kinds[kind] < a.dist[v] {
					a.dist[v], a.via[v], again = du+a.kinds[kind], u, true
				}
			}
		}
	}
}

// lightest returns the member at which the best path ends: of the least load, then the cheapest to get to, then the one preferred.
func (a *assignment) lightest(id int) int {
	best := -1
	for m, d := range a.dist {
		if d == unreachable {
			continue
		}
		if best < 0 || a.load[m] < a.load[best] || a.load[m] == a.load[best] &&
			(d < a.dist[best] || d == a.dist[best] && a.rank[id*a.n+m] < a.rank[id*a.n+best]) {
			best = m
		}
	}
	return best
}

// place returns the partition in which to replace one member by another at the lowest price: where the ring prefers it most.
func (a *assignment) place(from, to int) int {
	kind := a.lowest[from*a.n+to]
	best, rate := -1, 0
	for i := 0; i < len(a.chosen); i += a.n {
		id := i / a.n
		if !a.chosen[i+from] || a.chosen[i+to] || !a.allowed[i+to] || a.kind(id, from, to) != kind {
			continue
		}
		if r := a.rank[i+to] - a.rank[i+from]; best < 0 || r < rate {
			best, rate = id, r
		}
	}
	return best
}

// kind is the kind of the edge between two members in the partition, of which the first is chosen and the second is not.
func (a *assignment) kind(id, from, to int) int {
	pairs := 0
	if a.zone[from] != a.zone[to] {
		pairs = a.crowd[id*a.zones+a.zone[to]] - a.crowd[id*a.zones+a.zone[from]] + 1
	}
	return (pairs+a.spread)*3 + int(a.cost[id*a.n+to]-a.cost[id*a.n+from]) + 1
}

func (a *assignment) replace(h hop) {
	a.set(h.id, h.from, false)
	a.set(h.id, h.to, true)
}

// set chooses the member for the partition, or undoes that.
func (a *assignment) set(id, m int, chosen bool) {
	by := 1
	if !chosen {
		by = -1
	}
	a.count(id, -1)
	a.chosen[id*a.n+m] = chosen
	a.crowd[id*a.zones+a.zone[m]] += by
	a.load[m] += by
	a.count(id, 1)
}

// count adds the partition's edges to the network, or takes them away.
func (a *assignment) count(id, by int) {
	row := a.chosen[id*a.n : (id+1)*a.n]
	for from, chosen := range row {
		if !chosen {
			continue
		}
		for to, taken := range row {
			if !taken && a.allowed[id*a.n+to] {
				a.countEdge(from*a.n+to, a.kind(id, from, to), by)
			}
		}
	}
}

func (a *assignment) countEdge(pair, kind, by int) {
	counts := a.edges[pair*len(a.kinds) : (pair+1)*len(a.kinds)]
	counts[kind] += by
	switch low := a.lowest[pair]; {
	case by > 0 && kind < low:
		a.lowest[pair] = kind
	case by < 0 && kind == low:
		for low < len(counts) && counts[low] == 0 {
			low++
		}
		a.lowest[pair] = low
	}
}
