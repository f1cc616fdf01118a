package gridtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/node"
)

// logged is a log in JSON that all members write.
type logged struct {
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.out.String(), "\n"), "\n")
}

func (l *logged) option(cfg *node.Config) {
	cfg.Logger = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// keysOnce fails if a line has a key twice: readers of JSON refuse that, or lose one of the two.
func keysOnce(line string) error {
	d := json.NewDecoder(strings.NewReader(line))
	seen, depth, isKey := map[string]bool{}, 0, true
	for d.More() || depth > 0 {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			isKey = true
			continue
		case string:
			if depth == 1 && isKey && seen[v] {
				return fmt.Errorf("%s is there twice", v)
			}
			seen[v] = seen[v] || depth == 1 && isKey
		}
		isKey = depth != 1 || !isKey
	}
	return nil
}

// TestLog_KeysOnce: whatever members log in all their parts, when others join, leave and die, no line has a key twice.
func TestLog_KeysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logged
		c := Start(t, 3, few, l.option)
		defer c.Stop()
		c.Add()
		c.AwaitSafe(4, time.Minute)
		if err := c.Leave(c.others(c.Master())[0]); err != nil {
			t.Error(err)
		}
		c.Crash(c.Master())
		c.AwaitSafe(2, time.Minute)
		if _, err := c.Ask(c.Live()[0], "POST", "/submit-job", clusterRequests[9].body); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		parts := map[string]bool{}
		for _, line := range l.lines() {
			if err := keysOnce(line); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			var x struct{ Component string }
			if json.Unmarshal([]byte(line), &x) == nil {
				parts[x.Component] = true
			}
		}
		for _, part := range []string{"transport", "cluster", "gossip", "raft", "engine"} {
			if !parts[part] {
				t.Errorf("%s has logged nothing", part)
			}
		}
	})
}

// TestJoin_SettingsOfTheClusterAreSaid: a member that is told other settings than the cluster was formed with says that they have no effect; one
// that has only the defaults does not.
func TestJoin_SettingsOfTheClusterAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logged
		backups, partitions := 0, 7
		c := Start(t, 1, l.option, func(cfg *node.Config) { cfg.BackupCount, cfg.Partitions = backups, partitions })
		defer c.Stop()
		said := func() (out []string) {
			for _, line := range l.lines() {
				if strings.Contains(line, "has no effect") {
					out = append(out, line)
				}
			}
			return out
		}
		backups, partitions = node.DefaultConfig().BackupCount, node.DefaultConfig().Partitions
		c.Add()
		c.AwaitSafe(2, time.Minute)
		if got := said(); len(got) > 0 {
			t.Errorf("with the defaults: %v", got)
		}
		backups, partitions = 3, 17
		c.Add()
		c.AwaitSafe(3, time.Minute)
		got := said()
		if len(got) != 2 || !strings.Contains(got[0], `"partition-count","here":17,"cluster":7`) || !strings.Contains(got[1], `"backup-count","here":3,"cluster":0`) {
			t.Errorf("with others: %v", got)
		}
	})
}
