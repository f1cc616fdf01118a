package rest

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// SystemInfo is how a member's process and machine are. It travels between members.
type SystemInfo struct {
	Processors                int
	PhysicalTotal             uint64 // bytes, 0 when not known; of swap too
	PhysicalFree              uint64
	SwapTotal                 uint64
	SwapFree                  uint64
	HeapUsed                  uint64
	HeapTotal                 uint64 // taken from the system
	HeapMax                   uint64 // the limit that is set, else all of the machine's memory
	GCCount                   uint64
	GCPause                   time.Duration // in all
	LoadAverage               float64       // over one minute, negative when not known
	Goroutines                int
	ClientEndpoints           int // connections of clients; CollectSystemInfo leaves this and what follows 0
	ActiveConnections         int
	OperationsRunning         int
	OperationsCompleted       uint64
	ClusterTimeDiffMillis     int64
	PendingInvocations        int
	PendingInvocationsPercent float64
}

// CollectSystemInfo looks at this process and this machine.
func CollectSystemInfo() SystemInfo {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	info := SystemInfo{
		Processors: runtime.GOMAXPROCS(0),
		HeapUsed:   mem.HeapAlloc, HeapTotal: mem.HeapSys,
		GCCount: uint64(mem.NumGC), GCPause: time.Duration(mem.PauseTotalNs),
		Goroutines: runtime.NumGoroutine(), LoadAverage: -1,
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		info.readMemory(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		if load, err := strconv.ParseFloat(first, 64); err == nil {
			info.LoadAverage = load
		}
	}
	info.HeapMax = info.PhysicalTotal
	if limit := debug.SetMemoryLimit(-1); limit > 0 && (info.HeapMax == 0 || uint64(limit) < info.HeapMax) { // -1 only asks
		info.HeapMax = uint64(limit)
	}
	return info
}

func (i *SystemInfo) readMemory(meminfo string) {
	for line := range strings.Lines(meminfo) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		kib, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			continue
		}
		switch bytes := kib << 10; name {
		case "MemTotal":
			i.PhysicalTotal = bytes
		case "MemAvailable":
			i.PhysicalFree = bytes
		case "SwapTotal":
			i.SwapTotal = bytes
		case "SwapFree":
			i.SwapFree = bytes
		}
	}
}
