package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/node"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "grid.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPrecedence_FlagSetEnvironmentFileDefault(t *testing.T) {
	tests := []struct {
		name             string
		flag, set, env   string
		file             string
		want             int
		wantAutoAndGuess bool
	}{
		{name: "default", want: 1},
		{name: "file", file: "backup-count: 2", want: 2},
		{name: "environment", file: "backup-count: 2", env: "GRIDNODE_BACKUP_COUNT=3", want: 3},
		{name: "set", file: "backup-count: 2", env: "GRIDNODE_BACKUP_COUNT=3", set: "backup-count=4", want: 4},
		{name: "flag", file: "backup-count: 2", env: "GRIDNODE_BACKUP_COUNT=3", set: "backup-count=4", flag: "5", want: 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var flags []given
			if tt.flag != "" {
				flags = []given{{"backup-count", tt.flag, "--backup-count"}}
			}
			var sets, environ []string
			if tt.set != "" {
				sets = []string{tt.set}
			}
			environ = append(environ, "PATH=/bin", tt.env)
			if tt.file != "" {
				environ = append(environ, "GRIDNODE_CONFIG="+writeFile(t, tt.file))
			}
			s, err := loadSettings(flags, sets, environ, "")
			if err != nil {
				t.Fatal(err)
			}
			if s.BackupCount != tt.want {
				t.Errorf("backup-count %d, want %d", s.BackupCount, tt.want)
			}
		})
	}
}

