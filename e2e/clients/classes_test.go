package clients

import (
	"strings"
	"testing"
)

// Classes of a client that members have: comparators of pages, and entry processors, also on maps that have a store.
func TestClasses(t *testing.T) {
	t.Parallel()
	binary, store := program(t, "gridnode/e2e/clients/member"), t.TempDir()
	var members []*Process
	var seeds []string
	for range 2 {
		m, err := Start(binary, nil, Wanted{Cluster: "classes", Port: freePort(t), Seeds: seeds}, nil, "--stored", "stored", "--store", store)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Kill)
		members, seeds = append(members, m), append(seeds, m.Address())
	}
	for _, l := range languages {
		if l.name != "python" {
			continue
		}
		cmd := l.program(t, l.packages(t), "python/classes.py")
		cmd.Args = append(cmd.Args, "classes", addresses(members))
		out, err := output(t, cmd)
		if err != nil || !strings.HasSuffix(out, "all ok\n") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
