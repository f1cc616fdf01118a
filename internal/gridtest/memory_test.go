package gridtest

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the collector run less often: what lives is little, and most of what a cluster makes is garbage soon. The limit keeps the process
// small all the same.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1 << 30)
	}
	os.Exit(m.Run())
}