// Every key can be given in all ways, and arrives.
func TestEveryKey_Arrives(t *testing.T) {
	usersFile := writeFile(t, "ann:secret")
	if err := os.Chmod(usersFile, 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"name": "n7", "cluster": "g1", "bind": "127.0.0.1:6000", "advertise": "127.0.0.1:6001", "http": "127.0.0.1:9000",
		"http-advertise": "http://box:1", "join": "127.0.0.1:6002,[::1]", "expect": "3", "partition-count": "17", "backup-count": "2",
		"on-partition-loss": "block", "roles": "data", "member-attributes": "zone=a,rack=7", "leave-timeout": "5s",
		"heartbeat-interval": "100ms", "lease": "2s", "session-timeout": "9s", "loss-patience": "12s", "insecure": "true", "log-format": "json", "log-level": "warn",
		"engine.state-cleanup-delay-ms": "5000", "engine.history-job-expire-minutes": "2", "engine.history-max": "9",
		"maps": "orders:ttl=30s;max-idle=5s,cache*:eviction=lru;max-size=9;max-size-policy=per_partition", "map-memory-limit-mb": "64",
		"client-users-file":                usersFile,
		"engine.slot-service.dynamic-slot": "false", "engine.slot-service.slot-num": "8", "engine.job-schedule-strategy": "wait",
		"engine.checkpoint.interval": "7000", "engine.checkpoint.timeout": "8000", "engine.checkpoint.storage.type": "localfile",
		"engine.checkpoint.storage.namespace": "/x", "engine.checkpoint.storage.max-retained": "5",
	}
	values["client-tokens-file"] = usersFile
	want := defaultSettings()
	want.Name, want.ClusterName, want.Bind, want.GridPortAuto, want.Advertise = "n7", "g1", "127.0.0.1:6000", false, "127.0.0.1:6001"
	want.HTTP, want.HTTPPortAuto, want.HTTPAdvertise = "127.0.0.1:9000", false, "http://box:1"
	want.Join, want.Discover, want.Expect, want.Partitions, want.BackupCount = []string{"127.0.0.1:6002", "[::1]:5701"}, false, 3, 17, 2
	want.OnPartitionLoss, want.Roles, want.Attributes = node.LossBlock, []string{"data"}, map[string]string{"zone": "a", "rack": "7"}
	want.LeaveTimeout, want.HeartbeatInterval, want.Lease, want.SessionTimeout = 5*time.Second, 100*time.Millisecond, 2*time.Second, 9*time.Second
	want.LossPatience = 12 * time.Second
	want.Maps, want.MapMemoryLimitMB = map[string]node.MapConfig{
		"orders": {TTL: 30 * time.Second, MaxIdle: 5 * time.Second},
		"cache*": {Eviction: "LRU", MaxSize: 9, MaxSizePolicy: "PER_PARTITION"},
	}, 64
	want.ClientUsers = map[string]node.Password{"ann": "secret"}
	want.ClientTokens = want.ClientUsers
	want.Insecure, want.logJSON, want.logLevel = true, true, 4
	want.Engine = node.EngineConfig{StateCleanupDelay: 5 * time.Second, HistoryJobExpire: 2 * time.Minute, HistoryMax: 9, SlotNum: 8, JobScheduleStrategy: node.ScheduleWait,
		CheckpointInterval: 7 * time.Second, CheckpointTimeout: 8 * time.Second, CheckpointStorage: node.StorageLocalFile, CheckpointNamespace: "/x", CheckpointRetained: 5}

	var flags []given
	var sets, environ []string
	var yamlText strings.Builder
	for _, s := range allSettings() {
		value, ok := values[s.key]
		if !ok {
			t.Fatalf("no value for %s", s.key)
		}
		flags = append(flags, given{s.key, value, s.key})
		sets = append(sets, s.key+"="+value)
		environ = append(environ, s.envName()+"="+value)
		yamlText.WriteString(s.key + ": \"" + value + "\"\n")
	}
	for name, load := range map[string]func() (*settings, error){
		"flags":       func() (*settings, error) { return loadSettings(flags, nil, nil, "") },
		"set":         func() (*settings, error) { return loadSettings(nil, sets, nil, "") },
		"environment": func() (*settings, error) { return loadSettings(nil, nil, environ, "") },
		"file":        func() (*settings, error) { return loadSettings(nil, nil, nil, writeFile(t, yamlText.String())) },
	} {
		got, err := load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFile_NestedAndLists(t *testing.T) {
	_, err := loadSettings(nil, nil, nil, writeFile(t, `
# a comment
cluster: g1
join: [ "127.0.0.1:5701", '::1' ]
roles:
  - worker
member-attributes: {zone: a, rack: 7}
partition-count: 0x11
engine:
  state-cleanup-delay-ms: 5000
  slot-service:
    dynamic-slot: false
    slot-num: 4
`))
	if err == nil || !strings.Contains(err.Error(), "grid.yaml:8:1: partition-count") {
		t.Fatalf("%v, want a complaint about 0x11", err)
	}
	s, err := loadSettings(nil, nil, nil, writeFile(t, "join: [\"127.0.0.1:5701\", '::1']\nroles:\n  - worker\n"+
		"member-attributes: {zone: a, rack: 7}\nengine:\n  state-cleanup-delay-ms: 5000\n  slot-service:\n    slot-num: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:5701", "[::1]:5701"}, s.Join); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"zone": "a", "rack": "7"}, s.Attributes); diff != "" {
		t.Error(diff)
	}
	if s.Engine.StateCleanupDelay != 5*time.Second || s.Engine.SlotNum != 4 || s.Roles[0] != "worker" {
		t.Errorf("%+v", s.Engine)
	}
}

