package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// client asks members over connections that stay open.
type client struct{ http *http.Client }

// newClient allows so many connections to a member to wait for their next request.
func newClient(connections int) *client {
	return &client{http: &http.Client{
		Timeout:   40 * time.Second, // longer than a member takes to say that it does not know
		Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxIdleConns: 16 * connections},
	}}
}

// answer is what a member answered.
type answer struct {
	status     int
	etag, body string
}

// do sends a request; headers come in pairs. An error means that there was no answer.
func (c *client) do(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "text/plain")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Etag"), string(b)}, err
}

// get asks for JSON.
func (c *client) get(ctx context.Context, m *member, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a, err := c.do(ctx, http.MethodGet, m.http+path, "")
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s GET %s: %d %s", m.name, path, a.status, a.body)
	}
	return json.Unmarshal([]byte(a.body), into)
}

// clusterView is how a member sees the cluster.
type clusterView struct {
	MasterName                  string
	Size, Moves, LostPartitions int
	Safe                        bool
}

// partitionsOf returns the partitions that a member is the primary of, as another one sees it.
func (c *client) partitionsOf(ctx context.Context, m, through *member) ([]int, error) {
	var members struct{ Members []struct{ ID, Name string } }
	if err := c.get(ctx, through, "/api/v1/members", &members); err != nil {
		return nil, err
	}
	var table struct {
		Partitions []struct {
			ID      int
			Primary string
		}
	}
	if err := c.get(ctx, through, "/api/v1/partitions", &table); err != nil {
		return nil, err
	}
	var out []int
	for _, x := range members.Members {
		for _, p := range table.Partitions {
			if x.Name == m.name && p.Primary == x.ID {
				out = append(out, p.ID)
			}
		}
	}
	return out, nil
}
