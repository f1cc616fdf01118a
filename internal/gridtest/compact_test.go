package gridtest

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
)

// ofAge is a compact value with one number.
func ofAge(s *query.Schema, age int32) imap.Data {
	compact := int32(-55)
	d := binary.BigEndian.AppendUint32(nil, uint32(compact))
	d = binary.BigEndian.AppendUint64(d, uint64(s.ID))
	return binary.BigEndian.AppendUint32(d, uint32(age))
}

// What one member was told of a schema, all know, also those that come later, and when that member is gone; with an index as without.
func TestSchemas_AreKnownEverywhere(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, c *Cluster) {
		s := must(query.NewSchema("Person", []query.Field{{Name: "age", Kind: 9}}))
		first := c.Live()[0]
		if ids := must(first.Node.Maps().AddSchemas(ctx, s)); len(ids) != 3 {
			t.Errorf("known to %v", ids)
		}
		for i := range 50 {
			must(first.Map("m").Set(ctx, key("p"+string(rune('0'+i))), ofAge(s, int32(i)), 0))
		}
		old := func(m *Member) int {
			keys, _, err := m.Map("m").KeysWhere(ctx, where(t, "age >= 30"), imap.Page{})
			if err != nil {
				t.Fatalf("%s: %v", m.Host, err)
			}
			return len(keys)
		}
		for _, m := range c.Live() {
			if n := old(m); n != 20 {
				t.Errorf("%s finds %d of 20", m.Host, n)
			}
		}
		if err := first.Node.Maps().AddIndex(ctx, "m", imap.IndexConfig{Type: query.Sorted, Attributes: []string{"age"}}); err != nil {
			t.Fatal(err)
		}
		c.Crash(first)
		c.AwaitSafe(2, time.Minute)
		c.Add()
		c.AwaitSafe(3, time.Minute)
		for _, m := range c.Live() {
			if n := old(m); n != 20 {
				t.Errorf("%s finds %d of 20 after a crash", m.Host, n)
			}
		}
		strange := must(query.NewSchema("Stranger", []query.Field{{Name: "age", Kind: 9}}))
		must(c.Live()[0].Map("m").Set(ctx, key("x"), ofAge(strange, 40), 0))
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if _, _, err := c.Live()[0].Map("m").KeysWhere(short, where(t, "age >= 30"), imap.Page{}); grid.KindOf(err) != grid.Retryable || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a query of values whose schema nobody knows: %v", err)
		}
		must(c.Live()[1].Node.Maps().AddSchemas(ctx, strange))
		if n := old(c.Live()[2]); n != 21 {
			t.Errorf("%d of 21 once the schema is known", n)
		}
	})
}
