package rest

import (
	"net/http"
	"strconv"

	"gridnode/grid"
)

func (s *Server) registerCluster(rs *routes) {
	rs.handle("/api/v1/cluster", methods{"GET": s.limited(s.cluster)})
	rs.handle("/api/v1/cluster/recover", methods{"POST": s.counted(s.recover)})
	rs.handle("/api/v1/members", methods{"GET": s.limited(s.members)})
	rs.handle("/api/v1/partitions", methods{"GET": s.limited(s.partitions)})
}

// state returns the agreed state of a cluster that exists.
func (s *Server) state() (*grid.State, error) {
	state := s.cfg.Grid.State()
	if state == nil || !state.Formed() {
		return nil, grid.ErrNotJoined
	}
	return state, nil
}

type clusterShape struct {
	ClusterID      string        `json:"clusterId"`
	Name           string        `json:"name"`
	Size           int           `json:"size"`
	Master         grid.MemberID `json:"master"`
	MasterName     string        `json:"masterName"`
	Term           uint64        `json:"term"`
	Partitions     int           `json:"partitions"`
	BackupCount    int           `json:"backupCount"` // wanted for each partition
	Backups        int           `json:"backups"`     // in-sync ones that each partition has at least
	DataMembers    int           `json:"dataMembers"` // that may hold replicas: with no more than backupCount of them, no partition has all it should
	Safe           bool          `json:"safe"`        // the full set as far as there are members, and nothing owed
	LostPartitions int           `json:"lostPartitions"`
	Losses         uint64        `json:"partitionLosses"` // how often a partition was lost, since the cluster formed
	Recoveries     uint64        `json:"recoveries"`      // how often survivors went on without a majority
	Moves          int           `json:"moves"`           // replicas that are being brought up
	Waiting        int           `json:"movesWaiting"`    // that are to be, and have not begun
	HandOvers      int           `json:"handOvers"`       // partitions that are to get another primary
	Drops          int           `json:"drops"`           // replicas that are to be given up
	Sending        sendingShape  `json:"sending"`         // by this member
	Self           grid.MemberID `json:"self"`
	Version        string        `json:"version"`
}

// sendingShape is what a member sends of whole partitions.
type sendingShape struct {
	Copies int   `json:"copies"`
	Sent   int64 `json:"bytesSent"` // that have arrived, since it joined
	Left   int64 `json:"bytesLeft"` // of the copies under way, about
}

func (s *Server) cluster(w http.ResponseWriter, r *http.Request) error {
	state, err := s.state()
	if err != nil {
		return err
	}
	master, _ := state.Member(state.Master)
	shape := clusterShape{
		ClusterID: state.ClusterID, Name: state.ClusterName, Size: len(state.Members),
		Master: state.Master, MasterName: master.Name, Term: state.Term,
		Partitions: len(state.Partitions), BackupCount: state.Backups, Backups: state.LeastBackups(),
		DataMembers: len(state.DataMembers()), Safe: s.cfg.Grid.Safe(state), Losses: state.Losses, Recoveries: state.Recoveries,
		Self: s.cfg.Grid.Self(), Version: s.cfg.Version,
	}
	moves, sending := s.cfg.Grid.Moves(state), s.cfg.Grid.Sending()
	shape.Moves, shape.Waiting, shape.HandOvers, shape.Drops = moves.Running, moves.Waiting, moves.HandOvers, moves.Drops
	shape.Sending = sendingShape{sending.Copies, sending.Sent, sending.Left}
	for i := range state.Partitions {
		if state.Partitions[i].Lost {
			shape.LostPartitions++
		}
	}
	s.answer(w, r, http.StatusOK, shape)
	return nil
}

type memberShape struct {
	ID         grid.MemberID     `json:"id"`
	Name       string            `json:"name"`
	Address    string            `json:"address"`
	HTTP       string            `json:"http"`
	Master     bool              `json:"master"`
	Self       bool              `json:"self"`
	State      grid.MemberState  `json:"state"`
	Roles      []string          `json:"roles"`
	Attributes map[string]string `json:"attributes"`
	JoinSeq    uint64            `json:"joinSeq"`
	Owned      int               `json:"owned"`   // partitions of which it is the primary
	Backups    int               `json:"backups"` // partitions of which it is an in-sync backup
	Joining    int               `json:"joining"` // partitions that it is being brought up to
}

func (s *Server) members(w http.ResponseWriter, r *http.Request) error {
	state, err := s.state()
	if err != nil {
		return err
	}
	holdings := holdingsOf(state)
	shapes := make([]memberShape, 0, len(state.Members))
	for _, m := range state.Members {
		h := holdings[m.ID]
		shapes = append(shapes, memberShape{
			ID: m.ID, Name: m.Name, Address: m.Address, HTTP: m.HTTP, Master: m.ID == state.Master, Self: m.ID == s.cfg.Grid.Self(),
			State: m.State, Roles: append([]string{}, m.Roles...), Attributes: notNil(m.Attributes), JoinSeq: m.JoinSeq,
			Owned: h.owned, Backups: h.backups, Joining: h.joining,
		})
	}
	s.answer(w, r, http.StatusOK, map[string]any{"members": shapes})
	return nil
}

// holdings counts the partitions of a member.
type holdings struct{ owned, backups, joining int }

func holdingsOf(state *grid.State) map[grid.MemberID]holdings {
	all := make(map[grid.MemberID]holdings, len(state.Members))
	for i := range state.Partitions {
		p := &state.Partitions[i]
		for j, id := range p.Replicas {
			h := all[id]
			if j == 0 {
				h.owned++
			} else {
				h.backups++
			}
			all[id] = h
		}
		for _, id := range p.Joining {
			h := all[id]
			h.joining++
			all[id] = h
		}
	}
	return all
}

type partitionShape struct {
	ID       int             `json:"id"`
	Epoch    grid.Epoch      `json:"epoch"`
	Primary  *grid.MemberID  `json:"primary"` // null: nobody serves it
	Replicas []grid.MemberID `json:"replicas"`
	Joining  []grid.MemberID `json:"joining"`
	Lost     bool            `json:"lost"`
}

func (s *Server) partitions(w http.ResponseWriter, r *http.Request) error {
	state, err := s.state()
	if err != nil {
		return err
	}
	shapes := make([]partitionShape, 0, len(state.Partitions))
	for i := range state.Partitions {
		p := &state.Partitions[i]
		shape := partitionShape{
			ID: i, Epoch: p.Epoch, Lost: p.Lost,
			Replicas: append([]grid.MemberID{}, p.Replicas...), Joining: append([]grid.MemberID{}, p.Joining...),
		}
		if primary := p.Primary(); primary != "" {
			shape.Primary = &primary
		}
		shapes = append(shapes, shape)
	}
	w.Header().Set("Etag", `"`+strconv.FormatUint(state.Index, 10)+`"`)
	s.answer(w, r, http.StatusOK, map[string]any{"partitions": shapes})
	return nil
}
