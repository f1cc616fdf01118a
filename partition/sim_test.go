package partition

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

var simRuns = flag.Int("sim.runs", 3000, "random schedules of TestSimulation")
var simSeed = flag.Uint64("sim.seed", 1, "first seed of TestSimulation")

// counter is a Store of one number. Its operations cannot be repeated unnoticed.
type counter struct{ n, version uint64 }

func (c *counter) Execute(op grid.Op, v Version, _ time.Time) Outcome {
	out := Outcome{Reply: binary.BigEndian.AppendUint64(nil, c.n), Sees: Version(c.version).Seq()}
	next := binary.BigEndian.AppendUint64(nil, c.n+1)
	switch do := string(op.Encoded()); {
	case do == "inc", do == "inc if even" && c.n%2 == 0:
		out.Reply, out.Effect = next, next
	case do != "get":
		out.Reply = make([]byte, 8)
	}
	return out
}

func (c *counter) Apply(effect []byte, v Version, _ time.Time) ([]string, error) {
	c.n, c.version = binary.BigEndian.Uint64(effect), uint64(v)
	return nil, nil
}
func (c *counter) Over(time.Time, func(grid.MemberID) bool) []byte { return nil }
func (c *counter) Snapshot(int, time.Time) (int, func(int, time.Time) []byte) {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.n), c.version)
	return 2, func(i int, _ time.Time) []byte { return [][]byte{b[:5], b[5:]}[i] }
}

// staged restores in two pieces.
type staged struct {
	counter
	buf  []byte
	show func(n uint64)
}

func (c *staged) Restore(piece []byte, _ time.Time) error {
	c.buf = append(c.buf, piece...)
	if len(c.buf) == 16 {
		c.n, c.version = binary.BigEndian.Uint64(c.buf), binary.BigEndian.Uint64(c.buf[8:])
	}
	return nil
}

type simMsg struct {
	kind wire.Kind
	body []byte
}

// sim is a cluster of replicas of one partition with every choice made by a random source.
type sim struct {
	rnd     *rand.Rand
	now     time.Time
	state   *grid.State // newest agreed
	log     []*grid.State
	members []*simMember
	links   map[[2]int][]simMsg
	props   []grid.ReplicaChange
	trace   []string

	pace [6]int     // weights of what may happen next; drawn anew for every run, so that runs differ in kind
	bad  badVariant // what this run does wrong on purpose

	ambush bool // members tend to die in the midst of sending to several others
	jumble bool // messages may overtake, as those of a new connection may those of the old one

	high    uint64              // highest value that any completed call has shown
	acked   map[uint64]*simCall // by the value to which the counter was raised
	calls   []*simCall
	delayed []simAttempt
	fail    string
}

// badVariant breaks one rule of the protocol, so that the simulation can be seen to notice.
type badVariant string

const (
	ackBeforeBackup badVariant = "a backup's ack is made up when the effect is sent"
	noSeal          badVariant = "a seal is answered in its receiver's stead"
	leaseForEver    badVariant = "a member never believes that its lease has lapsed"
	noLevel         badVariant = "a takeover believes that all replicas are equal"
	noRequest       badVariant = "a call that is sent again does not say that it is the same"
	copyNoCalls     badVariant = "a full copy comes without the table of calls"
	notAgain        badVariant = "a call that is sent again does not say so"
)

type simMember struct {
	s       *sim
	id      grid.MemberID
	i       int
	r       *replica
	learned int
	lease   bool
	alive   bool
}

