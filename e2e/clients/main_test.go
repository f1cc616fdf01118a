package clients

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// start is the command that starts a member.
var start = []string{"start"}

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

// buildMember returns the program.
func buildMember(t *testing.T) string {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
