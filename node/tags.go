package node

import (
	"context"
	"fmt"
	"maps"

	"gridnode/grid"
)

// zoneAttribute says where replicas are placed, so it is no tag.
const zoneAttribute = "zone"

// SetTags replaces the attributes of this member, by which jobs choose their workers, for as long as it is a member. Its zone stays. Errors
// are the grid's.
func (n *Node) SetTags(ctx context.Context, tags map[string]string) error {
	l := n.current()
	if l == nil {
		return fmt.Errorf("%w: this member has not begun yet", grid.ErrClosed)
	}
	return l.setTags(ctx, tags)
}

func (l *life) setTags(ctx context.Context, tags map[string]string) error {
	zone, has := l.node.cfg.Attributes[zoneAttribute]
	if want, named := tags[zoneAttribute]; named && (!has || want != zone) {
		return fmt.Errorf("%w: zone is %q: it decides where replicas are, and is changed only by a restart with other member-attributes",
			grid.ErrBadRequest, zone)
	}
	attrs := map[string]string{}
	maps.Copy(attrs, tags)
	if has {
		attrs[zoneAttribute] = zone
	}
	return l.cluster.Propose(ctx, grid.Command{Attrs: &grid.SetAttributes{ID: l.self, Attributes: attrs}})
}
