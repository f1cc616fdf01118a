package transport

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"gridnode/grid"
	"gridnode/grid/pack"
	"gridnode/grid/wire"
)

// Magic is how a stream begins: it says what the stream is.
type Magic string

// What a stream can be. All are of the same length.
const (
	MagicMember Magic = "GM1"
	MagicRaft   Magic = "GR1"
	MagicGossip Magic = "GG1"
	MagicClient Magic = "CP2" // a Hazelcast client; no handshake of ours follows
)

const magicLen = 3

// protocolVersion is raised when members of two versions cannot talk to each other.
const protocolVersion = 1

// hello is the body of a handshake, both ways.
type hello struct {
	Version int
	Cluster string
	ID      grid.MemberID
	Expect  grid.MemberID // whom the dialling side wants; empty: whoever is there
	Label   string        // what the dialling side says about the stream; see Labelled
}

// greet makes the dialling side of the handshake and returns who answered.
func (t *Transport) greet(raw net.Conn, magic Magic, expect grid.MemberID, label string, deadline time.Time) (grid.MemberID, error) {
	_ = raw.SetDeadline(deadline)
	body, err := msgpack.Marshal(&hello{Version: protocolVersion, Cluster: t.cfg.ClusterName, ID: t.cfg.Self, Expect: expect, Label: label})
	if err != nil {
		return "", err
	}
	buf := wire.Append([]byte(magic), wire.Frame{Kind: wire.Handshake, Flag: wire.Request, Body: body})
	if _, err := raw.Write(buf); err != nil {
		return "", err
	}
	f, err := wire.Read(raw, maxHandshake)
	if err != nil {
		return "", err
	}
	if f.Kind == wire.Handshake && f.Flag == wire.Failure {
		return "", &refusedError{wire.DecodeError(f.Body).Error()}
	}
	var answer hello
	if f.Kind != wire.Handshake || f.Flag != wire.Reply || pack.Unmarshal(f.Body, &answer) != nil || answer.ID == "" {
		return "", errors.New("malformed handshake")
	}
	_ = raw.SetDeadline(time.Time{})
	return answer.ID, nil
}

// refusedError is a handshake that the other side refused.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return "handshake refused: " + e.text }

// welcome makes the accepting side of the handshake, after the magic, and returns what the dialling side says.
func (t *Transport) welcome(raw net.Conn) (in hello, err error) {
	f, err := wire.Read(raw, maxHandshake)
	if err != nil {
		return in, err
	}
	if f.Kind != wire.Handshake || f.Flag != wire.Request || pack.Unmarshal(f.Body, &in) != nil || in.ID == "" {
		return in, fmt.Errorf("handshake: %w", grid.ErrBadMessage)
	}
	if err := acceptable(t.cfg, in); err != nil {
		_, _ = raw.Write(wire.Append(nil, wire.Frame{Kind: wire.Handshake, Flag: wire.Failure, Body: wire.AppendError(nil, err)}))
		return in, err
	}
	body, err := msgpack.Marshal(&hello{Version: protocolVersion, Cluster: t.cfg.ClusterName, ID: t.cfg.Self})
	if err != nil {
		return in, err
	}
	_, err = raw.Write(wire.Append(nil, wire.Frame{Kind: wire.Handshake, Flag: wire.Reply, Body: body}))
	return in, err
}

// acceptable decides whether this member takes the stream.
func acceptable(self Config, in hello) error {
	switch {
	case in.Version != protocolVersion:
		return fmt.Errorf("%w: member protocol %d is spoken here, not %d", grid.ErrRefused, protocolVersion, in.Version)
	case in.Cluster != self.ClusterName:
		return fmt.Errorf("%w: this is a member of cluster %q, not %q", grid.ErrRefused, self.ClusterName, in.Cluster)
	case in.Expect != "" && in.Expect != self.Self:
		return fmt.Errorf("%w: this is member %s, not %s", grid.ErrRefused, self.Self, in.Expect)
	}
	return nil
}
