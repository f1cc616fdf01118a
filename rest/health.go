package rest

import (
	"fmt"
	"net/http"
	"strings"

	"gridnode/grid"
)

const plainType = "text/plain; charset=utf-8"

// registerHealth registers what watches the member: it is answered also when the member has too much to do.
func (s *Server) registerHealth(rs *routes) {
	rs.handle("/healthz", methods{"GET": s.healthz})
	rs.handle("/readyz", methods{"GET": s.readyz})
	metrics := s.metrics.handler()
	for _, path := range []string{"/metrics", "/openmetrics", "/hazelcast/rest/instance/metrics"} {
		rs.handle(path, methods{"GET": func(w http.ResponseWriter, r *http.Request) error {
			if path == "/openmetrics" { // by its name, whatever else the scraper would take as well
				r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
			}
			metrics.ServeHTTP(w, r)
			return nil
		}})
	}
	rs.handle("/hazelcast/health", methods{"GET": s.hazelcastHealth})
	rs.handle("/hazelcast/health/{what}", methods{"GET": s.hazelcastHealth})
}

// healthz says that the process lives, whatever the cluster is like.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	plain(w, http.StatusOK, "ok\n")
	return nil
}

// checks are the Grid's, and that the server is not stopping.
func (s *Server) checks() (checks []Check, ready bool) {
	checks = append(checks, s.cfg.Grid.Checks()...)
	ready = len(checks) > 0
	if s.stopping.Load() {
		checks = append(checks, Check{Name: "http", Detail: "shutting down"})
	}
	for _, c := range checks {
		ready = ready && c.OK
	}
	return checks, ready
}

// readyz says whether this member can serve, line by line.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) error {
	checks, ready := s.checks()
	var text strings.Builder
	for _, c := range checks {
		switch {
		case c.OK:
			fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
		case c.Detail == "":
			fmt.Fprintf(&text, "[-]%s failed\n", c.Name)
		default:
			fmt.Fprintf(&text, "[-]%s failed: %s\n", c.Name, c.Detail)
		}
	}
	if ready {
		plain(w, http.StatusOK, text.String()+"ready\n")
	} else {
		plain(w, http.StatusServiceUnavailable, text.String()+"not ready\n")
	}
	return nil
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", plainType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // an error means that the client is gone
}

type healthShape struct {
	NodeState          string `json:"nodeState"`
	ClusterState       string `json:"clusterState"`
	ClusterSafe        bool   `json:"clusterSafe"`
	MigrationQueueSize int    `json:"migrationQueueSize"`
	ClusterSize        int    `json:"clusterSize"`
}

func (s *Server) hazelcastHealth(w http.ResponseWriter, r *http.Request) error {
	what, err := pathVar(r, "what")
	if err != nil {
		return err
	}
	shape := s.health()
	_, ready := s.checks()
	statusOf := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}
	switch what {
	case "":
		s.answer(w, r, http.StatusOK, shape)
	case "node-state":
		s.answer(w, r, http.StatusOK, shape.NodeState)
	case "cluster-state":
		s.answer(w, r, http.StatusOK, shape.ClusterState)
	case "cluster-safe":
		s.answer(w, r, statusOf[shape.ClusterSafe], shape.ClusterSafe)
	case "migration-queue-size":
		s.answer(w, r, http.StatusOK, shape.MigrationQueueSize)
	case "cluster-size":
		s.answer(w, r, http.StatusOK, shape.ClusterSize)
	case "ready":
		s.answer(w, r, statusOf[ready], ready)
	default:
		return failf(http.StatusNotFound, "there is nothing at %q", r.URL.EscapedPath())
	}
	return nil
}

// health is the cluster in Hazelcast's words.
func (s *Server) health() healthShape {
	shape := healthShape{NodeState: "STARTING", ClusterState: "PASSIVE"}
	state, err := s.state()
	if err != nil {
		return shape
	}
	shape.ClusterState, shape.ClusterSafe, shape.ClusterSize = "ACTIVE", s.cfg.Grid.Safe(state), len(state.Members)
	if self, ok := state.Member(s.cfg.Grid.Self()); ok && self.State == grid.Active {
		shape.NodeState = "ACTIVE"
	} else if ok && self.State == grid.Leaving {
		shape.NodeState = "SHUTTING_DOWN"
	}
	moves := s.cfg.Grid.Moves(state)
	shape.MigrationQueueSize = moves.Running + moves.Waiting
	return shape
}
