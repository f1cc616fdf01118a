package clientproto

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/xml"
	"fmt"

	"gridnode/imap/query"
)

// oneSchema reads a Schema: the name of its type, and a list of its fields, each a kind and a name.
func oneSchema(r *reader) (*query.Schema, error) {
	typeName, err := r.text()
	if err != nil {
		return nil, err
	}
	var fields []query.Field
	err = r.list(func() error {
		if !r.nextIs(flagBegin) {
			return fmt.Errorf("%w: a field of a schema does not begin", errMalformed)
		}
		head, err := r.plain()
		if err == nil && len(head) < 4 {
			err = fmt.Errorf("%w: a field of a schema has no kind", errMalformed)
		}
		if err != nil {
			return err
		}
		name, err := r.text()
		if err != nil {
			return err
		}
		fields = append(fields, query.Field{Name: name, Kind: int32(binary.LittleEndian.Uint32(head))})
		return r.skip()
	})
	if err != nil {
		return nil, err
	}
	return query.NewSchema(typeName, fields)
}

// sendSchema answers when all members know the schema, and who those are.
func sendSchema(ctx context.Context, q *call) ([]byte, error) {
	s, err := oneSchema(q.structured("schema"))
	if err != nil {
		return nil, err
	}
	members, err := q.c.s.cfg.Maps.AddSchemas(ctx, s)
	if err != nil {
		return nil, err
	}
	a := q.answer()
	a.begin(0)
	for _, m := range members {
		a.uuid(uuidOf(string(m)))
	}
	return a.bytes(), nil
}

func sendAllSchemas(ctx context.Context, q *call) ([]byte, error) {
	list, err := q.schemas()
	if err != nil {
		return nil, err
	}
	_, err = q.c.s.cfg.Maps.AddSchemas(ctx, list...)
	return q.done(err)
}

// schemas reads the list of a request.
func (q *call) schemas() (list []*query.Schema, err error) {
	r := q.structured("schemas")
	for r.nextIs(flagBegin) {
		s, err := oneSchema(r)
		if err == nil {
			err = r.skip()
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func fetchSchema(_ context.Context, q *call) ([]byte, error) {
	a := q.answer()
	s := q.c.s.cfg.Maps.Schema(q.long("schemaId"))
	if s == nil {
		a.null()
		return a.bytes(), nil
	}
	schema(a, s)
	return a.bytes(), nil
}

// schema writes a Schema.
func schema(e *encoder, s *query.Schema) {
	e.open()
	e.string(s.Type)
	e.open()
	for _, f := range s.Fields {
		e.open()
		e.begin(0)
		e.int32(f.Kind)
		e.string(f.Name)
		e.close()
	}
	e.close()
	e.close()
}

// memberConfig tells what of this member's config Hazelcast has words for.
func memberConfig(_ context.Context, q *call) ([]byte, error) {
	type property struct {
		Name  string `xml:"name,attr"`
		Value int    `xml:",chardata"`
	}
	s, _ := q.c.s.cfg.View.View()
	cfg := struct {
		XMLName    xml.Name   `xml:"hazelcast"`
		Cluster    string     `xml:"cluster-name"`
		Properties []property `xml:"properties>property"`
	}{Cluster: q.c.s.cfg.ClusterName, Properties: []property{{"hazelcast.partition.count", len(s.Partitions)}}}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).Encode(cfg); err != nil {
		return nil, err
	}
	a := q.answer()
	a.string(b.String())
	return a.bytes(), nil
}
