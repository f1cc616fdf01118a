package clients

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// With client-users-file, only clients that log in as one of them are let in; the passwords are in no log.
func TestGoClient_LogsIn(t *testing.T) {
	ctx := caseContext(t)
	dir := t.TempDir()
	users, logFile := filepath.Join(dir, "users"), filepath.Join(dir, "member.log")
	if err := os.WriteFile(users, []byte("ann:swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	m := startAt(t, "clients", freePort(t), nil, log, "--client-users-file", users, "--log-level", "debug")
	for _, c := range []struct {
		user, password string
		in             bool
	}{{"ann", "swordfish", true}, {"ann", "trout", false}, {"ann", "", false}, {"", "", false}, {"bob", "swordfish", false}} {
		cfg := through(m.Address())
		cfg.Cluster.Security.Credentials.Username, cfg.Cluster.Security.Credentials.Password = c.user, c.password
		cfg.Cluster.ConnectionStrategy.Timeout = types.Duration(500 * time.Millisecond)
		client, err := hazelcast.StartNewClientWithConfig(ctx, cfg)
		if (err == nil) != c.in {
			t.Errorf("user %q with %q: %v", c.user, c.password, err)
		}
		if err == nil {
			_ = client.Shutdown(context.Background())
		}
	}
	text, err := os.ReadFile(logFile)
	if err != nil || strings.Contains(string(text), "swordfish") || strings.Contains(string(text), "trout") {
		t.Errorf("a password is in the log, or there is none: %v", err)
	}
	if !strings.Contains(string(text), "wrong credentials") {
		t.Error("refusals are not in the log")
	}
}

// With client-tokens-file, only clients with one of the tokens are let in, and none with a password.
func TestPythonClient_LogsInWithAToken(t *testing.T) {
	python := languages[slices.IndexFunc(languages, func(l language) bool { return l.name == "python" })]
	packages := python.packages(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("app:open:sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startAt(t, "clients", freePort(t), nil, nil, "--client-tokens-file", tokens)
	for token, in := range map[string]bool{"open:sesame": true, "open": false} {
		cmd := python.program(t, packages, "python/login.py")
		cmd.Args = append(cmd.Args, "clients", m.Address(), token)
		if out, err := output(t, cmd); (err == nil) != in || strings.Contains(out, "let in") != in {
			t.Errorf("token %q: %v\n%s", token, err, out)
		}
	}
	cfg := through(m.Address())
	cfg.Cluster.ConnectionStrategy.Timeout = types.Duration(500 * time.Millisecond)
	if client, err := hazelcast.StartNewClientWithConfig(caseContext(t), cfg); err == nil {
		_ = client.Shutdown(context.Background())
		t.Error("a client without a token is let in")
	}
}
