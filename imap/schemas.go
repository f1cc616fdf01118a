package imap

import (
	"context"
	"fmt"
	"slices"

	"gridnode/grid"
	"gridnode/imap/query"
)

// maxSchemaBytes bounds the names in all schemas of a cluster: members tell each other of all of them at once.
const maxSchemaBytes = 4 << 20

// schemas returns those that this member knows.
func (r *Registry) schemas() *query.Schemas {
	if a := r.announced(); a != nil {
		return a.schemas
	}
	return nil
}

func (s *Store) schemas() *query.Schemas { return s.registry.schemas() }

// addSchemas takes schemas in; the version is what the others have to know then.
func (r *Registry) addSchemas(list []*query.Schema) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.addSchemasLocked(list)
	return r.version, err
}

func (r *Registry) addSchemasLocked(list []*query.Schema) error {
	next, err := r.known.With(list...)
	if err != nil || next == r.known {
		return err
	}
	bytes := 0
	for _, s := range next.All() {
		bytes += s.Size()
	}
	if bytes > maxSchemaBytes {
		return fmt.Errorf("%w: the schemas of compact values have %d bytes of names together, the limit is %d", grid.ErrTooLarge, bytes, maxSchemaBytes)
	}
	r.known = next
	r.version++
	r.rebuild()
	return nil
}

// learnSchemas takes in what another member knows.
func (r *Registry) learnSchemas(list []wireSchema) error {
	schemas := make([]*query.Schema, len(list))
	for i, w := range list {
		var err error
		if schemas[i], err = query.NewSchema(w.Type, w.Fields); err != nil {
			return err
		}
	}
	return r.addSchemasLocked(schemas)
}

// AddSchemas lets every member, present and future, read compact values of those schemas, for as long as one member lives. It returns when all
// present ones know them, and who those are.
func (g *Grid) AddSchemas(ctx context.Context, list ...*query.Schema) ([]grid.MemberID, error) {
	if g.registry == nil {
		return nil, fmt.Errorf("%w: schemas are not kept here", grid.ErrRefused)
	}
	version, err := g.registry.addSchemas(slices.Clone(list))
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, listenBudget)
		defer cancel()
	}
	if err := g.registry.awaitKnown(ctx, version); err != nil {
		return nil, err
	}
	s, _ := g.registry.members.View()
	ids := make([]grid.MemberID, len(s.Members))
	for i, m := range s.Members {
		ids[i] = m.ID
	}
	return ids, nil
}

// Schema returns a schema by its id, or nil if this member does not know it.
func (g *Grid) Schema(id int64) *query.Schema { return g.registry.schemas().Of(id) }

// Record returns an entry to be asked, which may be of compact values.
func (g *Grid) Record(e Entry) *query.Record {
	return query.NewRecordOf(e.Key, e.Value, g.registry.schemas())
}
