package rest

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gridnode/grid"
)

const (
	scrapeTimeout = 3 * time.Second // for the job figures of one scrape
	maxScrapes    = 4               // at once
)

// metrics are what /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(s *Server, more []prometheus.Collector) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gridnode_http_requests_total", Help: "HTTP requests that were answered.",
		}, []string{"path", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gridnode_http_request_duration_seconds", Help: "Time to answer HTTP requests.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"path"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gridnode_build_info", Help: "What this program is; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": s.cfg.Version, "revision": s.cfg.Revision, "goversion": runtime.Version()},
	})
	build.Set(1)
	all := append([]prometheus.Collector{
		m.requests, m.seconds, build, newClusterCollector(s),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, more...)
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError,
	})
}

// observe counts one request. The path is the registered one, so that its values are few. A negative time is not measured.
func (m *metrics) observe(path, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(path, method, strconv.Itoa(status)).Inc()
	if took >= 0 {
		m.seconds.WithLabelValues(path).Observe(took.Seconds())
	}
}

// clusterCollector reads the cluster when it is scraped. The names without prefix are SeaTunnel's.
type clusterCollector struct {
	server *Server
	descs  map[string]*prometheus.Desc
}

func newClusterCollector(s *Server) *clusterCollector {
	c := &clusterCollector{server: s, descs: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) { c.descs[name] = prometheus.NewDesc(name, help, labels, nil) }
	desc("gridnode_cluster_members", "Members of the cluster.")
	desc("gridnode_cluster_safe", "1 if every partition has all its replicas, no move is under way or owed, and no data member seems dead, as far as this member can know.")
	desc("gridnode_master", "1 on the member that is master.")
	desc("gridnode_term", "Term of the master.")
	desc("gridnode_partitions", "Partitions of this member, by its role in them.", "role")
	desc("gridnode_partitions_lost", "Partitions without any replica left.")
	desc("gridnode_partition_losses_total", "How often a partition lost its last replica, in the cluster, since it formed.")
	desc("gridnode_migration_queue", "Replicas that are being brought up or wait for it, in the cluster.")
	desc("gridnode_moves", "Changes of the partition table that are owed, in the cluster: replicas running, waiting and to be dropped, primaries to be handed over.", "state")
	desc("gridnode_copies", "Whole partitions that this member is sending.")
	desc("gridnode_copy_bytes_total", "Bytes of whole partitions that this member has sent and that have arrived.")
	desc("gridnode_copy_bytes_left", "Bytes of the copies under way from this member that have not arrived, about.")
	desc("gridnode_jobs", "Jobs, by state; from the master only.", "state")
	desc("gridnode_slots", "Slots, by state; from the master only.", "state")
	desc("cluster_info", "The cluster.", "cluster", "clusterVersion", "master")
	desc("node_count", "Members of the cluster.", "cluster")
	desc("node_state", "1 for a member that is up.", "cluster", "address")
	desc("hazelcast_partition_partitionCount", "Partitions.", "cluster")
	desc("hazelcast_partition_activePartition", "Partitions of which this member is the primary.", "cluster")
	desc("hazelcast_partition_isClusterSafe", "1 if the cluster is safe.", "cluster")
	desc("job_count", "Jobs, by type; from the master only.", "cluster", "type")
	return c
}

// Describe implements [prometheus.Collector].
func (c *clusterCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *clusterCollector) Collect(out chan<- prometheus.Metric) {
	state, err := c.server.state()
	if err != nil {
		return
	}
	emit := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, value, labels...)
	}
	c.collectGrid(state, emit)
	out <- prometheus.MustNewConstMetric(c.descs["gridnode_partition_losses_total"], prometheus.CounterValue, float64(state.Losses))
	sent := c.server.cfg.Grid.Sending().Sent
	out <- prometheus.MustNewConstMetric(c.descs["gridnode_copy_bytes_total"], prometheus.CounterValue, float64(sent))
	if state.Master == c.server.cfg.Grid.Self() {
		c.collectJobs(state.ClusterName, emit)
	}
}

type emitter func(name string, value float64, labels ...string)

func (c *clusterCollector) collectGrid(state *grid.State, emit emitter) {
	self := c.server.cfg.Grid.Self()
	mine, cluster := holdingsOf(state)[self], state.ClusterName
	lost := 0
	for i := range state.Partitions {
		lost += int(oneIf(state.Partitions[i].Lost))
	}
	master, _ := state.Member(state.Master)
	emit("gridnode_cluster_members", float64(len(state.Members)))
	emit("gridnode_cluster_safe", oneIf(c.server.cfg.Grid.Safe(state)))
	emit("gridnode_master", oneIf(state.Master == self))
	emit("gridnode_term", float64(state.Term))
	emit("gridnode_partitions", float64(mine.owned), "primary")
	emit("gridnode_partitions", float64(mine.backups), "backup")
	emit("gridnode_partitions", float64(mine.joining), "joining")
	emit("gridnode_partitions_lost", float64(lost))
	moves, sending := c.server.cfg.Grid.Moves(state), c.server.cfg.Grid.Sending()
	emit("gridnode_migration_queue", float64(moves.Running+moves.Waiting))
	for state, n := range map[string]int{"running": moves.Running, "waiting": moves.Waiting, "hand_over": moves.HandOvers, "drop": moves.Drops} {
		emit("gridnode_moves", float64(n), state)
	}
	emit("gridnode_copies", float64(sending.Copies))
	emit("gridnode_copy_bytes_left", float64(sending.Left))
	emit("cluster_info", 1, cluster, c.server.cfg.Version, master.Address)
	emit("node_count", float64(len(state.Members)), cluster)
	seen := make(map[string]bool, len(state.Members))
	for _, m := range state.Members {
		if !seen[m.Address] { // a member and its successor at the same address may both be listed for a moment
			emit("node_state", oneIf(m.State == grid.Active), cluster, m.Address)
			seen[m.Address] = true
		}
	}
	emit("hazelcast_partition_partitionCount", float64(len(state.Partitions)), cluster)
	emit("hazelcast_partition_activePartition", float64(mine.owned), cluster)
	emit("hazelcast_partition_isClusterSafe", oneIf(c.server.cfg.Grid.Safe(state)), cluster)
}

// collectJobs leaves the figures out when they cannot be had: unknown is not zero.
func (c *clusterCollector) collectJobs(cluster string, emit emitter) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	o, err := c.server.cfg.Jobs.Overview(ctx)
	if err != nil {
		c.server.log.Debug("job metrics left out", "error", err)
		return
	}
	for state, n := range map[string]int{
		"running": o.Running, "pending": o.Pending, "finished": o.Finished,
		"failed": o.Failed, "canceled": o.Canceled, "savepoint_done": o.SavepointDone,
	} {
		emit("gridnode_jobs", float64(n), state)
		emit("job_count", float64(n), cluster, state)
	}
	emit("gridnode_slots", float64(o.TotalSlots-o.FreeSlots), "used")
	emit("gridnode_slots", float64(o.FreeSlots), "free")
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
