package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client gives up before a test's patience ends; a member that was killed refuses at once.
var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answer is what a member answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request; an error means that the member could not be asked.
func (m *member) call(method, path string, body []byte, header ...string) (answer, error) {
	req, err := http.NewRequest(method, m.http+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, b}, err
}

// must sends a request that has to be answered.
func (m *member) must(method, path, body string, header ...string) answer {
	m.t.Helper()
	a, err := m.call(method, path, []byte(body), header...)
	if err != nil {
		m.t.Fatalf("%s %s %s: %v", m.name, method, path, err)
	}
	return a
}

func (m *member) post(path, body string) answer { m.t.Helper(); return m.must("POST", path, body) }

// get asks a living member until it answers something else than "try again", which a read may always be told.
func (m *member) get(path string) answer {
	m.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		a, err := m.call("GET", path, nil)
		if err == nil && a.status != http.StatusServiceUnavailable && a.status != http.StatusGatewayTimeout {
			return a
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s GET %s: %d %s %v", m.name, path, a.status, a.body, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// read asks for JSON.
func read[T any](m *member, path string) T {
	m.t.Helper()
	var v T
	a := m.get(path)
	if a.status != http.StatusOK {
		m.t.Fatalf("%s GET %s: %d %s", m.name, path, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		m.t.Fatalf("%s GET %s: %v in %s", m.name, path, err, a.body)
	}
	return v
}

// refused checks the body of a refusal: a status of the caller's fault, and a message that names what is wrong.
func refused(t *testing.T, what string, a answer, names string) {
	t.Helper()
	var v struct{ Status, Message string }
	if err := json.Unmarshal(a.body, &v); err != nil || v.Status != "fail" {
		t.Errorf("%s: answered %d %s", what, a.status, a.body)
		return
	}
	if a.status < 400 || a.status >= 500 {
		t.Errorf("%s: status %d, want 4xx", what, a.status)
	}
	if v.Message == "" || v.Message == "null" || !strings.Contains(v.Message, names) {
		t.Errorf("%s: message %q does not name %q", what, v.Message, names)
	}
	if strings.Contains(string(a.body), "goroutine ") {
		t.Errorf("%s: a stack trace is in the answer", what)
	}
}
