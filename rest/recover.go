package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"gridnode/grid"
)

// recoverTimeout bounds one recovery: asking everybody, and the election of a master.
const recoverTimeout = 25 * time.Second

type recoverRequest struct {
	Force   bool
	Cluster string
}

type recoveredMember struct {
	ID      grid.MemberID `json:"id"`
	Name    string        `json:"name"`
	Address string        `json:"address"`
}

// recoverShape is the answer to a recovery, or to the question what one would do.
type recoverShape struct {
	Applied   bool               `json:"applied"`
	Cluster   string             `json:"cluster"`
	Survivors []recoveredMember  `json:"survivors"`
	Dropped   []recoveredMember  `json:"dropped"`
	Promoted  int                `json:"promoted"`           // partitions of which an in-sync backup becomes primary
	Lost      []grid.PartitionID `json:"lostPartitions"`     // no in-sync replica survives
	Doubtful  []grid.PartitionID `json:"doubtfulPartitions"` // the newest acknowledged writes may be missing
	Says      []string           `json:"says"`               // the same in words
}

// recover makes the survivors go on without a majority, or, without force, says what that would mean. Only somebody on this machine may ask: it
// can lose what others still have.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) error {
	if !local(r.RemoteAddr) {
		return failf(http.StatusForbidden, "a recovery can be asked for on the member's own machine only, not from %s", r.RemoteAddr)
	}
	q, err := recoverRequestOf(w, r)
	if err != nil {
		return err
	}
	state, err := s.state()
	if err != nil {
		return err
	}
	if q.Cluster != state.ClusterName && (q.Force || q.Cluster != "") {
		return badRequest("cluster is %q here, not %q: a recovery names the cluster that it is for", state.ClusterName, q.Cluster)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), recoverTimeout) // what is begun is not broken off
	defer cancel()
	report, err := s.cfg.Grid.Recover(ctx, q.Force)
	audit := s.log.With("request", requestID(r.Context()), "remote", r.RemoteAddr, "user_agent", r.UserAgent(), "force", q.Force)
	if err != nil {
		audit.Warn("recovery without a majority was asked for and not carried out", "error", err)
		return err
	}
	shape := recoverShapeOf(report, state.ClusterName, q.Force)
	audit.Warn("recovery without a majority was asked for", "applied", q.Force, "survivors", names(report.Survivors), "dropped", names(report.Dropped),
		"lost", report.Lost, "doubtful", report.Doubtful)
	s.answer(w, r, http.StatusOK, shape)
	return nil
}

func recoverRequestOf(w http.ResponseWriter, r *http.Request) (q recoverRequest, err error) {
	data, err := jsonBody(w, r)
	if err != nil {
		return q, err
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return q, badRequest("the body must be {\"force\": true or false, \"cluster\": name}: %v", err)
	}
	return q, nil
}

// local reports whether an address is on this machine.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func recoverShapeOf(r grid.Recovery, cluster string, applied bool) recoverShape {
	list := func(members []grid.Member) []recoveredMember {
		out := make([]recoveredMember, 0, len(members))
		for _, m := range members {
			out = append(out, recoveredMember{m.ID, m.Name, m.Address})
		}
		return out
	}
	return recoverShape{
		Applied: applied, Cluster: cluster, Survivors: list(r.Survivors), Dropped: list(r.Dropped), Promoted: r.Promoted,
		Lost: append([]grid.PartitionID{}, r.Lost...), Doubtful: append([]grid.PartitionID{}, r.Doubtful...), Says: recoverSays(r, applied),
	}
}

func names(members []grid.Member) string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}

// recoverSays says in words what a recovery means.
func recoverSays(r grid.Recovery, applied bool) []string {
	goOn, dropped := "would go on", "would be dropped"
	if applied {
		goOn, dropped = "go on", "are dropped"
	}
	says := []string{
		fmt.Sprintf("%s: %s", goOn, names(r.Survivors)),
		fmt.Sprintf("%s: %s; whichever of them still runs comes back as a new and empty member", dropped, names(r.Dropped)),
	}
	if len(r.Lost) == 0 {
		says = append(says, "lost partitions: none, an in-sync replica of each survives")
	} else {
		says = append(says, fmt.Sprintf("lost partitions: %d, no in-sync replica survives: %s; what becomes of them is for on-partition-loss to say",
			len(r.Lost), partitionList(r.Lost)))
	}
	if len(r.Doubtful) == 0 {
		says = append(says, "acknowledged writes missing in the others: none, for a write is acknowledged only when every in-sync replica has it")
	} else {
		says = append(says, fmt.Sprintf("acknowledged writes may be missing in %d partitions, whose only survivors had lost touch before the others did: %s",
			len(r.Doubtful), partitionList(r.Doubtful)))
	}
	return append(says, "all this holds if the dropped members are gone; if they are only cut off and go on, there are two clusters, which never merge")
}

// partitionList shows the first of them.
func partitionList(list []grid.PartitionID) string {
	const most = 20
	text := strings.Trim(fmt.Sprint(list[:min(most, len(list))]), "[]")
	if len(list) > most {
		text += " ..."
	}
	return text
}
