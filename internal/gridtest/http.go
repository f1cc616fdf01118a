package gridtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Answer is what a member answered over HTTP.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Took   time.Duration
}

// Ask sends an HTTP request to a member, from a host of its own. An error means that there was no answer.
func (c *Cluster) Ask(m *Member, method, path, body string) (Answer, error) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Net.Host("client").Dial(ctx, addr)
		},
	}}
	req, err := http.NewRequest(method, "http://"+m.Host+":8080"+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	begin := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, string(b), time.Since(begin)}, err
}
