package clientproto

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"gridnode/grid"
)

// The requests that say who a client is.
const (
	withPassword = 0x000100
	withToken    = 0x000200
)

// What an authentication may come to.
const (
	authenticated     = 0
	credentialsFailed = 1
	versionMismatch   = 2
)

const mapService = "hz:impl:mapService"

// handler does a request and returns the answer.
type handler func(ctx context.Context, q *call) ([]byte, error)

// authenticate takes the first request of a connection, which must say who the client is. An error ends the connection.
func (c *conn) authenticate(ctx context.Context, q *call) error {
	if q.spec.id != withPassword && q.spec.id != withToken {
		err := fail(codeAuthentication, "the first request must be an authentication, not %s", q.spec.name)
		c.send(failure(q.m.correlation(), err))
		return c.flushed(err)
	}
	s, self, ok := c.s.joined(ctx)
	if !ok {
		err := fail(codeNotActive, "this member is not, or not yet, part of its cluster")
		c.send(failure(q.m.correlation(), err))
		return c.flushed(err)
	}
	status := c.judge(q)
	listed := s
	if status != authenticated {
		listed = &grid.State{} // who is refused learns nothing of the cluster
	}
	e := q.answer()
	e.byte(byte(status))
	e.uuid(uuidOf(string(c.s.cfg.Self)))
	e.byte(serializationVer)
	e.int32(int32(len(s.Partitions)))
	e.uuid(uuidOf(s.ClusterID))
	e.bool(false) // no failover to another cluster
	e.int32(int32(listed.Index))
	e.int32(int32(listed.Index))
	address(e, self.Address)
	e.string(serverVersion)
	e.null() // ports and token of thread-per-core
	e.null()
	members(e, listed) // clients of Java have no others to begin with, from 5.5 on
	partitions(e, listed)
	e.open() // pairs of texts
	e.close()
	c.send(e.bytes())
	if status != authenticated {
		return c.flushed(fmt.Errorf("client %q was refused", q.text("name")))
	}
	c.client, c.name, c.known = q.uuid("uuid"), q.text("name"), true
	c.session = c.client.String()
	c.s.arrived(c.session)
	c.s.log.Info("client connected", "client", c.name, "type", q.text("type"), "version", q.text("clientVersion"), "from", c.raw.RemoteAddr())
	return nil
}

// flushed gives the writer up to a second to send the last message.
func (c *conn) flushed(err error) error {
	for range 1000 {
		c.mu.Lock()
		sent := len(c.out) == 0 && !c.writing
		c.mu.Unlock()
		if sent {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// joined returns the agreed state once this member is part of it and there are partitions: some clients cannot bear a list of members that is
// empty. A member that is coming up lets clients wait, as a listener does on which nobody accepts yet. The Go client counts a connection that is
// closed before it is let in like one that it has lost: after that it would leave again the one that it gets next.
func (s *Server) joined(ctx context.Context) (*grid.State, grid.Member, bool) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	for {
		state, changed := s.cfg.View.View()
		self, ok := state.Member(s.cfg.Self)
		if ok && shown(self) && len(state.Partitions) > 0 {
			s.wasIn.Store(true)
			return state, self, true
		}
		if s.wasIn.Load() { // it has been removed, and will not be back as the same member
			return nil, grid.Member{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, grid.Member{}, false
		}
	}
}

func (c *conn) judge(q *call) int {
	switch {
	case q.text("cluster") != c.s.cfg.ClusterName:
		c.s.log.Warn("client refused: another cluster's name", "client", q.text("name"), "cluster", q.text("cluster"), "from", c.raw.RemoteAddr())
		return credentialsFailed
	case !c.admitted(q):
		c.s.log.Warn("client refused: wrong credentials", "client", q.text("name"), "by", loginName(q), "from", c.raw.RemoteAddr())
		return credentialsFailed
	case q.long("version") != serializationVer:
		return versionMismatch
	}
	return authenticated
}

// admitted reports whether a client may connect by what it shows of itself.
func (c *conn) admitted(q *call) bool {
	cfg := c.s.cfg
	switch {
	case cfg.Login == nil && cfg.Token == nil:
		return true
	case q.spec.id == withToken:
		return cfg.Token != nil && cfg.Token(q.raw("credentials"))
	default:
		return cfg.Login != nil && cfg.Login(q.text("user"), q.text("password"))
	}
}

// loginName is what may be shown of the credentials.
func loginName(q *call) string {
	if q.spec.id == withToken {
		return "a token"
	}
	return "user " + q.text("user")
}

// address writes host:port as the protocol does.
func address(e *encoder, hostport string) {
	host, port, _ := net.SplitHostPort(hostport)
	n, _ := strconv.Atoi(port)
	e.open()
	e.begin(0)
	e.int32(int32(n))
	e.string(host)
	e.close()
}

func createProxy(_ context.Context, q *call) ([]byte, error) {
	if s := q.text("service"); s != mapService {
		return nil, fail(codeUnsupported, "%s %q: of Hazelcast's structures only maps are supported", s, q.text("name"))
	}
	q.c.s.object(q.text("name"), true)
	return q.empty()
}

func empty(_ context.Context, q *call) ([]byte, error) { return q.empty() }

// registered answers a registration whose events never come, for what they tell does not happen here.
func registered(_ context.Context, q *call) ([]byte, error) {
	e := q.answer()
	e.uuid(newUUID())
	return e.bytes(), nil
}

// deregistered answers the end of one.
func deregistered(_ context.Context, q *call) ([]byte, error) {
	e := q.answer()
	e.bool(true)
	return e.bytes(), nil
}
