package catalog

import (
	"strings"
	"testing"

	"gridnode/engine/plugin"
)

// TestConstructors_NameAnUnknownOption holds every plugin to the rule that no option is silently left aside.
func TestConstructors_NameAnUnknownOption(t *testing.T) {
	cat := New()
	o := plugin.Options{Where: "w", Mode: plugin.Batch, Values: map[string]any{"no_such_option": "x"}}
	errs := map[string]error{}
	for name, build := range cat.Sources {
		_, errs["source "+name] = build(o)
	}
	for name, build := range cat.Transforms {
		_, errs["transform "+name] = build(o)
	}
	for name, build := range cat.Sinks {
		_, errs["sink "+name] = build(o)
	}
	for name, err := range errs {
		if err == nil || !strings.Contains(err.Error(), `w: option "no_such_option" is unknown`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
