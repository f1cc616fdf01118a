package gridtest

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain keeps the process small: clusters come and go faster than the collector would look for them by itself.
func TestMain(m *testing.M) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(m.Run())
}
