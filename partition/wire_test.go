package partition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What travels with every call comes back as it was.
func TestWire(t *testing.T) {
	invoke := invokeMsg{Partition: 270, Op: []byte{1}, Request: Request{Client: "a", Seq: 1 << 40, Low: 3, Again: true}, Wait: time.Minute}
	effects := effectsMsg{Partition: 1, Epoch: 1 << 50, Prev: 7, Effects: []Effect{
		{Seq: 1, Epoch: 2, Data: []byte{}}, {Seq: 2, Epoch: 2, Outcome: &outcome{Client: "b", Seq: 4, Low: 1, Reply: []byte{9}, Failed: []byte{8}}},
	}}
	ack := ackMsg{Partition: 3, Epoch: 4, Seq: 5, Last: 6, Missing: true}
	gotInvoke, err1 := decode[invokeMsg](encode(invoke))
	gotEffects, err2 := decode[effectsMsg](encode(effects))
	gotAck, err3 := decode[ackMsg](encode(ack))
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]any{invoke, effects, ack}, []any{gotInvoke, gotEffects, gotAck}); diff != "" {
		t.Error(diff)
	}
}
