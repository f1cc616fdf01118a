package node

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/grid"
	"gridnode/imap"
)

func TestDefaultConfig_IsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestValidate_NamesTheKey(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   []string // keys, in order
	}{
		{"backups below", func(c *Config) { c.BackupCount = -1 }, []string{"backup-count"}},
		{"backups above", func(c *Config) { c.BackupCount = 7 }, []string{"backup-count"}},
		{"most backups", func(c *Config) { c.BackupCount = 6 }, nil},
		{"no partitions", func(c *Config) { c.Partitions = 0 }, []string{"partition-count"}},
		{"expect nobody", func(c *Config) { c.Expect = 0 }, []string{"expect"}},
		{"no cluster name", func(c *Config) { c.ClusterName = "" }, []string{"cluster"}},
		{"any printable cluster name", func(c *Config) { c.ClusterName = "a/b: é" }, nil},
		{"blank at the end of the cluster's name", func(c *Config) { c.ClusterName = "a " }, []string{"cluster"}},
		{"tab in the cluster's name", func(c *Config) { c.ClusterName = "a\tb" }, []string{"cluster"}},
		{"long cluster name", func(c *Config) { c.ClusterName = strings.Repeat("a", 65) }, []string{"cluster"}},
		{"no loader", func(c *Config) { c.Loaders = imap.Loaders{"m": nil} }, []string{"loaders"}},
		{"loader of the engine's", func(c *Config) { c.Loaders = imap.Loaders{"engine_x": struct{ imap.Loader }{}} }, []string{"loaders"}},
		{"name with blank", func(c *Config) { c.Name = "n 1" }, []string{"name"}},
		{"all interfaces", func(c *Config) { c.Bind = "0.0.0.0:5701"; c.Advertise = "10.0.0.1:5701" }, []string{"bind"}},
		{"all interfaces, empty host", func(c *Config) { c.HTTP = ":8080" }, []string{"http"}},
		{"host name", func(c *Config) { c.Bind = "box:5701" }, []string{"bind"}},
		{"insecure", func(c *Config) { c.Bind = "10.1.1.1:5701"; c.HTTP = ":8080"; c.Insecure = true }, nil},
		{"nothing to advertise", func(c *Config) { c.Bind = "[::]:5701"; c.Insecure = true }, []string{"advertise"}},
		{"advertise everything", func(c *Config) { c.Advertise = "0.0.0.0:5701" }, []string{"advertise"}},
		{"too many colons", func(c *Config) { c.Bind = "1.2.3.4:5:6" }, []string{"bind"}},
		{"port 0", func(c *Config) { c.Bind = "[::1]:0" }, nil},
		{"port 65536", func(c *Config) { c.HTTP = "127.0.0.1:65536" }, []string{"http"}},
		{"join port 0", func(c *Config) { c.Join = []string{"a:0"} }, []string{"join"}},
		{"http-advertise without scheme", func(c *Config) { c.HTTPAdvertise = "box:8080" }, []string{"http-advertise"}},
		{"lease below two heartbeats", func(c *Config) { c.Lease = 150 * time.Millisecond }, []string{"lease"}},
		{"session below lease", func(c *Config) { c.SessionTimeout = 400 * time.Millisecond }, []string{"session-timeout"}},
		{"unknown role", func(c *Config) { c.Roles = []string{"dta"} }, []string{"roles"}},
		{"witness and data", func(c *Config) { c.Roles = []string{"witness", "data"} }, []string{"roles"}},
		{"witness", func(c *Config) { c.Roles = []string{"witness"} }, nil},
		{"nameless attribute", func(c *Config) { c.Attributes = map[string]string{"": "x"} }, []string{"member-attributes"}},
		{"loss policy", func(c *Config) { c.OnPartitionLoss = "panic" }, []string{"on-partition-loss"}},
		{"negative delay", func(c *Config) { c.Engine.StateCleanupDelay = -1 }, []string{"engine.state-cleanup-delay-ms"}},
		{"no slots", func(c *Config) { c.Engine.DynamicSlot, c.Engine.SlotNum = false, 0 }, []string{"engine.slot-service.slot-num"}},
		{"no slots, but dynamic ones", func(c *Config) { c.Engine.DynamicSlot, c.Engine.SlotNum = true, 0 }, nil},
		{"checkpoints in what is no directory", func(c *Config) {
			c.Engine.CheckpointStorage, c.Engine.CheckpointNamespace = StorageLocalFile, os.Args[0]
		}, []string{"engine.checkpoint.storage.namespace"}},
		{"strategy", func(c *Config) { c.Engine.JobScheduleStrategy = "wait" }, []string{"engine.job-schedule-strategy"}},
		{"all are told", func(c *Config) { c.BackupCount = 9; c.Engine.HistoryMax = 0 }, []string{"backup-count", "engine.history-max"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			tt.change(&c)
			if diff := cmp.Diff(tt.want, wrongKeys(c.Validate())); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func wrongKeys(err error) (keys []string) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		if ce, ok := errors.AsType[*ConfigError](e); ok {
			keys = append(keys, ce.Key)
		}
	}
	return slices.Compact(keys)
}

func TestParseAddress(t *testing.T) {
	tests := []struct{ in, want string }{
		{"127.0.0.1:6010", "127.0.0.1:6010"},
		{"127.0.0.1", "127.0.0.1:5701"},
		{"::1", "[::1]:5701"},
		{"[::1]", "[::1]:5701"},
		{"[::1]:7900", "[::1]:7900"},
		{"fe80::1%lo", "[fe80::1%lo]:5701"},
		{"localhost", "localhost:5701"},
		{":9000", ":9000"},
		{"1.2.3.4:5:6", ""},
		{"a:b", ""},
		{"a b:1", ""},
		{"", ""},
	}
	for _, tt := range tests {
		got, err := ParseAddress(tt.in, DefaultGridPort)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("ParseAddress(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "box:1": false, "box": false,
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", addr, got, want)
		}
	}
}

func TestAgreedRoles(t *testing.T) {
	for _, test := range []struct{ told, want []string }{
		{[]string{RoleMaster}, []string{grid.RoleData}},
		{[]string{RoleMaster, grid.RoleWorker, grid.RoleData}, []string{grid.RoleData, grid.RoleWorker}},
		{[]string{grid.RoleWorker}, []string{grid.RoleWorker}},
		{[]string{RoleWitness}, []string{RoleWitness}},
	} {
		cfg := DefaultConfig()
		cfg.Roles = test.told
		if err := cfg.Validate(); err != nil || !slices.Equal(agreedRoles(test.told), test.want) {
			t.Errorf("roles %v: %v, %v", test.told, agreedRoles(test.told), err)
		}
	}
	cfg := DefaultConfig()
	cfg.Roles = []string{RoleWitness, RoleMaster}
	if err := cfg.Validate(); err == nil {
		t.Error("a witness may be master")
	}
}
