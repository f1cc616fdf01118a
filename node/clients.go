package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"gridnode/clientproto"
	"gridnode/grid"
	"gridnode/grid/wire"
)

// clientMsg is what members say to each other of clients; one part of it is set.
type clientMsg struct {
	Connected []string `json:",omitempty"` // which of these clients are connected to you?
	Created   string   `json:",omitempty"` // a client has created this map
	Destroyed string   `json:",omitempty"`
	Objects   bool     `json:",omitempty"` // which maps have clients created?
}

type clientReply struct {
	Connected []string `json:",omitempty"`
	Objects   []string `json:",omitempty"`
}

// clientPeers asks the other members about clients.
type clientPeers struct{ l *life }

var _ clientproto.Peers = clientPeers{}

// Connected asks all at once. Whoever does not answer and is a member still may have any of them.
func (p clientPeers) Connected(ctx context.Context, clients []string) (map[string]grid.MemberID, error) {
	found := map[string]grid.MemberID{}
	if len(clients) == 0 {
		return found, nil
	}
	others := p.others()
	replies, errs := make([]clientReply, len(others)), make([]error, len(others))
	var wg sync.WaitGroup
	for i, m := range others {
		wg.Go(func() { replies[i], errs[i] = p.ask(ctx, m, clientMsg{Connected: clients}) })
	}
	wg.Wait()
	for i, r := range replies {
		for _, c := range r.Connected {
			found[c] = others[i]
		}
	}
	return found, errors.Join(errs...)
}

// Object implements [clientproto.Peers].
func (p clientPeers) Object(name string, created bool) {
	msg := clientMsg{Created: name}
	if !created {
		msg = clientMsg{Destroyed: name}
	}
	body := encoded(msg)
	for _, m := range p.others() {
		p.l.transport.Request(m, wire.ClientAsk, body, func([]byte, error) {})
	}
}

// Objects implements [clientproto.Peers].
func (p clientPeers) Objects(ctx context.Context) (names []string) {
	for _, m := range p.others() {
		if r, err := p.ask(ctx, m, clientMsg{Objects: true}); err == nil {
			names = append(names, r.Objects...)
		}
	}
	return names
}

func (p clientPeers) others() (list []grid.MemberID) {
	s, _ := p.l.cluster.View()
	for _, m := range s.Members {
		if m.ID != p.l.self {
			list = append(list, m.ID)
		}
	}
	return list
}

func (p clientPeers) ask(ctx context.Context, m grid.MemberID, msg clientMsg) (r clientReply, err error) {
	body, err := p.l.transport.Call(ctx, m, wire.ClientAsk, encoded(msg))
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	return r, err
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("node: " + err.Error()) // our own plain structs always encode
	}
	return b
}

func (l *life) serveClientAsk(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	var msg clientMsg
	if err := json.Unmarshal(body, &msg); err != nil {
		reply(nil, grid.ErrBadMessage)
		return
	}
	var r clientReply
	switch {
	case len(msg.Connected) > 0:
		r.Connected = l.clients.Connected(msg.Connected)
	case msg.Created != "":
		l.clients.Object(msg.Created, true)
	case msg.Destroyed != "":
		l.clients.Object(msg.Destroyed, false)
	case msg.Objects:
		r.Objects = l.clients.Objects()
	}
	reply(encoded(r), nil)
}
