package main

import (
	"strings"
	"testing"
	"time"
)

func TestRatios(t *testing.T) {
	table := &table{}
	for round, ours := range []float64{20, 30, 10} {
		table.add(cell{round: round, system: "gridnode", load: "get", callers: 16, perSecond: ours, p99: 3 * time.Millisecond, serverCPU: 1})
		table.add(cell{round: round, system: "other", load: "get", callers: 16, perSecond: 10, p99: 6 * time.Millisecond, serverCPU: 4})
		table.add(cell{round: round, system: "other", load: "set", callers: 16, perSecond: 1, p99: 1, serverCPU: 1}) // we have no such cell
	}
	got := table.ratios("gridnode")
	for _, want := range []string{"gridnode / other", "operations 2.00 (1.00-3.00)", "p99 0.50 (0.50-0.50)", "CPU per operation 0.25 (0.25-0.25)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Count(got, "\n") != 1 {
		t.Errorf("not one line: %q", got)
	}
}

func TestRank(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for i := range sorted {
		sorted[i] = time.Duration(i)
	}
	if a, b, c, none := rank(sorted, 0.5), rank(sorted, 0.99), rank(sorted, 1), rank(nil, 0.5); a != 50 || b != 99 || c != 99 || none != 0 {
		t.Errorf("%d %d %d %d", a, b, c, none)
	}
}

func TestParse(t *testing.T) {
	for flag, says := range map[string]string{
		"-callers=0": `"0"`, "-callers=16,x": `"x"`, "-members=10": "-members", "-rounds=0": "-rounds", "-window=1ms": "-window", "-value=0": "-value", "-keys=0": "-keys",
		"-warm=-1s": "-warm",
	} {
		if _, err := parse([]string{flag}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if o, err := parse([]string{"-callers=1,64"}); err != nil || len(o.callers) != 2 || o.callers[1] != 64 {
		t.Errorf("%v, %v", o, err)
	}
}

// A short run, of gridnode alone, ends well.
func TestRun(t *testing.T) {
	o, err := parse([]string{"-members=2", "-rounds=1", "-window=200ms", "-warm=0s", "-callers=4", "-keys=100"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}
