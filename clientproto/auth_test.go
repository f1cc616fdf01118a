package clientproto

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
)

// turning is a view that a test changes.
type turning struct {
	mu      sync.Mutex
	s       *grid.State
	changed chan struct{}
}

func (v *turning) View() (*grid.State, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.s, v.changed
}

func (v *turning) become(s *grid.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.s, v.changed = s, make(chan struct{})
}

// knock sends a request as a connection's first, and returns the answer and when it came.
func knock(t *testing.T, conn net.Conn, request []byte) (message, time.Duration) {
	t.Helper()
	began := time.Now()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	m, err := readAnswer(conn)
	if err != nil {
		t.Fatal(err)
	}
	return m, time.Since(began)
}

// A client that comes while the member still joins is let in once it has joined. It is not sent away before: some clients count that as the loss of
// a connection, and later leave the one that they get instead.
func TestAuthentication_WaitsForTheMemberToJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(3)
		in, _ := s.cfg.View.View()
		joining := *in
		joining.Members = []grid.Member{in.Members[0]}
		joining.Members[0].State = grid.Joining
		v := &turning{s: &grid.State{}, changed: make(chan struct{})}
		s.cfg.View = v
		time.AfterFunc(time.Second, func() { v.become(&joining) })
		time.AfterFunc(2*time.Second, func() { v.become(in) })
		m, after := knock(t, dial(t, s), unhex(t, authRequest))
		if m.kind() == 0 || m[0].body[answerHead] != authenticated || after != 2*time.Second {
			t.Errorf("after %v: %v", after, m)
		}
	})
}

// A client learns in time of a member that does not get into its cluster, and at once of one that has been removed.
func TestAuthentication_OutsideOfTheCluster(t *testing.T) {
	for name, want := range map[string]time.Duration{"never in": joinPatience, "removed": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(3)
				in, _ := s.cfg.View.View()
				v := &turning{s: in, changed: make(chan struct{})}
				s.cfg.View = v
				if name == "removed" {
					knock(t, dial(t, s), unhex(t, authRequest))
				}
				v.become(&grid.State{Index: 2, Partitions: in.Partitions})
				m, after := knock(t, dial(t, s), unhex(t, authRequest))
				if m.kind() != 0 || after > want+time.Second || after < want {
					t.Errorf("after %v: %v", after, m)
				}
			})
		})
	}
}

// Who may connect by which credentials, with what the member asks for.
func TestAuthentication_ByPasswordOrToken(t *testing.T) {
	password := func(user, password string) bool { return user == "ann" && password == "secret" }
	token := func(b []byte) bool { return bytes.Equal(b, []byte("t\x00k")) }
	with := func(kind uint32, user, pass any, credentials []byte) []byte {
		return requestOf(specs[kind], 1, func(f field) any {
			switch f.name {
			case "cluster":
				return "dev"
			case "version":
				return int64(serializationVer)
			case "user":
				return user
			case "password":
				return pass
			case "credentials":
				return credentials
			}
			return aValue(specs[kind], f)
		})
	}
	requests := map[string][]byte{
		"right password": with(withPassword, "ann", "secret", nil), "wrong password": with(withPassword, "ann", "secre", nil),
		"nothing": with(withPassword, nil, nil, nil), "right token": with(withToken, nil, nil, []byte("t\x00k")),
		"wrong token": with(withToken, nil, nil, []byte("t\x00")), "empty token": with(withToken, nil, nil, []byte{}),
	}
	for name, c := range map[string]struct {
		login func(string, string) bool
		token func([]byte) bool
		in    []string
	}{
		"neither":   {nil, nil, []string{"right password", "wrong password", "nothing", "right token", "wrong token", "empty token"}},
		"passwords": {password, nil, []string{"right password"}},
		"tokens":    {nil, token, []string{"right token"}},
		"both":      {password, token, []string{"right password", "right token"}},
	} {
		s := newTestServer(3)
		s.cfg.Login, s.cfg.Token = c.login, c.token
		in := map[string]bool{}
		for _, r := range c.in {
			in[r] = true
		}
		for r, raw := range requests {
			m, _ := knock(t, dial(t, s), raw)
			if m.kind() == 0 || (m[0].body[answerHead] == authenticated) != in[r] {
				t.Errorf("%s are asked for, %s: %v", name, r, m)
			}
		}
	}
}
