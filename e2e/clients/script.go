package clients

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/predicate"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// The suites have some things done on a member, by scripts in JavaScript. Here a client does them; these are the forms that scripts take.
var (
	scriptMap   = regexp.MustCompile(`getMap\("([^"]+)"\)`)
	scriptSet   = regexp.MustCompile(`map\.set\((\d+|"[^"]*"), (\d+|"[^"]*")\);`)
	scriptLoop  = regexp.MustCompile(`i < (\d+); i\+\+\) \{\s*(?:serverMap|items)\.put\(""\+i, ""\+i\);`)
	scriptQuery = regexp.MustCompile(`Predicates\.sql\("([^"]+)"\)\)\.size\(\);\s*if \(size != (\d+)\)`)
)

const scriptLimit = time.Minute

// runScript does what a script asks for in a cluster.
func (c *clusterOf) runScript(cluster, script string) error {
	name := scriptMap.FindStringSubmatch(script)
	if name == nil {
		return fmt.Errorf("the script is of no form that is known here:\n%s", script)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptLimit)
	defer cancel()
	if c.client == nil {
		cfg := hazelcast.Config{}
		cfg.Cluster.Name = cluster
		for _, m := range c.members {
			cfg.Cluster.Network.Addresses = append(cfg.Cluster.Network.Addresses, m.Address())
		}
		cfg.Logger.Level = logger.ErrorLevel
		client, err := hazelcast.StartNewClientWithConfig(ctx, cfg)
		if err != nil {
			return err
		}
		c.client = client
	}
	m, err := c.client.GetMap(ctx, name[1])
	if err != nil {
		return err
	}
	return scripted(ctx, m, script)
}

func scripted(ctx context.Context, m *hazelcast.Map, script string) error {
	if s := scriptSet.FindStringSubmatch(script); s != nil {
		return m.Set(ctx, literal(s[1]), literal(s[2]))
	}
	if s := scriptLoop.FindStringSubmatch(script); s != nil {
		n, _ := strconv.Atoi(s[1])
		entries := make([]types.Entry, n)
		for i := range entries {
			entries[i] = types.NewEntry(strconv.Itoa(i), strconv.Itoa(i))
		}
		return m.PutAll(ctx, entries...)
	}
	if s := scriptQuery.FindStringSubmatch(script); s != nil {
		keys, err := m.GetKeySetWithPredicate(ctx, predicate.SQL(s[1]))
		if err == nil && strconv.Itoa(len(keys)) != s[2] {
			err = fmt.Errorf("size is %d, not %s", len(keys), s[2])
		}
		return err
	}
	switch {
	case strings.Contains(script, "map.clear();"):
		return m.Clear(ctx)
	case strings.Contains(script, "map.loadAll(true);"):
		keys, err := m.GetKeySet(ctx)
		if err != nil {
			return err
		}
		return m.LoadAllReplacing(ctx, keys...)
	}
	return fmt.Errorf("the script is of no form that is known here:\n%s", script)
}

// literal is a number or a string of a script. Numbers are Java's integers.
func literal(s string) any {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n)
	}
	return strings.Trim(s, `"`)
}
