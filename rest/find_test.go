package rest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestEntries_WherePageByPage(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.do("PUT", fmt.Sprintf("/api/v1/maps/m/entries/k%d", i), []string{"a", "b"}[i%2])
	}
	var keys []string
	after := ""
	for range 10 {
		rec := f.do("GET", "/api/v1/maps/m/entries?where=a&limit=2&after="+url.QueryEscape(after), "")
		var got struct {
			Entries []struct{ Key string }
			More    bool
			Next    string
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || got.More != (got.Next != "") {
			t.Fatalf("%d %s %v", rec.Code, rec.Body, err)
		}
		for _, e := range got.Entries {
			keys = append(keys, e.Key)
		}
		if after = got.Next; after == "" {
			break
		}
	}
	if got := strings.Join(keys, " "); got != "k0 k2 k4" {
		t.Errorf("keys %s", got)
	}
	for target, says := range map[string]string{
		"where=%21": "position 1", "where=": "where is empty", "where=a&where=b": "twice", "where=a&limit=0": "limit", "after=x&after=y": "twice",
	} {
		rec := f.do("GET", "/api/v1/maps/m/entries?"+target, "")
		if rec.Code != 400 || !strings.Contains(message(t, rec), says) {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
}
