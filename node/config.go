package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gridnode/clientproto"
	"gridnode/grid"
	"gridnode/grid/transport"
	"gridnode/imap"
)

// The ports that a member takes when it is not told otherwise, and how many it tries from there on.
const (
	DefaultGridPort = 5701
	DefaultHTTPPort = 8080
	AutoPorts       = 100 // with GridPortAuto, HTTPPortAuto
	DiscoverPorts   = 9   // with Discover: 127.0.0.1:5701 to 5709
)

// RoleWitness is the only role of a member that votes and does nothing else: it holds no data and runs no tasks.
const RoleWitness = "witness"

// RoleMaster is SeaTunnel's word for a member that holds data and coordinates, and runs no tasks: it stands for the role data. Beside it, a
// member with the role worker alone runs tasks and holds no data.
const RoleMaster = "master"

// agreedRoles returns the roles as the members know them.
func agreedRoles(roles []string) []string {
	var out []string
	for _, r := range roles {
		if r == RoleMaster {
			r = grid.RoleData
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// LossPolicy says what happens to a partition whose last in-sync replica is gone.
type LossPolicy string

// The loss policies.
const (
	LossEmpty LossPolicy = "empty" // it starts again, empty
	LossBlock LossPolicy = "block" // it answers nothing until an operator decides
)

// ScheduleStrategy says what happens to a job for which there are no free slots.
type ScheduleStrategy string

// The schedule strategies.
const (
	ScheduleWait   ScheduleStrategy = "WAIT"   // it is PENDING until there are
	ScheduleReject ScheduleStrategy = "REJECT" // it fails
)

// Config is everything that a member can be told. Start from [DefaultConfig]: the zero Config is not valid. The comments give the
// key of each setting, which is also what errors name it by.
type Config struct {
	Name        string // name: empty means that the member names itself
	ClusterName string // cluster: members of different names never join each other

	Bind         string // bind: host:port to listen on for members and clients; port 0 takes any
	GridPortAuto bool   // Bind's port is only the first to try
	Advertise    string // advertise: host:port that others reach Bind by; empty: the address that was bound

	HTTP          string // http: host:port to listen on for REST; port 0 takes any
	HTTPPortAuto  bool   // HTTP's port is only the first to try
	HTTPAdvertise string // http-advertise: base URL that others reach HTTP by; empty: made from the address that was bound

	Join     []string // join: host:port of members to join
	Discover bool     // look for members of the cluster on this machine's default ports
	Expect   int      // expect: members that a new cluster waits for before it forms

	Partitions      int        // partition-count: fixed when the cluster forms
	BackupCount     int        // backup-count: copies of each partition besides the primary's
	OnPartitionLoss LossPolicy // on-partition-loss

	Roles      []string          // roles: data (or master), worker, or witness alone
	Attributes map[string]string // member-attributes: for example zone=a

	LeaveTimeout      time.Duration // leave-timeout: bounds the handing over of partitions
	HeartbeatInterval time.Duration // heartbeat-interval: how often a member renews its lease
	Lease             time.Duration // lease: how long a member may act after a renewal
	SessionTimeout    time.Duration // session-timeout: how long a silent member is kept when nothing hints that it is dead
	LossPatience      time.Duration // loss-patience: how long a silent member is waited for that has the only copies of something

	Maps             imap.Configs // maps: what maps are told, by name or pattern
	MapMemoryLimitMB int          // map-memory-limit-mb: what entries may take on this member, backups included; 0: no bound

	// ClientUsers, from client-users-file, are the passwords of those who may connect as clients, by user. Nil: whoever knows the cluster's name.
	ClientUsers map[string]Password
	// ClientTokens, from client-tokens-file, are tokens with which clients may connect, by a name for each. With tokens and no users, nobody can
	// connect with a password, and the other way round.
	ClientTokens map[string]Password

	// Processors are the entry processors of the program that the member is part of, by name. All members need the same.
	Processors map[string]imap.Processor
	// Interceptors are those that callers can add to maps, by name. All members need the same.
	Interceptors map[string]imap.NewInterceptor
	// Comparators are those by which clients can have pages ordered, by name. All members need the same.
	Comparators map[string]clientproto.NewComparator
	// Loaders are the loaders and stores of maps, by name or pattern. All members need the same.
	Loaders imap.Loaders

	Engine EngineConfig // engine.*

	Insecure bool // insecure: allow addresses that other machines can reach
	// Network is what the member listens and dials on; nil is TCP and UDP.
	Network transport.Network
	// Logger of the member; nil discards.
	Logger *slog.Logger
}

// EngineConfig is the part of a [Config] that is about jobs.
type EngineConfig struct {
	StateCleanupDelay   time.Duration    // engine.state-cleanup-delay-ms: how long the state of an ended job stays
	HistoryJobExpire    time.Duration    // engine.history-job-expire-minutes: how long the history of an ended job stays
	HistoryMax          int              // engine.history-max: ended jobs that are remembered at most
	DynamicSlot         bool             // engine.slot-service.dynamic-slot: as many slots as jobs ask for
	SlotNum             int              // engine.slot-service.slot-num: slots of this member when they are not dynamic
	JobScheduleStrategy ScheduleStrategy // engine.job-schedule-strategy

	CheckpointInterval  time.Duration     // engine.checkpoint.interval: of streaming jobs that do not say
	CheckpointTimeout   time.Duration     // engine.checkpoint.timeout: of jobs that do not say
	CheckpointStorage   CheckpointStorage // engine.checkpoint.storage.type
	CheckpointNamespace string            // engine.checkpoint.storage.namespace: the directory of StorageLocalFile, the same for all members
	CheckpointRetained  int               // engine.checkpoint.storage.max-retained: per pipeline
}

// CheckpointStorage says where checkpoints are kept.
type CheckpointStorage string

// The places for checkpoints.
const (
	StorageGrid      CheckpointStorage = "grid"      // in the grid only
	StorageLocalFile CheckpointStorage = "localfile" // in the grid, and in a directory that outlives all members
)

// DefaultConfig returns the config of a member that is reachable from this machine only and told nothing.
func DefaultConfig() Config {
	return Config{
		ClusterName:       "dev",
		Bind:              net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultGridPort)),
		GridPortAuto:      true,
		HTTP:              net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultHTTPPort)),
		HTTPPortAuto:      true,
		Discover:          true,
		Expect:            1,
		Partitions:        grid.DefaultPartitions,
		BackupCount:       1,
		OnPartitionLoss:   LossEmpty,
		Roles:             []string{grid.RoleData, grid.RoleWorker},
		LeaveTimeout:      30 * time.Second,
		HeartbeatInterval: 100 * time.Millisecond,
		Lease:             500 * time.Millisecond,
		SessionTimeout:    5 * time.Second,
		LossPatience:      30 * time.Second,
		Engine: EngineConfig{
			StateCleanupDelay:   time.Minute,
			HistoryJobExpire:    24 * time.Hour,
			HistoryMax:          10_000,
			DynamicSlot:         true,
			SlotNum:             2,
			JobScheduleStrategy: ScheduleWait,
			CheckpointInterval:  5 * time.Minute,
			CheckpointTimeout:   30 * time.Second,
			CheckpointStorage:   StorageGrid,
			CheckpointRetained:  3,
		},
	}
}

