package partition

import (
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// deaf is a world in which nothing arrives.
type deaf struct{}

func (deaf) send(grid.MemberID, wire.Kind, []byte)              {}
func (deaf) propose(grid.ReplicaChange)                         {}
func (deaf) leased() bool                                       { return true }
func (deaf) isMember(grid.MemberID) bool                        { return true }
func (deaf) mayAct(grid.MemberID) bool                          { return true }
func (deaf) newStore() Store                                    { return &fuzzStore{} }
func (deaf) event(string, grid.PartitionID, grid.Epoch, ...any) {}

// fuzzStore takes any effect.
type fuzzStore struct{ staged }

func (*fuzzStore) Apply([]byte, Version, time.Time) ([]string, error) { return nil, nil }

// FuzzMessages feeds a primary with a backup and a joiner, and a backup, bytes that claim to be from another member. Nothing may panic.
func FuzzMessages(f *testing.F) {
	f.Add(uint8(0), encode(effectsMsg{Epoch: 2, Effects: []Effect{{Seq: 1, Epoch: 2}, {Seq: 3, Epoch: 1}}}))
	f.Add(uint8(1), encode(ackMsg{Epoch: 1, Seq: 1, Missing: true}))
	f.Add(uint8(2), encode(sealMsg{Epoch: 9}))
	f.Add(uint8(3), encode(sealedMsg{Epoch: 1, Seq: 7, Last: 1}))
	f.Add(uint8(4), encode(copyMsg{Epoch: 3, ID: 1, Of: 2, Piece: 1}))
	f.Add(uint8(4), encode(copyMsg{Epoch: 3, ID: 1, Of: 1, Calls: true, Data: encode(callsPiece{
		Clients: []clientPiece{{Client: "a", Low: 3}}, Outcomes: []placed{{At: 1, Outcome: outcome{Client: "a", Seq: 7}}},
	})}))
	f.Add(uint8(5), encode(copiedMsg{Epoch: 1, ID: 1, Next: 100}))
	f.Add(uint8(6), encode(instructMsg{Epoch: 1, Op: grid.OpPrimary, Member: "b"}))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		now := time.Now()
		row := grid.Partition{Epoch: 1, Replicas: []grid.MemberID{"a", "b"}, Joining: []grid.MemberID{"c"}, Reign: 1, Born: 1}
		for _, self := range []grid.MemberID{"a", "b"} {
			r := newReplica(0, self, deaf{})
			r.learn(row, now)
			r.sealed("b", sealedMsg{Epoch: 1, Born: 1}, now)
			r.execute(call{op: grid.RawOp("inc"), req: Request{Client: "a", Seq: 1, Low: 1}}, now, func([]byte, error) {})
			for _, from := range []grid.MemberID{"b", "c", "x"} {
				deliverAny(r, from, kind, body, now)
				r.tick(now.Add(time.Minute))
			}
		}
	})
}

func deliverAny(r *replica, from grid.MemberID, kind uint8, body []byte, now time.Time) {
	switch kind % 7 {
	case 0:
		deliverAs(body, func(m effectsMsg) { r.effects(from, m, now) })
	case 1:
		deliverAs(body, func(m ackMsg) { r.ack(from, m, now) })
	case 2:
		deliverAs(body, func(m sealMsg) { r.seal(from, m) })
	case 3:
		deliverAs(body, func(m sealedMsg) { r.sealed(from, m, now) })
	case 4:
		deliverAs(body, func(m copyMsg) { r.takePiece(from, m, now) })
	case 5:
		deliverAs(body, func(m copiedMsg) { r.copied(from, m, now) })
	case 6:
		deliverAs(body, func(m instructMsg) { r.instruct(m, now) })
	}
}

func deliverAs[T any](body []byte, f func(T)) {
	if m, err := decode[T](body); err == nil {
		f(m)
	}
}
