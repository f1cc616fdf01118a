package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"gridnode/grid"
)

// Quorum returns nil while this member holds a lease, which only a master that leads a majority of the voters can have granted, and as long as
// it has never held one. Else the error wraps grid.ErrNoQuorum and says what is known of the voters; lapsed is for how long.
func (c *Cluster) Quorum() (lapsed time.Duration, err error) {
	ago, ever := c.lease.renewed()
	if !ever || c.lease.valid() {
		return 0, nil
	}
	lapsed = max(ago-c.cfg.Lease, 0)
	here, voters, missing := c.votersHeard(time.Now())
	text := fmt.Sprintf("%d of %d voters answer", here, voters)
	if len(missing) > 0 {
		text += ", not " + strings.Join(missing, ", ")
	}
	return lapsed, fmt.Errorf("%w: no master has renewed this member's lease for %v; %s", grid.ErrNoQuorum, ago.Round(time.Millisecond), text)
}

// votersHeard counts the voters that have answered a heartbeat lately, this member among them, and names the others. While nobody grants, each
// member is asked in its turn.
func (c *Cluster) votersHeard(now time.Time) (here, voters int, missing []string) {
	r := c.raft.Load()
	if r == nil {
		return 0, 0, nil
	}
	s, _ := c.View()
	lately := callTimeout + time.Duration(len(s.Members))*c.cfg.Heartbeat
	for _, sv := range r.GetConfiguration().Configuration().Servers {
		if sv.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := grid.MemberID(sv.ID)
		at, ok := c.heard.Load(id)
		if id == c.self.ID || ok && now.Sub(at.(time.Time)) < lately {
			here++
			continue
		}
		m, _ := s.Member(id)
		if m.Name == "" {
			m.Name = string(id)
		}
		missing = append(missing, m.Name)
	}
	return here, voters, missing
}