// ConfigError says which setting is wrong, by its key.
type ConfigError struct {
	Key    string // for example "backup-count"
	Reason string
}

func (e *ConfigError) Error() string { return e.Key + ": " + e.Reason }

// Validate returns a [ConfigError] for each setting that is wrong, joined, or nil. It changes nothing and asks nobody.
func (c Config) Validate() error {
	return errors.Join(slices.Concat(c.identity(), c.addresses(), c.cluster(), c.users(), c.timings(), c.Engine.validate())...)
}

const (
	maxExpect   = 1000
	maxSlots    = 10_000
	maxHistory  = 1_000_000
	maxMemory   = 1 << 30 // of map-memory-limit-mb
	maxRetained = 100
	maxWait     = 24 * time.Hour       // of leave-timeout, session-timeout, loss-patience and engine.state-cleanup-delay-ms
	maxHistoric = 365 * 24 * time.Hour // of engine.history-job-expire-minutes
	maxName     = 64
	maxAttrs    = grid.MaxAttributes
	maxAttr     = grid.MaxAttributeBytes
)

func (c Config) identity() (bad []error) {
	if word := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`); c.Name != "" && (len(c.Name) > maxName || !word.MatchString(c.Name)) {
		bad = append(bad, wrong("name", "%q is not a name: up to %d letters, digits, '.', '_', '-', starting with a letter or digit", c.Name, maxName))
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if s := c.ClusterName; s == "" || len(s) > maxName || s != strings.TrimSpace(s) || strings.ContainsFunc(s, unprintable) {
		bad = append(bad, wrong("cluster", "%q is not a name of a cluster: up to %d bytes of printable text", s, maxName))
	}
	if len(c.Roles) == 0 {
		bad = append(bad, wrong("roles", "must name at least one of data (or master), worker, witness"))
	}
	for _, r := range c.Roles {
		switch {
		case r != grid.RoleData && r != RoleMaster && r != grid.RoleWorker && r != RoleWitness:
			bad = append(bad, wrong("roles", "%q is not one of data, master, worker, witness", r))
		case r == RoleWitness && len(c.Roles) > 1:
			bad = append(bad, wrong("roles", "witness stands alone: a witness holds no data and runs no tasks"))
		}
	}
	if len(c.Attributes) > maxAttrs {
		bad = append(bad, wrong("member-attributes", "%d attributes are more than %d", len(c.Attributes), maxAttrs))
	}
	for _, k := range slices.Sorted(maps.Keys(c.Attributes)) {
		if v := c.Attributes[k]; k == "" || len(k) > maxAttr || len(v) > maxAttr {
			bad = append(bad, wrong("member-attributes", "%q must have a name and a value of at most %d bytes each", k, maxAttr))
		}
	}
	return bad
}

func (c Config) addresses() (bad []error) {
	listen := func(key, addr string) {
		if err := checkAddress(addr, 0); err != nil {
			bad = append(bad, wrong(key, "%v", err))
		} else if !c.Insecure && !Loopback(addr) {
			bad = append(bad, wrong(key, "%s can be reached from other machines, and members and clients do not authenticate yet: "+
				"whoever reaches it can read and change everything; bind to 127.0.0.1, or accept that with --insecure", addr))
		}
	}
	listen("bind", c.Bind)
	listen("http", c.HTTP)
	switch {
	case c.Advertise != "":
		if err := checkAddress(c.Advertise, 1); err != nil {
			bad = append(bad, wrong("advertise", "%v", err))
		} else if anyInterface(c.Advertise) {
			bad = append(bad, wrong("advertise", "%s is no address that others can dial", c.Advertise))
		}
	case anyInterface(c.Bind):
		bad = append(bad, wrong("advertise", "is needed with bind %s: other members must be told an address that they can dial", c.Bind))
	}
	if u, err := url.Parse(c.HTTPAdvertise); c.HTTPAdvertise != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		bad = append(bad, wrong("http-advertise", "%q is not a base URL such as http://host:8080", c.HTTPAdvertise))
	}
	for _, a := range c.Join {
		if err := checkAddress(a, 1); err != nil {
			bad = append(bad, wrong("join", "%v", err))
		}
	}
	return bad
}

func (c Config) cluster() []error {
	bad := []error{
		within("expect", c.Expect, 1, maxExpect),
		within("partition-count", c.Partitions, 1, grid.MaxPartitions),
		within("backup-count", c.BackupCount, 0, grid.MaxBackups),
		within("map-memory-limit-mb", c.MapMemoryLimitMB, 0, maxMemory),
	}
	if c.OnPartitionLoss != LossEmpty && c.OnPartitionLoss != LossBlock {
		bad = append(bad, wrong("on-partition-loss", "%q is neither empty nor block", c.OnPartitionLoss))
	}
	if err := c.Maps.Validate(); err != nil {
		bad = append(bad, wrong("maps", "%v", err))
	}
	if err := c.Loaders.Validate(); err != nil {
		bad = append(bad, wrong("loaders", "%v", err))
	}
	return bad
}

func (c Config) timings() []error {
	bad := []error{
		lasting("leave-timeout", c.LeaveTimeout, 0, maxWait),
		lasting("heartbeat-interval", c.HeartbeatInterval, 10*time.Millisecond, time.Minute),
		lasting("lease", c.Lease, 50*time.Millisecond, time.Hour),
		lasting("session-timeout", c.SessionTimeout, 50*time.Millisecond, maxWait),
		lasting("loss-patience", c.LossPatience, 0, maxWait),
	}
	if c.Lease < 2*c.HeartbeatInterval {
		bad = append(bad, wrong("lease", "%v must be at least twice the heartbeat-interval of %v, or one late heartbeat ends it", c.Lease, c.HeartbeatInterval))
	}
	if c.SessionTimeout < c.Lease {
		bad = append(bad, wrong("session-timeout", "%v must not be shorter than the lease of %v", c.SessionTimeout, c.Lease))
	}
	return bad
}

// slots returns the slots of this member as the members agree on them.
func (c EngineConfig) slots() int {
	if c.DynamicSlot {
		return -1
	}
	return c.SlotNum
}

func (c EngineConfig) fewestSlots() int {
	if c.DynamicSlot {
		return 0
	}
	return 1
}

func (c EngineConfig) validate() []error {
	bad := []error{
		lasting("engine.state-cleanup-delay-ms", c.StateCleanupDelay, 0, maxWait),
		lasting("engine.history-job-expire-minutes", c.HistoryJobExpire, time.Minute, maxHistoric),
		within("engine.history-max", c.HistoryMax, 1, maxHistory),
		within("engine.slot-service.slot-num", c.SlotNum, c.fewestSlots(), maxSlots),
		lasting("engine.checkpoint.interval", c.CheckpointInterval, 10*time.Millisecond, maxWait),
		lasting("engine.checkpoint.timeout", c.CheckpointTimeout, 10*time.Millisecond, maxWait),
		within("engine.checkpoint.storage.max-retained", c.CheckpointRetained, 1, maxRetained),
	}
	const namespace = "engine.checkpoint.storage.namespace"
	switch c.CheckpointStorage {
	case StorageGrid:
		if c.CheckpointNamespace != "" {
			bad = append(bad, wrong(namespace, "%q has no effect unless engine.checkpoint.storage.type is localfile", c.CheckpointNamespace))
		}
	case StorageLocalFile:
		if !filepath.IsAbs(c.CheckpointNamespace) {
			bad = append(bad, wrong(namespace, "%q is not an absolute path; localfile needs a directory that all members share", c.CheckpointNamespace))
		} else if f, err := os.Stat(c.CheckpointNamespace); err == nil && !f.IsDir() {
			bad = append(bad, wrong(namespace, "%q is not a directory", c.CheckpointNamespace))
		}
	default:
		bad = append(bad, wrong("engine.checkpoint.storage.type", "%q is neither grid nor localfile", c.CheckpointStorage))
	}
	if s := c.JobScheduleStrategy; s != ScheduleWait && s != ScheduleReject {
		bad = append(bad, wrong("engine.job-schedule-strategy", "%q is neither WAIT nor REJECT", s))
	}
	return bad
}

func wrong(key, format string, args ...any) error {
	return &ConfigError{Key: key, Reason: fmt.Sprintf(format, args...)}
}

func within(key string, v, low, high int) error {
	if v < low || v > high {
		return wrong(key, "%d is not from %d to %d", v, low, high)
	}
	return nil
}

func lasting(key string, v, low, high time.Duration) error {
	if v < low || v > high {
		return wrong(key, "%v is not from %v to %v", v, low, high)
	}
	return nil
}

// ParseAddress returns s as host:port. A missing port becomes defaultPort, a missing host stays missing; an IPv6 host may stand without
// brackets only if there is no port.
func ParseAddress(s string, defaultPort int) (string, error) {
	port := strconv.Itoa(defaultPort)
	addr := s
	switch ip, err := netip.ParseAddr(strings.Trim(s, "[]")); {
	case s == "":
		return "", errors.New("an address is missing")
	case err == nil:
		addr = net.JoinHostPort(ip.String(), port)
	case !strings.Contains(s, ":"):
		addr = net.JoinHostPort(s, port)
	}
	if err := checkAddress(addr, 0); err != nil {
		return "", err
	}
	return addr, nil
}

// Loopback reports whether the host of host:port can be reached from this machine only. A name other than localhost may stand for any
// address, so it is not.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func anyInterface(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && (host == "" || ipErr == nil && ip.Unmap().IsUnspecified())
}

func checkAddress(addr string, minPort int) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.ContainsAny(host, "/ \t\r\n") {
		return fmt.Errorf("%q is not an address of the form host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || int(n) < minPort {
		return fmt.Errorf("%q: %q is not a port from %d to 65535", addr, port, minPort)
	}
	return nil
}