func (m *simMember) send(to grid.MemberID, kind wire.Kind, body []byte) {
	j := int(to[0] - 'A')
	switch {
	case m.s.bad == ackBeforeBackup && kind == wire.Effects:
		e := must[effectsMsg](body)
		last := e.Effects[len(e.Effects)-1]
		m.s.links[[2]int{j, m.i}] = append(m.s.links[[2]int{j, m.i}], simMsg{wire.Ack, encode(ackMsg{Epoch: e.Epoch, Seq: last.Seq, Last: last.Epoch})})
	case m.s.bad == noSeal && kind == wire.Seal:
		e := must[sealMsg](body)
		seq, last := m.r.log.last()
		m.s.links[[2]int{j, m.i}] = append(m.s.links[[2]int{j, m.i}], simMsg{wire.Sealed, encode(sealedMsg{Epoch: e.Epoch, Born: m.r.born, Seq: seq, Last: last})})
		return
	case m.s.bad == copyNoCalls && kind == wire.Snapshot:
		c := must[copyMsg](body)
		if c.Calls {
			c.Data = encode(callsPiece{})
		}
		body = encode(c)
	}
	if m.s.members[j].alive && len(m.s.links[[2]int{m.i, j}]) < 64 {
		m.s.links[[2]int{m.i, j}] = append(m.s.links[[2]int{m.i, j}], simMsg{kind, body})
	}
}
func (m *simMember) propose(c grid.ReplicaChange) { m.s.props = append(m.s.props, c) }
func (m *simMember) leased() bool                 { return m.lease || m.s.bad == leaseForEver }
func (m *simMember) isMember(id grid.MemberID) bool {
	if id == simClient {
		return true
	}
	_, ok := m.s.log[m.learned].Member(id)
	return ok
}
func (m *simMember) mayAct(id grid.MemberID) bool { return m.isMember(id) }
func (m *simMember) newStore() Store              { return &staged{show: m.s.committed} }
func (m *simMember) event(name string, _ grid.PartitionID, e grid.Epoch, args ...any) {
	m.s.note("%s: %s e%d %v", m.id, name, e, args)
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func newSim(seed uint64, members, replicas int) *sim {
	s := &sim{rnd: rand.New(rand.NewPCG(seed, 7)), now: time.Now(), links: map[[2]int][]simMsg{}, acked: map[uint64]*simCall{}}
	s.pace = [6]int{10 + s.rnd.IntN(50), 5 + s.rnd.IntN(30), 3 + s.rnd.IntN(30), 5 + s.rnd.IntN(20), 3 + s.rnd.IntN(20), 1 + s.rnd.IntN(8)}
	s.ambush, s.jumble = s.rnd.IntN(3) == 0, s.rnd.IntN(4) == 0
	s.state = &grid.State{}
	s.commit(grid.Command{Form: &grid.Form{ClusterID: "c", Partitions: 1, Backups: replicas - 1, Expect: 1}})
	var ids []grid.MemberID
	for i := range members {
		id := grid.MemberID(string(rune('A' + i)))
		s.commit(grid.Command{Add: &grid.AddMember{Member: grid.Member{ID: id, Address: string(id), Roles: []string{grid.RoleData}}}})
		s.commit(grid.Command{State: &grid.SetState{ID: id, State: grid.Active}})
		m := &simMember{s: s, id: id, i: i, lease: true, alive: true}
		m.r = newReplica(0, id, m)
		s.members = append(s.members, m)
		if i < replicas {
			ids = append(ids, id)
		}
	}
	s.commit(grid.Command{Replica: &grid.ReplicaChange{Op: grid.OpAssign, Members: ids}})
	s.log = []*grid.State{s.state}
	for _, m := range s.members {
		m.r.learn(s.state.Partitions[0], s.now)
	}
	return s
}

func (s *sim) commit(c grid.Command) {
	next, err := s.state.Apply(c)
	if err == nil {
		s.state = next
		s.log = append(s.log, next)
	}
}

// step makes one random choice. Faults are as the world has them: messages late or lost, members dead or without a lease, tables late.
func (s *sim) step() {
	s.now = s.now.Add(time.Duration(s.rnd.IntN(60)) * time.Millisecond)
	m := s.members[s.rnd.IntN(len(s.members))]
	total := 0
	for _, w := range s.pace {
		total += w
	}
	k, act := s.rnd.IntN(total), 0
	for k >= s.pace[act] {
		k -= s.pace[act]
		act++
	}
	[...]func(*simMember){s.someDeliver, s.invoke, s.learn, s.tick, s.someCommit, s.fault}[act](m)
}

func (s *sim) someDeliver(*simMember) { s.deliver() }

func (s *sim) learn(m *simMember) {
	if m.alive && m.learned < len(s.log)-1 {
		m.learned += 1 + s.rnd.IntN(len(s.log)-1-m.learned)
		s.note("%s learns %+v", m.id, s.log[m.learned].Partitions[0])
		m.r.learn(s.log[m.learned].Partitions[0], s.now)
	}
}

func (s *sim) tick(m *simMember) {
	if m.alive {
		m.r.tick(s.now)
	}
}

func (s *sim) someCommit(m *simMember) {
	if len(s.props) == 0 || s.rnd.IntN(3) == 0 {
		s.master(m)
		return
	}
	i := s.rnd.IntN(len(s.props))
	c := s.props[i]
	s.props = slices.Delete(s.props, i, i+1)
	s.note("commit %s %s at e%d", c.Op, c.Member, c.Epoch)
	s.commit(grid.Command{Replica: &c})
}

func (s *sim) fault(m *simMember) {
	switch s.rnd.IntN(4) {
	case 0:
		delete(s.links, [2]int{s.rnd.IntN(len(s.members)), m.i})
	case 1:
		s.kill(m)
	default:
		if p := s.state.Partitions[0]; len(p.Replicas) > 1 && m.alive {
			to := p.Replicas[1+s.rnd.IntN(len(p.Replicas)-1)]
			m.r.instruct(instructMsg{Epoch: p.Epoch, Op: [...]grid.ReplicaOp{grid.OpPrimary, grid.OpDrop}[s.rnd.IntN(2)], Member: to}, s.now)
		}
	}
}

// kill ends a member's lease, or the member; either is then removed. The last in-sync replica is spared.
func (s *sim) kill(m *simMember) {
	alive := 0
	for _, r := range s.state.Partitions[0].Replicas {
		if x := s.members[r[0]-'A']; x.alive && x.lease {
			alive++
		}
	}
	if !m.lease || alive < 2 && s.state.Partitions[0].InSync(m.id) {
		return
	}
	m.lease = false
	if s.rnd.IntN(2) == 0 {
		m.alive = false
		s.note("%s dies", m.id)
	} else {
		s.note("%s loses its lease", m.id)
	}
}

// master does what the master would: remove who has no lease, bring others up.
func (s *sim) master(m *simMember) {
	if _, ok := s.state.Member(m.id); ok && !m.lease {
		s.note("remove %s", m.id)
		s.commit(grid.Command{Remove: &grid.RemoveMember{ID: m.id}})
		return
	}
	p := s.state.Partitions[0]
	if len(p.Replicas) <= s.state.Backups && len(p.Joining) == 0 {
		s.commit(grid.Command{Replica: &grid.ReplicaChange{Op: grid.OpJoin, Epoch: p.Epoch, Member: m.id}})
	}
}

func (s *sim) deliver() {
	var busy [][2]int
	for i := range s.members {
		for j := range s.members {
			if len(s.links[[2]int{i, j}]) > 0 {
				busy = append(busy, [2]int{i, j})
			}
		}
	}
	if len(busy) == 0 {
		return
	}
	l := busy[s.rnd.IntN(len(busy))]
	at := 0
	if s.jumble {
		at = s.rnd.IntN(min(3, len(s.links[l])))
	}
	msg := s.links[l][at]
	s.links[l] = slices.Delete(s.links[l], at, at+1)
	to, from := s.members[l[1]], s.members[l[0]].id
	if !to.alive {
		return
	}
	defer s.mayStrike(s.members[l[0]], msg.kind)
	switch r := to.r; msg.kind {
	case wire.Effects:
		r.effects(from, must[effectsMsg](msg.body), s.now)
	case wire.Ack:
		r.ack(from, must[ackMsg](msg.body), s.now)
	case wire.Seal:
		r.seal(from, must[sealMsg](msg.body))
	case wire.Sealed:
		m := must[sealedMsg](msg.body)
		if s.bad == noLevel {
			m.Seq, m.Last = r.log.last()
			m.Born = r.born
		}
		r.sealed(from, m, s.now)
	case wire.Snapshot:
		r.takePiece(from, must[copyMsg](msg.body), s.now)
	case wire.Copied:
		r.copied(from, must[copiedMsg](msg.body), s.now)
	}
}

// mayStrike ends the sender of a message, in runs that are so minded: most likely between the pieces of a copy.
func (s *sim) mayStrike(m *simMember, kind wire.Kind) {
	if odds := map[wire.Kind]int{wire.Snapshot: 4, wire.Effects: 40}[kind]; s.ambush && odds > 0 && s.rnd.IntN(odds) == 0 {
		s.kill(m)
	}
}

func must[T any](b []byte) T {
	v, err := decode[T](b)
	if err != nil {
		panic(err)
	}
	return v
}

// TestSimulation_NoticesBrokenRules runs the simulation with one rule broken at a time: it must find what goes wrong.
func TestSimulation_NoticesBrokenRules(t *testing.T) {
	for _, bad := range []badVariant{ackBeforeBackup, noSeal, leaseForEver, noLevel, noRequest, copyNoCalls, notAgain} {
		t.Run(string(bad), func(t *testing.T) {
			for seed := range uint64(20000) {
				s := newSim(seed, 3+int(seed%3), 2+int(seed%2))
				s.bad = bad
				for range 600 {
					if s.step(); s.fail != "" {
						t.Logf("seed %d: %s", seed, s.fail)
						return
					}
				}
			}
			t.Error("not noticed")
		})
	}
}

// TestSimulation runs replicas under random schedules of everything that may happen to them. It checks what callers see.
func TestSimulation(t *testing.T) {
	shown := 0
	for i := range *simRuns {
		seed := *simSeed + uint64(i)
		s := newSim(seed, 3+int(seed%3), 2+int(seed%2))
		for range 600 {
			if s.step(); s.fail != "" {
				t.Fatalf("seed %d: %s\n%s", seed, s.fail, strings.Join(s.trace, "\n"))
			}
		}
		shown += int(s.high)
	}
	if avg := shown / *simRuns; avg < 5 {
		t.Errorf("on average %d increments were seen per run: the simulation hardly does anything", avg)
	}
}
