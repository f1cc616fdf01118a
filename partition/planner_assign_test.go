package partition

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The assignment is exact: none is more even, of those none has fewer pairs in one zone, of those none costs less.
func TestAssignment_IsOptimal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		partitions, members := rapid.IntRange(1, 4).Draw(rt, "partitions"), rapid.IntRange(2, 4).Draw(rt, "members")
		size := rapid.IntRange(1, min(3, members)).Draw(rt, "size")
		zone := rapid.SliceOfN(rapid.IntRange(0, 2), members, members).Draw(rt, "zones")
		a := newAssignment(partitions, size, zone, make([]int, partitions*members))
		for id := range partitions {
			for m := range members {
				if rapid.IntRange(0, 4).Draw(rt, "allowed") > 0 {
					a.allow(id, m, int8(rapid.IntRange(0, 1).Draw(rt, "cost")))
				}
			}
		}
		sizes := make([]int, partitions)
		for id := range partitions {
			for sizes[id] < size && a.add(id) {
				sizes[id]++
			}
		}
		sets := make([]uint, partitions)
		for i, chosen := range a.chosen {
			if chosen {
				sets[i/members] |= 1 << (i % members)
			}
		}
		got, best := worth(a, sets), [3]int{1 << 30}
		eachAssignment(a, sizes, nil, func(sets []uint) {
			if x := worth(a, sets); slices.Compare(x[:], best[:]) < 0 {
				best = x
			}
		})
		if got != best {
			t.Fatalf("(unevenness, pairs, cost) is %v, but %v can be had", got, best)
		}
	})
}

// eachAssignment calls visit with every choice of as many members as sizes says.
func eachAssignment(a *assignment, sizes []int, sets []uint, visit func([]uint)) {
	id := len(sets)
	if id == len(sizes) {
		visit(sets)
		return
	}
	for set := range uint(1) << a.n {
		ok := bits.OnesCount(set) == sizes[id]
		for m := range a.n {
			ok = ok && (set&(1<<m) == 0 || a.allowed[id*a.n+m])
		}
		if ok {
			eachAssignment(a, sizes, append(sets, set), visit)
		}
	}
}

// worth rates an assignment by its unevenness, the pairs that share a zone, and its cost.
func worth(a *assignment, sets []uint) (w [3]int) {
	load := make([]int, a.n)
	for id, set := range sets {
		for m := range a.n {
			if set&(1<<m) == 0 {
				continue
			}
			load[m]++
			w[2] += int(a.cost[id*a.n+m])
			for other := range m {
				if set&(1<<other) != 0 && a.zone[other] == a.zone[m] {
					w[1]++
				}
			}
		}
	}
	for _, l := range load {
		w[0] += l * l
	}
	return w
}
