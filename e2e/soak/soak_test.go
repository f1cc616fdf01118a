package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"
)

// A short run with real members, of which the master and another one are killed and a master stands still, ends without a violation, and says so in its
// last line.
func TestShortSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some 20 seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	bad, err := soak(ctx, config{jobs: 10, faults: 3, members: 3, seed: 720, span: 5 * time.Second, keep: t.TempDir()}, &out)
	t.Logf("%s", out.String())
	if err != nil || bad > 0 {
		t.Fatalf("%d violations, %v", bad, err)
	}
	all := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	want := regexp.MustCompile(`^soak seed=720 jobs=10 finished=[1-9] failed=3 canceled=[1-9] polls=\d+ again=0 masked=0 tombstones=0 orphans=0 lost=0 doubled=0 wrong=0 unanswered=0 faults=3 kills=\d+ stops=\d+ rolling=\d+ seconds=\d+$`)
	if last := all[len(all)-1]; !want.Match(last) {
		t.Errorf("last line: %s", last)
	}
}
