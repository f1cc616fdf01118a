package transport

import (
	"bytes"
	"net"
	"testing"
	"time"

	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

// script is the other side of a stream: it says what it was given, and does not listen.
type script struct {
	net.Conn
	says *bytes.Reader
	said int
}

func (s *script) Read(b []byte) (int, error)       { return s.says.Read(b) }
func (s *script) Write(b []byte) (int, error)      { s.said += len(b); return len(b), nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// FuzzHandshake gives both sides of the handshake any bytes: whoever gets in has said the cluster's name and who it is, and a refusal is short.
func FuzzHandshake(f *testing.F) {
	frame := func(flag wire.Flag, v any) []byte {
		b, err := pack.MarshalNamed(v)
		if err != nil {
			f.Fatal(err)
		}
		return wire.Append(nil, wire.Frame{Kind: wire.Handshake, Flag: flag, Body: b})
	}
	f.Add(frame(wire.Request, &hello{Version: protocolVersion, Cluster: "test", ID: "b", Expect: "a"}))
	f.Add(frame(wire.Request, &hello{Version: 9, Cluster: "other", ID: "b"}))
	f.Add(frame(wire.Reply, &hello{Version: protocolVersion, Cluster: "test", ID: "b"}))
	f.Add(wire.Append(nil, wire.Frame{Kind: wire.Handshake, Flag: wire.Failure, Body: []byte{1, 2}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	t0 := &Transport{cfg: Config{Self: "a", ClusterName: "test"}}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &script{says: bytes.NewReader(b)}
		in, err := t0.welcome(s)
		if err == nil && (in.ID == "" || in.Cluster != "test" || in.Version != protocolVersion || in.Expect != "" && in.Expect != "a") {
			t.Fatalf("%+v was let in", in)
		}
		if s.said > maxHandshake {
			t.Fatalf("%d bytes were said to a stranger", s.said)
		}
		if id, err := t0.greet(&script{says: bytes.NewReader(b)}, MagicMember, "b", "", time.Now()); err == nil && id == "" {
			t.Fatal("nobody has answered")
		}
	})
}
