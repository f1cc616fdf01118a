package main

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"gridnode/node"
)

// settings are what can be configured: the member's config, and how this process logs.
type settings struct {
	node.Config
	logJSON  bool
	logLevel slog.Level
}

func defaultSettings() *settings {
	return &settings{Config: node.DefaultConfig(), logLevel: slog.LevelInfo}
}

// setting is one key. It can be given as --key (unless it is only for --set), --set key=value, in the environment and in a file.
type setting struct {
	key   string
	usage string
	set   func(*settings, string) error
	isSet bool // a flag without value means true
	many  bool // the flag may be repeated
}

// envName is the name of the key in the environment.
func (s setting) envName() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.key))
}

// flag reports whether the key also is a flag of gridnode start.
func (s setting) flag() bool { return !strings.Contains(s.key, ".") }

// allSettings lists every key. The defaults are node.DefaultConfig's.
func allSettings() []setting {
	return []setting{
		{key: "name", usage: "name of this member; by default it names itself", set: text(func(s *settings) *string { return &s.Name })},
		{key: "cluster", usage: "name of the cluster; members of different names never join (default dev)", set: text(func(s *settings) *string { return &s.ClusterName })},
		{key: "bind", usage: "address for members and clients (default: the first free port of 127.0.0.1 from 5701)",
			set: address(node.DefaultGridPort, func(s *settings, a string) { s.Bind, s.GridPortAuto = a, false })},
		{key: "advertise", usage: "address that others reach --bind by (default: what was bound)",
			set: address(node.DefaultGridPort, func(s *settings, a string) { s.Advertise = a })},
		{key: "http", usage: "address for REST (default: the first free port of 127.0.0.1 from 8080)", set: setHTTP},
		{key: "http-advertise", usage: "base URL that others reach --http by (default: made from what was bound)", set: text(func(s *settings) *string { return &s.HTTPAdvertise })},
		{key: "join", usage: "addresses of members to join, separated by commas (default, on loopback: look at ports 5701 to 5709)", set: setJoin, many: true},
		{key: "expect", usage: "members that a new cluster waits for before it forms (default 1)", set: number(func(s *settings) *int { return &s.Expect })},
		{key: "partition-count", usage: "partitions of a new cluster (default 271)", set: number(func(s *settings) *int { return &s.Partitions })},
		{key: "backup-count", usage: "backups of each partition, 0 to 6 (default 1)", set: number(func(s *settings) *int { return &s.BackupCount })},
		{key: "on-partition-loss", usage: "what becomes of a partition without any replica left: empty or block (default empty)",
			set: func(s *settings, v string) error { s.OnPartitionLoss = node.LossPolicy(v); return nil }},
		{key: "maps", usage: "configs of maps: name:option=value;..., such as orders:ttl=30s or cache*:eviction=LRU;max-size=1000", many: true, set: setMaps},
		{key: "map-memory-limit-mb", usage: "megabytes that entries may take on this member, backups included (default 0: no bound)",
			set: number(func(s *settings) *int { return &s.MapMemoryLimitMB })},
		{key: "client-users-file", usage: "file with a line USER:PASSWORD for each who may connect as a client (default: none is asked for)", set: setClientUsers},
		{key: "client-tokens-file", usage: "file with a line NAME:TOKEN for each token with which clients may connect (default: none is asked for)", set: setClientTokens},
		{key: "roles", usage: "data (or master), worker, both, or witness (default data,worker)", many: true,
			set: func(s *settings, v string) error { s.Roles = split(v); return nil }},
		{key: "member-attributes", usage: "attributes of this member, such as zone=a,disk=ssd", many: true, set: setAttributes},
		{key: "leave-timeout", usage: "how long a member that leaves hands over what it holds (default 30s)", set: span(func(s *settings) *time.Duration { return &s.LeaveTimeout })},
		{key: "heartbeat-interval", usage: "how often a member renews its lease (default 100ms)", set: span(func(s *settings) *time.Duration { return &s.HeartbeatInterval })},
		{key: "lease", usage: "how long a member may act after a renewal (default 500ms)", set: span(func(s *settings) *time.Duration { return &s.Lease })},
		{key: "session-timeout", usage: "how long a silent member is kept that answers when it is asked, and that nothing else hints to be dead (default 5s)", set: span(func(s *settings) *time.Duration { return &s.SessionTimeout })},
		{key: "loss-patience", usage: "how long a silent member is waited for that has the only copies of something (default 30s)",
			set: span(func(s *settings) *time.Duration { return &s.LossPatience })},
		{key: "insecure", usage: "allow addresses that other machines can reach, although nobody authenticates", isSet: true, set: truth(func(s *settings) *bool { return &s.Insecure })},
		{key: "log-format", usage: "text or json (default text)", set: setLogFormat},
		{key: "log-level", usage: "debug, info, warn or error (default info)", set: setLogLevel},
		{key: "engine.state-cleanup-delay-ms", usage: "how long the state of an ended job stays", set: units(time.Millisecond, func(s *settings) *time.Duration { return &s.Engine.StateCleanupDelay })},
		{key: "engine.history-job-expire-minutes", usage: "how long ended jobs are remembered", set: units(time.Minute, func(s *settings) *time.Duration { return &s.Engine.HistoryJobExpire })},
		{key: "engine.history-max", usage: "how many ended jobs are remembered", set: number(func(s *settings) *int { return &s.Engine.HistoryMax })},
		{key: "engine.slot-service.dynamic-slot", usage: "as many slots as jobs ask for", set: truth(func(s *settings) *bool { return &s.Engine.DynamicSlot })},
		{key: "engine.slot-service.slot-num", usage: "slots when they are not dynamic", set: number(func(s *settings) *int { return &s.Engine.SlotNum })},
		{key: "engine.checkpoint.interval", usage: "milliseconds between checkpoints of streaming jobs that do not say (default 300000)",
			set: units(time.Millisecond, func(s *settings) *time.Duration { return &s.Engine.CheckpointInterval })},
		{key: "engine.checkpoint.timeout", usage: "milliseconds that a checkpoint may take (default 30000)",
			set: units(time.Millisecond, func(s *settings) *time.Duration { return &s.Engine.CheckpointTimeout })},
		{key: "engine.checkpoint.storage.type", usage: "grid, or localfile: in a directory as well (default grid)",
			set: func(s *settings, v string) error {
				s.Engine.CheckpointStorage = node.CheckpointStorage(strings.ToLower(v))
				return nil
			}},
		{key: "engine.checkpoint.storage.namespace", usage: "that directory; all members share it",
			set: text(func(s *settings) *string { return &s.Engine.CheckpointNamespace })},
		{key: "engine.checkpoint.storage.max-retained", usage: "checkpoints of each pipeline that are kept (default 3)",
			set: number(func(s *settings) *int { return &s.Engine.CheckpointRetained })},
		{key: "engine.job-schedule-strategy", usage: "WAIT or REJECT, when there are not enough slots",
			set: func(s *settings, v string) error {
				s.Engine.JobScheduleStrategy = node.ScheduleStrategy(strings.ToUpper(v))
				return nil
			}},
	}
}

