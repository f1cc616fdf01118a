package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// cell is one system under one load in one round.
type cell struct {
	round          int
	system, load   string
	callers        int
	perSecond      float64
	p50, p99, p999 time.Duration
	serverCPU      float64 // seconds for a million operations
	clientCPU      float64
}

func (c cell) String() string {
	return fmt.Sprintf("round %d  %-9s  %-5s  c=%-4d %7.1fk/s  p50 %5d  p99 %6d  p99.9 %6d us  CPU %5.1f servers, %5.1f client s/Mop",
		c.round+1, c.system, c.load, c.callers, c.perSecond/1000, c.p50.Microseconds(), c.p99.Microseconds(), c.p999.Microseconds(), c.serverCPU, c.clientCPU)
}

// rank is the value at or below which the share q of the sorted samples is; 0 if there are none.
func rank(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// table is the cells of all rounds.
type table struct{ cells []cell }

func (t *table) add(c cell) { t.cells = append(t.cells, c) }

// ratios compares one system with each other, round by round.
func (t *table) ratios(ours string) string {
	type key struct {
		peer, load string
		callers    int
	}
	var order []key
	rates, tails, costs := map[key][]float64{}, map[key][]float64{}, map[key][]float64{}
	for _, c := range t.cells {
		for _, p := range t.cells {
			if c.system != ours || p.system == ours || p.round != c.round || p.load != c.load || p.callers != c.callers {
				continue
			}
			k := key{p.system, c.load, c.callers}
			if rates[k] == nil {
				order = append(order, k)
			}
			rates[k] = append(rates[k], c.perSecond/p.perSecond)
			tails[k] = append(tails[k], float64(c.p99)/float64(p.p99))
			costs[k] = append(costs[k], c.serverCPU/p.serverCPU)
		}
	}
	var b strings.Builder
	for _, k := range order {
		fmt.Fprintf(&b, "%s / %-9s  %-5s  c=%-4d operations %s   p99 %s   members' CPU per operation %s\n",
			ours, k.peer, k.load, k.callers, spread(rates[k]), spread(tails[k]), spread(costs[k]))
	}
	return b.String()
}

// spread is the median with the lowest and the highest.
func spread(ratios []float64) string {
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f (%.2f-%.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}
