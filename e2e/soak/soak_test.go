package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"
)

// A short run with jobs of every kind on real members, of which some are killed, also at named points, ends without a violation, and says so in its last line.
// It is Z16 of the engine's zetaRows.
func TestShortSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some 20 seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	bad, err := soak(ctx, config{jobs: 12, faults: 4, members: 3, seed: 1610, span: 5 * time.Second, files: true, keep: t.TempDir()}, &out)
	t.Logf("%s", out.String())
	if err != nil || bad > 0 {
		t.Fatalf("%d violations, %v", bad, err)
	}
	all := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	want := regexp.MustCompile(`^soak seed=1610 jobs=1\d finished=[1-9]\d? failed=[1-9] canceled=[1-9] saved=[1-9] resumed=[1-9] polls=\d+ again=0 masked=0 tombstones=0 orphans=0 lost=0 doubled=0 wrong=0 unanswered=0 faults=\d kills=\d+ points=\d stops=\d+ rolling=\d+ seconds=\d+$`)
	if last := all[len(all)-1]; !want.Match(last) {
		t.Errorf("last line: %s", last)
	}
}
