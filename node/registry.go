package node

import (
	"gridnode/grid"
	"gridnode/grid/wire"
	"gridnode/imap"
	"gridnode/partition"
)

// registryMembers is the other members as the registry of listeners and indexes sees them.
type registryMembers struct{ l *life }

var _ imap.Members = registryMembers{}

func (m registryMembers) View() (*grid.State, <-chan struct{}) { return m.l.cluster.View() }

func (m registryMembers) Ask(to grid.MemberID, body []byte, done func([]byte, error)) {
	m.l.transport.Request(to, wire.Registry, body, done)
}

func (l *life) serveRegistry(from grid.MemberID, body []byte, reply func([]byte, error)) {
	reply(l.registry.Serve(from, body))
}

var _ partition.Watcher = store{}

func (s store) Committed(upTo uint64, born, reign grid.Epoch) {
	s.Store.Committed(upTo, uint64(born), uint64(reign))
}
