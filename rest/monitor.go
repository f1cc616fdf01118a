package rest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gridnode/grid"
)

const (
	monitorTimeout = 3 * time.Second // for all members together
	monitorFanOut  = 64              // members that are asked at once
)

func (s *Server) registerMonitor(rs *routes) {
	for _, prefix := range []string{"", v1} {
		rs.handle(prefix+"/system-monitoring-information", methods{"GET": s.limited(s.systemMonitoring)})
	}
}

// systemMonitoring answers one row per member. One that does not answer in time has a row that says so.
func (s *Server) systemMonitoring(w http.ResponseWriter, r *http.Request) error {
	state, err := s.state()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), monitorTimeout)
	defer cancel()
	rows := s.monitorRows(ctx, state)
	s.answer(w, r, http.StatusOK, rows)
	return nil
}

// monitorRows asks all members at once, until ctx ends.
func (s *Server) monitorRows(ctx context.Context, state *grid.State) []map[string]string {
	type answer struct {
		info SystemInfo
		err  error
	}
	answers := make([]answer, len(state.Members))
	var asking errgroup.Group
	asking.SetLimit(monitorFanOut)
	for i, m := range state.Members {
		asking.Go(func() error {
			a := &answers[i]
			if a.err = ctx.Err(); a.err == nil {
				a.info, a.err = s.cfg.Grid.SystemInfo(ctx, m.ID)
			}
			return nil
		})
	}
	_ = asking.Wait() // SystemInfo keeps to its context
	rows := make([]map[string]string, 0, len(answers))
	for i, m := range state.Members {
		row := answers[i].info.row()
		if err := answers[i].err; err != nil {
			row = map[string]string{"error": err.Error()}
			if ctx.Err() != nil || grid.KindOf(err) == grid.Indeterminate {
				row = map[string]string{"timeout": "true"}
			}
		}
		row["host"], row["port"] = splitAddress(m.Address)
		row["isMaster"] = strconv.FormatBool(m.ID == state.Master)
		row["member"] = m.Name
		rows = append(rows, row)
	}
	return rows
}

func splitAddress(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, ""
	}
	return host, port
}

// row is the info in SeaTunnel's keys, which are Hazelcast's. What a Go process does not have is zero.
func (i SystemInfo) row() map[string]string {
	row := map[string]string{
		"processors":            whole(i.Processors),
		"physical.memory.total": size(i.PhysicalTotal), "physical.memory.free": size(i.PhysicalFree),
		"swap.space.total": size(i.SwapTotal), "swap.space.free": size(i.SwapFree),
		"heap.memory.used": size(i.HeapUsed), "heap.memory.total": size(i.HeapTotal), "heap.memory.max": size(i.HeapMax),
		"heap.memory.free":       size(i.HeapTotal - min(i.HeapTotal, i.HeapUsed)),
		"heap.memory.used/total": percent(i.HeapUsed, i.HeapTotal), "heap.memory.used/max": percent(i.HeapUsed, i.HeapMax),
		"minor.gc.count": whole(i.GCCount), "minor.gc.time": whole(i.GCPause.Milliseconds()) + "ms",
		"major.gc.count": "0", "major.gc.time": "0ms",
		"load.process": "0.00%", "load.system": percentOf(i.LoadAverage / float64(max(i.Processors, 1))),
		"load.systemAverage": rate(i.LoadAverage),
		"thread.count":       whole(i.Goroutines), "thread.peakCount": whole(i.Goroutines),
		"cluster.timeDiff": whole(i.ClusterTimeDiffMillis), "event.q.size": "0",
		"operations.completed.count":                whole(i.OperationsCompleted),
		"operations.running.count":                  whole(i.OperationsRunning),
		"operations.pending.invocations.percentage": percentOf(i.PendingInvocationsPercent / 100),
		"operations.pending.invocations.count":      whole(i.PendingInvocations),
		"proxy.count":                               "0",
		"clientEndpoint.count":                      whole(i.ClientEndpoints),
		"connection.active.count":                   whole(i.ActiveConnections),
		"client.connection.count":                   whole(i.ClientEndpoints),
		"connection.count":                          whole(i.ActiveConnections),
	}
	for queue := range strings.FieldsSeq("async client client.query client.blocking query scheduled io system operations " +
		"priorityOperation mapLoad mapLoadAllKeys cluster response") {
		row["executor.q."+queue+".size"] = "0"
	}
	return row
}

// size is a number of bytes as Hazelcast writes it, for example 135.7M.
func size(n uint64) string {
	units := "KMGT"
	if n < 1<<10 {
		return strconv.FormatUint(n, 10)
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1<<10 && unit < len(units)-1 {
		f, unit = f/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f%c", f, units[unit])
}

func percent(part, total uint64) string {
	if total == 0 {
		return "0.00%"
	}
	return percentOf(float64(part) / float64(total))
}

func percentOf(share float64) string { return fmt.Sprintf("%.2f%%", 100*max(share, 0)) }
