package partition

import (
	"fmt"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/grid/wire"
)

// bulky is a store of so many pieces.
type bulky struct {
	counter
	pieces  int
	encoded *int
	got     []string
}

func (b *bulky) Snapshot(int, time.Time) (int, func(int, time.Time) []byte) {
	return b.pieces, func(i int, _ time.Time) []byte {
		*b.encoded++
		return []byte(fmt.Sprint("piece ", i))
	}
}

func (b *bulky) Restore(piece []byte, _ time.Time) error {
	if len(piece) > 0 {
		b.got = append(b.got, string(piece))
	}
	return nil
}

// mailbox is the world of a replica whose messages wait to be delivered.
type mailbox struct {
	proposer
	store  func() Store
	out    []simMsg
	called []grid.ReplicaChange
}

func (m *mailbox) send(_ grid.MemberID, kind wire.Kind, body []byte) {
	m.out = append(m.out, simMsg{kind, body})
}
func (m *mailbox) propose(c grid.ReplicaChange) { m.called = append(m.called, c) }
func (m *mailbox) newStore() Store              { return m.store() }

// TestCopy_APieceAtATime copies partitions of none, one, and many pieces: a few pieces are encoded at a time, for the partition waits
// meanwhile, each arrives once and in order, and the bytes are counted.
func TestCopy_APieceAtATime(t *testing.T) {
	for _, pieces := range []int{0, 1, 2, 3, 50} {
		now, encoded := time.Now(), 0
		row := grid.Partition{Epoch: 1, Replicas: []grid.MemberID{"a"}, Joining: []grid.MemberID{"b"}, Reign: 1, Born: 1}
		a := &mailbox{store: func() Store { return &bulky{pieces: pieces, encoded: &encoded} }}
		b := &mailbox{store: func() Store { return &bulky{} }}
		from, to := newReplica(0, "a", a), newReplica(0, "b", b)
		to.learn(row, now)
		from.learn(row, now)
		turns := 0
		for ; len(a.out)+len(b.out) > 0 && turns < 1000; turns++ {
			before := encoded
			for _, m := range emptied(&a.out) {
				if msg, err := decode[copyMsg](m.body); m.kind == wire.Snapshot && err == nil {
					to.takePiece("a", msg, now)
				}
			}
			for _, m := range emptied(&b.out) {
				if msg, err := decode[copiedMsg](m.body); m.kind == wire.Copied && err == nil {
					was := encoded
					from.copied("b", msg, now)
					if encoded-was > copyTurn {
						t.Fatalf("%d pieces encoded in one turn", encoded-was)
					}
				}
			}
			if encoded-before > copyWindow {
				t.Fatalf("%d pieces are on their way", encoded-before)
			}
		}
		if len(a.called) == 0 || a.called[0].Op != grid.OpAdd {
			t.Fatalf("%d pieces: after %d turns it is not proposed as in-sync: %+v", pieces, turns, a.called)
		}
		got, bytes := to.store.(*bulky).got, int64(0)
		for i, p := range got {
			if p != fmt.Sprint("piece ", i) {
				t.Fatalf("piece %d is %q", i, p)
			}
			bytes += int64(len(p))
		}
		if len(got) != pieces || encoded != pieces || from.copiedBytes != bytes {
			t.Errorf("%d pieces: %d arrived, %d were encoded, %d bytes are counted of %d", pieces, len(got), encoded, from.copiedBytes, bytes)
		}
	}
}

func emptied(list *[]simMsg) []simMsg {
	out := *list
	*list = nil
	return out
}
