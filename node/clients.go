package node

import (
	"context"

	"gridnode/clientproto"
	"gridnode/grid"
	"gridnode/grid/wire"
)

// clientPeers asks the other members about clients.
type clientPeers struct{ l *life }

var _ clientproto.Peers = clientPeers{}

// Connected asks one member after the other. Whoever does not answer and is a member still may have the client.
func (p clientPeers) Connected(ctx context.Context, client string) (bool, error) {
	s, _ := p.l.cluster.View()
	for _, m := range s.Members {
		if m.ID == p.l.self {
			continue
		}
		reply, err := p.l.transport.Call(ctx, m.ID, wire.ClientAsk, []byte(client))
		if err != nil {
			return false, err
		}
		if len(reply) == 1 && reply[0] == 1 {
			return true, nil
		}
	}
	return false, nil
}

func (l *life) serveClientAsk(_ grid.MemberID, body []byte, reply func([]byte, error)) {
	answer := []byte{0}
	if l.clients.Connected(string(body)) {
		answer[0] = 1
	}
	reply(answer, nil)
}
