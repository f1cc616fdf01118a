package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	dialTimeout  = 2 * time.Second
	readTimeout  = 10 * time.Second // of a request that changes nothing, so that another member can be asked
	writeTimeout = 40 * time.Second // longer than a member takes to give up by itself
	pauseBetween = 200 * time.Millisecond
	maxAnswer    = 64 << 20
)

// client talks to a cluster through any member that answers. It is used by one goroutine at a time.
type client struct {
	endpoints []string // base URLs
	guessed   bool     // the endpoints are defaults: what listens there may be something else
	current   int      // of endpoints
	reached   bool     // some member has answered
	patience  time.Duration

	readLimit, writeLimit time.Duration // of one attempt
	http                  *http.Client
}

// newClient takes the endpoints from the flags, else from the environment, else looks where members are by default.
func newClient(endpoints, environ []string, patience time.Duration) (*client, error) {
	c := &client{patience: patience, readLimit: readTimeout, writeLimit: writeTimeout, http: &http.Client{
		Transport: &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	where := "--http"
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, envPrefix+"HTTP="); ok && len(endpoints) == 0 {
			endpoints, where = split(value), envPrefix+"HTTP"
		}
	}
	for _, given := range endpoints {
		for _, e := range split(given) {
			base, err := baseURL(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			c.endpoints = append(c.endpoints, base)
		}
	}
	if len(c.endpoints) == 0 {
		c.endpoints, c.guessed = defaultEndpoints(), true
	}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// baseURL also takes host:port.
func baseURL(s string) (string, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not a URL such as http://127.0.0.1:8080", s)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// request is a call of the REST API.
type request struct {
	method, path string // path with query, escaped
	header       map[string]string
	body         []byte
	repeatable   bool // doing it twice is like doing it once
}

// reply is an answer other than 5xx.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// statusError is an answer that is an error.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }

// unknownError says that a request may have done its work.
type unknownError struct{ cause error }

func (e *unknownError) Error() string {
	return fmt.Sprintf("the outcome is unknown, the change may or may not have been made: %v", e.cause)
}
func (e *unknownError) Unwrap() error { return e.cause }

// verdict says what to do after an attempt.
type verdict int

const (
	answered  verdict = iota
	elsewhere         // a member was reached, but somebody else has to be asked, or later
	gone              // no member was reached
)

// do asks one member after the other until one answers, for as long as the client's patience. It never repeats what may have been done
// already, unless that does no harm.
func (c *client) do(ctx context.Context, req request) (reply, error) {
	deadline := time.Now().Add(c.patience)
	for {
		var last error
		silent := true
		for range c.endpoints {
			rep, v, err := c.attempt(ctx, req)
			if v == answered {
				c.reached = c.reached || err == nil
				return rep, err
			}
			silent = silent && v == gone
			last = err
			c.current = (c.current + 1) % len(c.endpoints)
			if ctx.Err() != nil {
				return reply{}, context.Cause(ctx)
			}
		}
		if silent && !c.reached {
			return reply{}, c.nobody(last)
		}
		if time.Now().After(deadline) {
			return reply{}, fmt.Errorf("no member could answer within %v: %w", c.patience, last)
		}
		if err := pause(ctx, pauseBetween); err != nil {
			return reply{}, err
		}
	}
}

func (c *client) nobody(last error) error {
	if c.guessed {
		return fmt.Errorf("no member answers at %s to %s; start one with: gridnode start (or say where it is with --http)",
			c.endpoints[0], c.endpoints[len(c.endpoints)-1])
	}
	return fmt.Errorf("no member answers at %s: %w", strings.Join(c.endpoints, ", "), last)
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt asks the current endpoint.
func (c *client) attempt(ctx context.Context, req request) (reply, verdict, error) {
	timeout := c.writeLimit
	if req.method == http.MethodGet {
		timeout, req.repeatable = c.readLimit, true
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	hr, err := http.NewRequestWithContext(ctx, req.method, c.endpoints[c.current]+req.path, bytes.NewReader(req.body))
	if err != nil {
		return reply{}, answered, err
	}
	for name, value := range req.header {
		hr.Header.Set(name, value)
	}
	res, err := c.http.Do(hr)
	if err != nil {
		return c.unanswered(ctx, req, timeout, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case !strings.HasPrefix(res.Header.Get("Server"), "gridnode"):
		return reply{}, gone, fmt.Errorf("%s is not a gridnode", c.endpoints[c.current])
	case err != nil && req.repeatable:
		return reply{}, elsewhere, err
	case err != nil:
		return reply{}, answered, &unknownError{err}
	}
	return judge(reply{res.StatusCode, res.Header, body}, req)
}

// unanswered says what an attempt means that ended without an answer. Whoever was reached and stayed silent is no less there for it.
func (c *client) unanswered(ctx context.Context, req request, timeout time.Duration, err error) (reply, verdict, error) {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return reply{}, gone, err
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s was reached, but did not answer within %v", c.endpoints[c.current], timeout)
	} else {
		err = fmt.Errorf("%s was reached, but broke off: %w", c.endpoints[c.current], err)
	}
	if req.repeatable {
		return reply{}, elsewhere, err
	}
	return reply{}, answered, &unknownError{err}
}

func judge(rep reply, req request) (reply, verdict, error) {
	if rep.status < 400 {
		return rep, answered, nil
	}
	err := error(&statusError{rep.status, rep.message()})
	switch {
	case rep.status == http.StatusServiceUnavailable, rep.status == http.StatusGatewayTimeout && req.repeatable:
		return reply{}, elsewhere, err
	case rep.status == http.StatusGatewayTimeout:
		return reply{}, answered, &unknownError{err}
	}
	return rep, answered, err
}

// message is what an error answer says.
func (r reply) message() string {
	var body struct{ Message string }
	if err := json.Unmarshal(r.body, &body); err != nil || body.Message == "" {
		return fmt.Sprintf("HTTP %d %s", r.status, http.StatusText(r.status))
	}
	return body.Message
}

// get reads JSON into v and returns it as it came.
func (c *client) get(ctx context.Context, path string, v any) (json.RawMessage, error) {
	rep, err := c.do(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rep.body, v); err != nil {
		return nil, fmt.Errorf("the answer to GET %s cannot be read: %w", path, err)
	}
	return bytes.TrimSpace(rep.body), nil
}

// learn asks for the addresses of all members, so that the death of one does not end a command. Those that were known stay.
func (c *client) learn(ctx context.Context) error {
	var list memberList
	if _, err := c.get(ctx, "/api/v1/members", &list); err != nil {
		return err
	}
	at := c.endpoints[c.current]
	if c.guessed { // of the guesses only the one that answered is known to be ours
		c.endpoints, c.current, c.guessed = []string{at}, 0, false
	}
	for _, m := range list.Members {
		if base, err := baseURL(m.HTTP); err == nil && !slices.Contains(c.endpoints, base) {
			c.endpoints = append(c.endpoints, base)
		}
	}
	return nil
}
