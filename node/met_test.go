package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNewestMet: whom the last life knew comes first, those before stay as far as there is room, and thousands of lives make no long list.
func TestNewestMet(t *testing.T) {
	got := newestMet([]string{"c:1", "a:1"}, []string{"a:1", "b:1"})
	if diff := cmp.Diff([]string{"c:1", "a:1", "b:1"}, got); diff != "" {
		t.Error(diff)
	}
	for life := range 5000 {
		got = newestMet([]string{fmt.Sprintf("h%d:1", life), "a:1"}, got)
	}
	if len(got) != maxMet || got[0] != "h4999:1" || got[1] != "a:1" || got[2] != "h4998:1" {
		t.Errorf("%d addresses: %v ...", len(got), got[:3])
	}
}
