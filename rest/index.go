package rest

import (
	"net/http"
	"slices"
)

// registerIndex is called last: it lists what was registered before it.
func (s *Server) registerIndex(rs *routes) {
	paths := slices.Clone(rs.paths)
	rs.handle("/", methods{"GET": func(w http.ResponseWriter, r *http.Request) error {
		s.answer(w, r, http.StatusOK, map[string]any{"name": "gridnode", "version": s.cfg.Version, "paths": paths})
		return nil
	}})
}