func text(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, v string) error { *field(s) = v; return nil }
}

func number(field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		*field(s) = n
		return nil
	}
}

func truth(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		switch strings.ToLower(v) {
		case "true":
			*field(s) = true
		case "false":
			*field(s) = false
		default:
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	}
}

func span(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 500ms or 30s", v)
		}
		*field(s) = d
		return nil
	}
}

// units is a whole number of some unit, which the key names.
func units(unit time.Duration, field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
			return fmt.Errorf("%q is not a whole number that fits", v)
		}
		*field(s) = time.Duration(n) * unit
		return nil
	}
}

func address(port int, set func(*settings, string)) func(*settings, string) error {
	return func(s *settings, v string) error {
		addr, err := node.ParseAddress(v, port)
		if err == nil {
			set(s, addr)
		}
		return err
	}
}

// setHTTP also takes a URL: GRIDNODE_HTTP is where clients look, too.
func setHTTP(s *settings, v string) error {
	v = strings.TrimSuffix(strings.TrimPrefix(v, "http://"), "/")
	if strings.Contains(v, ",") {
		return fmt.Errorf("%q is more than one address", v)
	}
	return address(node.DefaultHTTPPort, func(s *settings, a string) { s.HTTP, s.HTTPPortAuto = a, false })(s, v)
}

func setJoin(s *settings, v string) error {
	s.Join, s.Discover = nil, false
	for _, item := range split(v) {
		addr, err := node.ParseAddress(item, node.DefaultGridPort)
		if err != nil {
			return err
		}
		s.Join = append(s.Join, addr)
	}
	return nil
}

func setAttributes(s *settings, v string) error {
	s.Attributes = map[string]string{}
	for _, item := range split(v) {
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form name=value", item)
		}
		if _, twice := s.Attributes[name]; twice {
			return fmt.Errorf("%q is given twice", name)
		}
		s.Attributes[name] = value
	}
	return nil
}

func setLogFormat(s *settings, v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	s.logJSON = v == "json"
	return nil
}

func setLogLevel(s *settings, v string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[strings.ToLower(v)]
	if !ok {
		return fmt.Errorf("%q is not one of debug, info, warn, error", v)
	}
	s.logLevel = level
	return nil
}

// split takes a list apart, without empty items.
func split(list string) (items []string) {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// unknownKey names a key that does not exist, and the one that may be meant.
func unknownKey(key string, known []string) error {
	best, distance := "", max(2, len(key)/3)+1
	for _, k := range known {
		if d := editDistance(key, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return fmt.Errorf("there is no setting %q", key)
	}
	return fmt.Errorf("there is no setting %q; did you mean %q?", key, best)
}

// editDistance counts the letters to insert, delete or replace to make one text into the other.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
