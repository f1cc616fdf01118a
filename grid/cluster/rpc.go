package cluster

import (
	"context"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

// phase is how far a member is on its way into a cluster.
type phase uint8

const (
	alone   phase = iota // looks for others
	forming              // has declared that it will form a cluster, and looks once more
	formed               // knows its cluster
)

// helloMsg is what a member tells about itself: the body of both question and answer.
type helloMsg struct {
	ID          grid.MemberID
	Name        string
	Address     string
	ClusterName string
	ClusterID   string // if formed
	Phase       phase
	Expect      int
	Master      string   // the master's address, if known
	Peers       []string // addresses of others that it knows
}

// joinMsg asks for membership. AcceptedAt is the Index of an earlier positive answer, or 0.
type joinMsg struct {
	Member     grid.Member
	AcceptedAt uint64
}

// joinReply answers it. If Accepted and Removed are false and Master is set, that address is to be asked.
type joinReply struct {
	Accepted  bool
	Removed   bool // it was accepted before and removed since
	Index     uint64
	ClusterID string
	Master    string
}

// beatMsg is a heartbeat: renew my lease. Index is how far the member has applied the log.
type beatMsg struct {
	ID      grid.MemberID
	Index   uint64 // how far it has applied the log
	Learned uint64 // how far its parts have taken that in; not above Index
}

// beatReply answers it.
type beatReply struct {
	ClusterID string // of the one who answers
	Granted   bool
	Removed   bool
	Term      uint64
	Master    grid.MemberID // who to ask, if known
	Index     uint64        // with a grant: how far the master has applied the log
	Doubt     bool          // with a grant: a member that may hold replicas does not seem to be there
}

// confirmMsg asks a voter which raft term it knows, and confirmReply answers. A voter of another cluster, recovered out of this one, does not.
type confirmMsg struct {
	Term      uint64
	ClusterID string
}

type confirmReply struct{ Term uint64 }

// call makes a control call with the limit of callTimeout; an empty id means whoever is at addr.
func call[Q, A any](ctx context.Context, c *Cluster, id grid.MemberID, addr string, kind wire.Kind, q Q) (A, error) {
	var a A
	body, err := msgpack.Marshal(&q)
	if err != nil {
		return a, fmt.Errorf("encode %s: %w", kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var answer []byte
	if id != "" {
		answer, err = c.t.Call(ctx, id, kind, body)
	} else {
		answer, err = c.t.CallAddr(ctx, addr, kind, body)
	}
	if err != nil {
		return a, err
	}
	if err := pack.Unmarshal(answer, &a); err != nil {
		return a, fmt.Errorf("answer to %s: %w: %v", kind, grid.ErrIndeterminate, err)
	}
	return a, nil
}

func encode(v any) ([]byte, error) { return msgpack.Marshal(v) }

func decode(body []byte, v any) error { return pack.Unmarshal(body, v) }

// respond encodes an answer.
func respond(reply func([]byte, error), answer any) {
	body, err := msgpack.Marshal(answer)
	reply(body, err)
}

// decodeRequest reads a request's body; if it cannot, it answers so and ok is false.
func decodeRequest(body []byte, reply func([]byte, error), into any) (ok bool) {
	if reply == nil {
		return false
	}
	if err := pack.Unmarshal(body, into); err != nil {
		reply(nil, fmt.Errorf("%w: %v", grid.ErrBadMessage, err))
		return false
	}
	return true
}

// serveHello tells who this member is, and takes note of who asked.
func (c *Cluster) serveHello(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var in helloMsg
	if !decodeRequest(body, reply, &in) {
		return
	}
	mine := c.hello()
	if in.ClusterID != "" && mine.ClusterID != "" && in.ClusterID != mine.ClusterID {
		reply(nil, twoClusters(mine, in))
		return
	}
	c.form.learn(in.Address)
	respond(reply, &mine)
}

func twoClusters(mine, other helloMsg) error {
	return fmt.Errorf("%w: %s belongs to cluster %q with id %s, %s to cluster %q with id %s; they never merge, start one of them anew to join the other",
		grid.ErrRefused, mine.Address, mine.ClusterName, mine.ClusterID, other.Address, other.ClusterName, other.ClusterID)
}

// hello is what this member tells about itself now.
func (c *Cluster) hello() helloMsg {
	s, _ := c.View()
	m := helloMsg{
		ID: c.self.ID, Name: c.self.Name, Address: c.self.Address, ClusterName: c.cfg.ClusterName, ClusterID: s.ClusterID,
		Phase: c.form.now(), Expect: c.cfg.Expect,
	}
	if s.Formed() {
		m.Phase = formed
		if master, ok := s.Member(s.Master); ok {
			m.Master = master.Address
		}
		return m
	}
	m.Peers = c.form.known()
	return m
}

// serveConfirm tells a master which raft term this voter knows.
func (c *Cluster) serveConfirm(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var in confirmMsg
	if !decodeRequest(body, reply, &in) {
		return
	}
	r := c.raft.Load()
	if r == nil {
		reply(nil, errNotRunning())
		return
	}
	if s, _ := c.View(); in.ClusterID != "" && s.ClusterID != "" && in.ClusterID != s.ClusterID {
		reply(nil, fmt.Errorf("%w: this voter is in another cluster by now", grid.ErrRefused))
		return
	}
	respond(reply, &confirmReply{Term: r.CurrentTerm()})
}

// serveJoin passes the request to the master's loop, or names the master.
func (c *Cluster) serveJoin(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var in joinMsg
	if !decodeRequest(body, reply, &in) {
		return
	}
	if m := c.reign.Load(); m != nil {
		m.offerJoin(in, reply)
		return
	}
	s, _ := c.View()
	master, _ := s.Member(s.Master)
	if master.ID == c.self.ID { // not any more, or not yet
		master.Address = ""
	}
	respond(reply, &joinReply{ClusterID: s.ClusterID, Master: master.Address})
}

// serveBeat passes a heartbeat to the master's loop; a member that is not master says what it knows.
func (c *Cluster) serveBeat(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var in beatMsg
	if !decodeRequest(body, reply, &in) {
		return
	}
	if m := c.reign.Load(); m != nil {
		m.offerBeat(in, reply)
		return
	}
	s, _ := c.View()
	respond(reply, &beatReply{ClusterID: s.ClusterID, Removed: removed(s, in), Term: s.Term, Master: s.Master})
}

// removed reports whether a member that has seen itself in the log up to in.Index was removed since. A view that is older says nothing.
func removed(s *grid.State, in beatMsg) bool {
	_, ok := s.Member(in.ID)
	return !ok && in.Index > 0 && s.Index >= in.Index
}
