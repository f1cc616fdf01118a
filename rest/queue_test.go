package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

func TestUpdateTags(t *testing.T) {
	long := strings.Repeat("x", 256)
	many := map[string]int{}
	for i := range 65 {
		many[whole(i)] = i
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		body   string
		status int
		want   map[string]string
		says   string
	}{
		{`{"group":"platform","team":7,"gpu":true}`, 200, map[string]string{"group": "platform", "team": "7", "gpu": "true"}, "update node tags done."},
		{`{}`, 200, map[string]string{}, "success"},
		{`{"a":null}`, 400, nil, "not null"},
		{`{"a":{}}`, 400, nil, "tag a"},
		{`{"":"x"}`, 400, nil, "name"},
		{`{"` + long + `":"x"}`, 400, nil, "255"},
		{`{"a":"` + long + `"}`, 400, nil, "255"},
		{string(tooMany), 400, nil, "65 tags"},
		{`[]`, 400, nil, "object"},
		{``, 400, nil, "empty"},
	} {
		f := newFixture(t)
		rec := f.do("POST", "/update-tags", test.body)
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.says) || !maps.Equal(f.grid.tags, test.want) {
			t.Errorf("%s: %d %s, tags %v", shorten(test.body), rec.Code, rec.Body, f.grid.tags)
		}
	}
}

func TestPendingJobs(t *testing.T) {
	f := newFixture(t)
	for target, want := range map[string]struct {
		status, jobs int
		says         string
	}{
		"/pending-jobs":                       {200, 1, `"scheduleStrategy":"WAIT"`},
		"/pending-jobs?jobId=8&limit=1":       {200, 1, `"blockingJobIds":["733584788375666689"]`},
		"/pending-jobs?jobId=9":               {200, 0, `"size":1`},
		"/pending-jobs?pretty=true":           {200, 1, `"enqueueTimestamp":"2026-11-30 10:20:00"`},
		"/hazelcast/rest/maps/pending-jobs":   {200, 1, `"lackingTaskGroups":3`},
		"/pending-jobs?limit=0":               {400, 0, "limit"},
		"/pending-jobs?jobId=x":               {400, 0, "x"},
		"/pending-jobs?pretty=perhaps":        {400, 0, "pretty"},
		"/overview?zone=a&no=such":            {200, 0, `"totalSlot":"0"`},
		"/hazelcast/rest/maps/overview?zone=": {200, 0, `"workers":"0"`},
	} {
		rec := f.do("GET", target, "")
		var got struct{ PendingJobs []any }
		_ = json.Unmarshal(rec.Body.Bytes(), &got)
		if rec.Code != want.status || len(got.PendingJobs) != want.jobs || !strings.Contains(rec.Body.String(), want.says) {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
	if rec := f.do("PUT", "/pending-jobs", ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", rec.Code)
	}
}
