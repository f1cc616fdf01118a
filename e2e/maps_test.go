package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestMaps walks through the maps' REST on every member.
func TestMaps(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	do := func(m *member, method, key, body string, want int, header ...string) answer {
		t.Helper()
		a, err := m.call(method, "/api/v1/maps/m/entries/"+key, []byte(body), header...)
		if err != nil || a.status != want {
			t.Errorf("%s %s %s %v: %d %s %v, want %d", method, key, body, header, a.status, a.body, err, want)
		}
		return a
	}
	for i, m := range c.members {
		next := c.members[(i+1)%3]
		key := url.PathEscape(fmt.Sprintf("a/b %d", i))
		do(m, "GET", key, "", 404)
		tag := do(m, "PUT", key, `{"n":1}`, 201, "Content-Type", "application/json").header.Get("ETag")
		a := do(next, "GET", key, "", 200)
		if string(a.body) != `{"n":1}` || a.header.Get("ETag") != tag || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
			t.Errorf("read %s %v", a.body, a.header)
		}
		do(next, "PUT", key, "x", 412, "If-None-Match", "*", "Content-Type", "text/plain")
		do(next, "PUT", key, "x", 412, "If-Match", `"1"`, "Content-Type", "text/plain")
		do(next, "PUT", key, "x", 200, "If-Match", tag, "Content-Type", "text/plain")
		do(next, "PUT", key, "<p>", 200, "Content-Type", "text/html")
		if a := do(m, "GET", key, "", 200); !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("content type %s", a.header.Get("Content-Type"))
		}
		do(m, "PUT", key, "{", 400, "Content-Type", "application/json")
		do(m, "DELETE", key, "", 204)
		do(next, "GET", key, "", 404)
	}
	m := c.members[0]
	refused(t, "a bad ttl", do(m, "PUT", "k?ttl=soon", "v", 400, "Content-Type", "text/plain"), "ttl")
	do(m, "PUT", "k?ttl=1s", "v", 201, "Content-Type", "text/plain")
	do(m, "GET", "k", "", 200)
	took := c.await(5*time.Second, "expiry", func() bool { return c.members[1].get("/api/v1/maps/m/entries/k").status == 404 })
	if took < 500*time.Millisecond {
		t.Errorf("an entry with a second to live was gone after %v", took)
	}
}
