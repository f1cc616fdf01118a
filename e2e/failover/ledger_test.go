package main

import (
	"strings"
	"testing"
)

func TestLedger_Reads(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(*ledger) // before the read begins
		after func(*ledger) // before the read ends
		reads int
		want  string // part of the complaint; empty: the read is right
	}{
		{name: "never written", reads: 0},
		{name: "a value from nowhere", reads: 1, want: "which nobody wrote"},
		{name: "acknowledged", write: acknowledge(1), reads: 1},
		{name: "acknowledged and absent", write: acknowledge(1), reads: 0, want: "absent, although 1"},
		{name: "an older value", write: acknowledge(2), reads: 1, want: "reads 1, although 2"},
		{name: "a later value than was sent", write: acknowledge(2), reads: 3, want: "which nobody wrote"},
		{name: "unknown and not written", write: unknown(1), reads: 0},
		{name: "unknown and written", write: unknown(1), reads: 1},
		{name: "unknown after an acknowledged one", write: steps(acknowledge(1), unknown(1)), reads: 2},
		{name: "unknown, overtaken by an acknowledged one", write: steps(unknown(1), acknowledge(1)), reads: 1, want: "reads 1, although 2"},
		{name: "refused and not written", write: steps(acknowledge(1), refused), reads: 1},
		{name: "refused and written", write: steps(acknowledge(1), refused), reads: 2, want: "was refused"},
		{name: "acknowledged while it is read, before", write: acknowledge(1), after: acknowledge(2), reads: 1},
		{name: "acknowledged while it is read, between", write: acknowledge(1), after: acknowledge(2), reads: 2},
		{name: "acknowledged while it is read, after", write: acknowledge(1), after: acknowledge(2), reads: 3},
		{name: "refused while it is read", write: acknowledge(1), after: refused, reads: 2, want: "was refused"},
		{name: "an unknown one was read before", write: steps(unknown(1), read(1)), reads: 0, want: "absent, although 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			if test.write != nil {
				test.write(l)
			}
			floor := l.floor("k")
			if test.after != nil {
				test.after(l)
			}
			switch err := l.check("k", floor, test.reads); {
			case err == nil && test.want != "":
				t.Errorf("read %d passes, want a complaint with %q", test.reads, test.want)
			case err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)):
				t.Errorf("read %d: %v, want %q", test.reads, err, test.want)
			}
		})
	}
}

func acknowledge(times int) func(*ledger) {
	return func(l *ledger) {
		for range times {
			l.acknowledged("k", l.begin("k"))
		}
	}
}

func unknown(times int) func(*ledger) {
	return func(l *ledger) {
		for range times {
			l.begin("k")
		}
	}
}

func refused(l *ledger) { l.refuse("k", l.begin("k")) }

func read(n int) func(*ledger) {
	return func(l *ledger) { _ = l.check("k", l.floor("k"), n) }
}

func steps(all ...func(*ledger)) func(*ledger) {
	return func(l *ledger) {
		for _, s := range all {
			s(l)
		}
	}
}

// A cluster that refuses for hours must not fill the memory.
func TestLedger_RefusedAreBounded(t *testing.T) {
	l := newLedger()
	for range 10 * maxRefused {
		refused(l)
	}
	if n := len(l.keys["k"].refused); n != maxRefused {
		t.Errorf("%d refused writes are remembered, want %d", n, maxRefused)
	}
	if err := l.check("k", 0, l.keys["k"].tried); err == nil {
		t.Error("the last refused write passes")
	}
	l.acknowledged("k", l.begin("k"))
	if n := len(l.keys["k"].refused); n != 0 {
		t.Errorf("%d refused writes are remembered after an acknowledged one", n)
	}
}

func TestValues(t *testing.T) {
	if n, err := numberIn("k", valueOf("k", 7)); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "k", "k ", "k x", "k 0", "k -1", "k2 7", "7"} {
		if n, err := numberIn("k", bad); err == nil {
			t.Errorf("%q is read as %d", bad, n)
		}
	}
}
