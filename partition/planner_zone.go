package partition

import "gridnode/grid"

// zoneAttribute is the member attribute that names what fails together.
const zoneAttribute = "zone"

// zones knows the zones of the members, and spreads an assignment over them.
type zones struct {
	of     []int // the zone of each member; a member that names none has one of its own
	count  int
	chosen *assignment
}

func newZones(members []grid.Member, chosen *assignment) *zones {
	z := &zones{of: make([]int, len(members)), chosen: chosen}
	known := make(map[string]int)
	for i, m := range members {
		name := m.Attributes[zoneAttribute]
		number, ok := known[name]
		if !ok || name == "" {
			number = z.count
			known[name] = number
			z.count++
		}
		z.of[i] = number
	}
	return z
}

// mates is how many other members in the zone of member m have the partition.
func (z *zones) mates(id, m int) int {
	if z.count == len(z.of) {
		return 0
	}
	n := 0
	for other, zone := range z.of {
		if zone == z.of[m] && other != m && z.chosen.has(id, other) {
			n++
		}
	}
	return n
}

// delta is how many more pairs of the partition's members share a zone if to takes the place of from.
func (z *zones) delta(id, from, to int) int {
	if z.count == len(z.of) {
		return 0
	}
	if z.of[from] == z.of[to] {
		return 0
	}
	return z.mates(id, to) - z.mates(id, from)
}

// spread exchanges members between partitions as long as that leaves fewer pairs in one zone. Loads stay as even as they are.
func (z *zones) spread() {
	if z.count == len(z.of) || z.count == 1 {
		return
	}
	for id := range z.chosen.sizes {
		for z.spreadOne(id) {
		}
	}
}

// exchange replaces from by to in one partition, and to by from in another (-1: in none).
type exchange struct{ from, to, other, cost, delta int }

func (z *zones) spreadOne(id int) bool {
	best := exchange{from: -1}
	for from := range z.of {
		if !z.chosen.has(id, from) || z.mates(id, from) == 0 {
			continue
		}
		for to := range z.of {
			d, ok := z.chosen.price(id, from, to)
			if !ok || z.delta(id, from, to) >= 0 {
				continue
			}
			x, ok := z.exchange(id, from, to)
			x.cost += d
			if ok && (best.from < 0 || x.cost < best.cost || x.cost == best.cost && x.delta < best.delta) {
				best = x
			}
		}
	}
	if best.from < 0 {
		return false
	}
	z.chosen.replace(id, best.from, best.to)
	if best.other >= 0 {
		z.chosen.replace(best.other, best.to, best.from)
	}
	return true
}

// exchange looks for the other half of an exchange: none is needed if the loads stay as even without it.
func (z *zones) exchange(id, from, to int) (x exchange, ok bool) {
	first := z.delta(id, from, to)
	if z.chosen.load[from] > z.chosen.load[to] {
		return exchange{from, to, -1, 0, first}, true
	}
	x = exchange{from: from, to: to}
	for other := range z.chosen.sizes {
		d, can := z.chosen.price(other, to, from)
		if !can || other == id {
			continue
		}
		if delta := first + z.delta(other, to, from); delta < 0 && (!ok || d < x.cost || d == x.cost && delta < x.delta) {
			x.other, x.cost, x.delta, ok = other, d, delta, true
		}
	}
	return x, ok
}
