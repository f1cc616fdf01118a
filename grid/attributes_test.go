package grid

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestSetAttributes(t *testing.T) {
	many := map[string]string{}
	for i := range MaxAttributes + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, test := range map[string]struct {
		id    MemberID
		attrs map[string]string
		ok    bool
	}{
		"replaces all":    {"a", map[string]string{"rack": "7"}, true},
		"clears":          {"a", nil, true},
		"empty value":     {"a", map[string]string{"gpu": ""}, true},
		"no such member":  {"b", nil, false},
		"no name":         {"a", map[string]string{"": "x"}, false},
		"value too long":  {"a", map[string]string{"x": strings.Repeat("x", MaxAttributeBytes+1)}, false},
		"name too long":   {"a", map[string]string{strings.Repeat("x", MaxAttributeBytes+1): ""}, false},
		"too many of all": {"a", many, false},
	} {
		before := map[string]string{"zone": "x", "rack": "1"}
		s := &State{ClusterID: "c", Members: []Member{{ID: "a", Address: "a:1", Attributes: before}}}
		next, err := s.Apply(Command{Attrs: &SetAttributes{ID: test.id, Attributes: test.attrs}})
		m, _ := next.Member("a")
		want := before
		if test.ok {
			want = test.attrs
		}
		if (err == nil) != test.ok || !maps.Equal(m.Attributes, want) {
			t.Errorf("%s: %v, attributes %v", name, err, m.Attributes)
		}
		if old, _ := s.Member("a"); !maps.Equal(old.Attributes, map[string]string{"zone": "x", "rack": "1"}) {
			t.Errorf("%s: the old state was changed", name)
		}
	}
}