func TestFile_ErrorsSayWhere(t *testing.T) {
	tests := []struct{ yaml, want string }{
		{"backup-cuont: 2", `grid.yaml:1:1: there is no setting "backup-cuont"; did you mean "backup-count"?`},
		{"name: n1\nengine:\n  state-cleanup-delay: 1", `grid.yaml:3:3: there is no setting "engine.state-cleanup-delay"; did you mean "engine.state-cleanup-delay-ms"?`},
		{"backup-count: many", `grid.yaml:1:1: backup-count: "many" is not a whole number`},
		{"backup-count: 1\nbackup-count: 2", `grid.yaml:2:1`},
		{"engine.history-max: 1\nengine:\n  history-max: 2", `grid.yaml:3:3: engine.history-max: is given twice`},
		{"backup-count:", `backup-count: there is no value`},
		{"backup-count: {a: 1}", `"a=1" is not a whole number`},
		{"join: [[a]]", `must not be nested`},
		{"join: ['a,b']", `holds a comma`},
		{"engine: 3", `grid.yaml:1:9: there must be a mapping`},
		{"- a", `grid.yaml:1:1: there must be a mapping`},
		{"name: &x n1\ncluster: *x", "must be a value"},
		{"1: 2", "is not the name of a setting"},
		{"name: n1\n---\nname: n2", "one document"},
		{"name: \"n1", `grid.yaml:1:7`},
		{"a: b: c", `grid.yaml:1:`},
		{"backup-count: 9", `backup-count: 9 is not from 0 to 6`},
	}
	for _, tt := range tests {
		_, err := loadSettings(nil, nil, nil, writeFile(t, tt.yaml))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v\nwant %s", tt.yaml, err, tt.want)
		}
	}
	for _, text := range []string{"", "# only a comment\n", "{}"} {
		if _, err := loadSettings(nil, nil, nil, writeFile(t, text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := loadSettings(nil, nil, nil, filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

// A setting that is not there is named. So are those of C011, C023, C026, C187 and C198: members keep nothing on disk that could be switched on.
func TestUnknownKeys_AreNamed(t *testing.T) {
	tests := []struct {
		sets, environ []string
		want          string
	}{
		{[]string{"backupcount=2"}, nil, `"backupcount"; did you mean "backup-count"?`},
		{[]string{"xyzzy-plugh=2"}, nil, `there is no setting "xyzzy-plugh"`},
		{[]string{"persistence.enabled=true"}, nil, `there is no setting "persistence.enabled"`},
		{[]string{"maps.engine.map-store.enabled=true"}, nil, `"maps.engine.map-store.enabled"`},
		{[]string{"backup-count"}, nil, "key=value"},
		{nil, []string{"GRIDNODE_BACKUP_CUONT=2"}, `"GRIDNODE_BACKUP_CUONT"; did you mean "GRIDNODE_BACKUP_COUNT"?`},
		{[]string{"insecure=yes"}, nil, "--set insecure"},
		{nil, []string{"GRIDNODE_LEASE=1"}, "GRIDNODE_LEASE"},
		{[]string{"engine.state-cleanup-delay-ms=9223372036854775807"}, nil, "fits"},
		{[]string{"bind=1.2.3.4:5:6"}, nil, "--set bind"},
		{[]string{"http=a,b"}, nil, "more than one"},
		{[]string{"member-attributes=a=1,a=2"}, nil, `"a" is given twice`},
		{[]string{"member-attributes=a"}, nil, "name=value"},
		{[]string{"bind=0.0.0.0:5701", "advertise=10.0.0.1"}, nil, "--insecure"},
	}
	for _, tt := range tests {
		_, err := loadSettings(nil, tt.sets, tt.environ, "")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v %v: %v\nwant %s", tt.sets, tt.environ, err, tt.want)
		}
	}
}

// Kubernetes puts variables into every pod for a service that is called gridnode.
func TestEnvironment_OfKubernetes_IsIgnored(t *testing.T) {
	_, err := loadSettings(nil, nil, []string{
		"GRIDNODE_SERVICE_HOST=10.0.0.1", "GRIDNODE_SERVICE_PORT=5701", "GRIDNODE_SERVICE_PORT_HTTP=8080", "GRIDNODE_PORT=tcp://10.0.0.1:5701",
		"GRIDNODE_PORT_5701_TCP=tcp://10.0.0.1:5701", "GRIDNODE_PORT_5701_TCP_PROTO=tcp", "GRIDNODE_HEADLESS_SERVICE_HOST=None",
	}, "")
	if err != nil {
		t.Error(err)
	}
	if _, err := loadSettings(nil, nil, []string{"GRIDNODE_PORT=5701"}, ""); err == nil {
		t.Error("GRIDNODE_PORT=5701 was ignored")
	}
}

func TestDefaults_PortsAndDiscovery(t *testing.T) {
	tests := []struct {
		sets                 []string
		grid, http, discover bool
	}{
		{nil, true, true, true},
		{[]string{"bind=127.0.0.1:5701"}, false, true, true},
		{[]string{"http=127.0.0.1"}, true, false, true},
		{[]string{"join=127.0.0.1"}, true, true, false},
		{[]string{"bind=10.0.0.1", "insecure=true"}, false, true, false},
	}
	for _, tt := range tests {
		s, err := loadSettings(nil, tt.sets, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if s.GridPortAuto != tt.grid || s.HTTPPortAuto != tt.http || s.Discover != tt.discover {
			t.Errorf("%v: grid auto %v, http auto %v, discover %v", tt.sets, s.GridPortAuto, s.HTTPPortAuto, s.Discover)
		}
	}
}
