package clients

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binDir is where the program is built, once for all tests.
var binDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if addresses := os.Getenv(holderVar); addresses != "" {
		hold(addresses)
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("4") // tests that are parallel wait for most of their time
	}
	os.Exit(func() int {
		var err error
		if binDir, err = os.MkdirTemp("", "gridnode-clients-"); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(binDir) }()
		return m.Run()
	}())
}

var built = sync.OnceValues(func() (string, error) {
	file := filepath.Join(binDir, "gridnode")
	if out, err := exec.Command("go", "build", "-o", file, "gridnode/cmd/gridnode").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return file, nil
})

// startAt starts a member on a port of 127.0.0.1. It ends with the test.
func startAt(t *testing.T, cluster string, port int, seeds []string, log *os.File, args ...string) *Process {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Start(binary, []string{"start"}, Wanted{Cluster: cluster, Port: port, Seeds: seeds}, log, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	return m
}

// startMembers starts a cluster that ends with the test.
func startMembers(t *testing.T, n int) []*Process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "members.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = log.Close()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the members' log, at its end:\n%s", b[max(0, len(b)-16<<10):])
		}
	})
	var members []*Process
	var seeds []string
	for range n {
		m := startAt(t, "clients", freePort(t), seeds, log)
		members, seeds = append(members, m), append(seeds, m.Address())
	}
	return members
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().(*net.TCPAddr).Port
}
