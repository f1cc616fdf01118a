package rest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"gridnode/grid"
)

const entry = "/api/v1/maps/m/entries/k"

func TestEntry_Conditions(t *testing.T) {
	type step struct {
		method, header string
		status         int
		etag           string
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"create, replace, read, delete", []step{
			{"PUT", "", 201, `"1"`}, {"PUT", "", 200, `"2"`}, {"GET", "", 200, `"2"`}, {"HEAD", "", 200, `"2"`}, {"DELETE", "", 204, ""},
			{"GET", "", 404, ""}, {"HEAD", "", 404, ""}, {"DELETE", "", 404, ""},
		}},
		{"put if absent", []step{
			{"PUT", "If-None-Match: *", 201, `"1"`}, {"PUT", "If-None-Match: *", 412, `"1"`}, {"GET", "", 200, `"1"`},
		}},
		{"put if version", []step{
			{"PUT", `If-Match: "1"`, 412, ""}, {"PUT", "", 201, `"1"`}, {"PUT", `If-Match: "1"`, 200, `"2"`},
			{"PUT", `If-Match: "1"`, 412, `"2"`}, {"PUT", `If-Match: 2`, 200, `"3"`},
		}},
		{"put if present", []step{{"PUT", "If-Match: *", 412, ""}, {"PUT", "", 201, `"1"`}, {"PUT", "If-Match: *", 200, `"2"`}}},
		{"delete if version", []step{
			{"DELETE", `If-Match: "1"`, 412, ""}, {"PUT", "", 201, `"1"`}, {"DELETE", `If-Match: "9"`, 412, `"1"`}, {"DELETE", `If-Match: "1"`, 204, ""},
		}},
		{"read if changed", []step{
			{"PUT", "", 201, `"1"`}, {"GET", `If-None-Match: "1"`, 304, `"1"`}, {"GET", `If-None-Match: "7", "1"`, 304, `"1"`}, {"GET", `If-None-Match: "11"`, 200, `"1"`},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			for i, s := range tt.steps {
				rec := f.do(s.method, entry, "v", s.header)
				if rec.Code != s.status || rec.Header().Get("Etag") != s.etag {
					t.Errorf("step %d, %s %s: %d, Etag %s; want %d, %s", i, s.method, s.header, rec.Code, rec.Header().Get("Etag"), s.status, s.etag)
				}
				if s.status >= 400 {
					message(t, rec)
				}
			}
		})
	}
}

func TestEntry_PutAnswer(t *testing.T) {
	f := newFixture(t)
	f.maps.version = 9007199254740992
	golden(t, "put-entry", f.do("PUT", entry, "v"))
	golden(t, "put-entry-exists", f.do("PUT", entry, "v", "If-None-Match: *"))
	golden(t, "get-entry-absent", f.do("GET", "/api/v1/maps/m/entries/none", ""))
	f.do("PUT", "/api/v1/maps/m/entries/j", `{"a":9007199254740993}`, "Content-Type: application/json")
	f.do("PUT", "/api/v1/maps/m/entries/b?ttl=1m", "\xff\xfe", "Content-Type: application/octet-stream")
	golden(t, "entries", f.do("GET", "/api/v1/maps/m/entries?limit=2", ""))
	golden(t, "entries-all", f.do("GET", "/api/v1/maps/m/entries", ""))
	golden(t, "maps", f.do("GET", "/api/v1/maps", ""))
	golden(t, "size", f.do("GET", "/api/v1/maps/m/size", ""))
}

// What only a client can read that wrote it comes with its type id, and is not taken for text.
func TestEntry_OfAForeignType(t *testing.T) {
	e := Entry{Key: "k", Value: Value{Body: []byte("text?"), ContentType: binaryType, Type: -29, Version: 1}}
	got, err := json.Marshal(entryShapeOf(e))
	if want := `{"key":"k","base64":"dGV4dD8=","contentType":"application/octet-stream","version":"1","type":-29}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestEntry_BadRequests(t *testing.T) {
	tests := []struct {
		name, target, body, header string
		status                     int
		says                       string
	}{
		{"ttl", entry + "?ttl=soon", "v", "", 400, "ttl"},
		{"negative ttl", entry + "?ttl=-1s", "v", "", 400, "ttl"},
		{"no ttl", entry + "?ttl=0", "v", "", 400, "ttl"},
		{"huge ttl", entry + "?ttl=99999999999999999999", "v", "", 400, "ttl"},
		{"two ttls", entry + "?ttl=1s&ttl=2s", "v", "", 400, "ttl"},
		{"misspelt ttl", entry + "?tll=1s", "v", "", 400, "tll"},
		{"large value", entry, strings.Repeat("v", MaxValue+1), "", 413, "4194304"},
		{"long key", "/api/v1/maps/m/entries/" + strings.Repeat("k", MaxKey+1), "v", "", 400, "1025"},
		{"long map name", "/api/v1/maps/" + strings.Repeat("m", MaxMapName+1) + "/entries/k", "v", "", 400, "256"},
		{"key not UTF-8", "/api/v1/maps/m/entries/%FF", "v", "", 400, "UTF-8"},
		{"bad JSON", entry, `{"a":}`, "Content-Type: application/json", 400, "JSON"},
		{"bad vendor JSON", entry, ``, "Content-Type: application/vnd.x+json; charset=utf-8", 400, "JSON"},
		{"text not UTF-8", entry, "\xff", "Content-Type: text/plain", 400, "UTF-8"},
		{"type", entry, "v", "Content-Type: ;;", 400, "Content-Type"},
		{"If-Match", entry, "v", "If-Match: \"x\"", 400, "If-Match"},
		{"If-None-Match", entry, "v", "If-None-Match: \"1\"", 400, "If-None-Match"},
		{"engine's", "/api/v1/maps/engine_runningJobState/entries/1", "v", "", 403, "engine"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			rec := f.do("PUT", tt.target, tt.body, tt.header)
			if got := message(t, rec); rec.Code != tt.status || !strings.Contains(got, tt.says) {
				t.Errorf("%d %q, want %d with %q", rec.Code, got, tt.status, tt.says)
			}
			if len(f.maps.entries) > 0 {
				t.Error("it was put all the same")
			}
		})
	}
}

func TestEntry_AnyKeyIsItself(t *testing.T) {
	for _, key := range []string{"a/b", "/", "..", ".", " ", "a b", "a+b", "100%", "%2F", "ключ 😀", "?x=1", "#", "entries", ";"} {
		f := newFixture(t)
		target := "/api/v1/maps/" + url.PathEscape(key) + "/entries/" + url.PathEscape(key)
		f.do("PUT", target, "v")
		if _, ok := f.maps.entries[[2]string{key, key}]; !ok || f.do("GET", target, "").Body.String() != "v" {
			t.Errorf("%q: entries are %v", key, f.maps.entries)
		}
	}
}

func TestEntry_KeepsTypeAndTTL(t *testing.T) {
	tests := []struct {
		query, sent, value string
		kept               string
		ttl                time.Duration
	}{
		{"", "", "v", textType, 0},
		{"", "", "\xff", binaryType, 0},
		{"?ttl=10", "application/x-www-form-urlencoded", "a=1", textType, 10 * time.Second},
		{"?ttl=0.5", "application/json", `"x"`, "application/json", 500 * time.Millisecond},
		{"?ttl=1h30m", "text/plain;charset=latin1", "\xe4", "text/plain;charset=latin1", 90 * time.Minute},
		{"", "text/html", "<script>", "text/html", 0},
		{"", "", "", textType, 0},
	}
	for _, tt := range tests {
		f := newFixture(t)
		f.do("PUT", entry+tt.query, tt.value, "Content-Type: "+tt.sent)
		want := Value{Body: []byte(tt.value), ContentType: tt.kept, Version: 1, TTL: tt.ttl}
		if diff := gocmp.Diff(want, f.maps.entries[[2]string{"m", "k"}]); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.query, tt.sent, diff)
		}
		rec := f.do("GET", entry, "")
		if rec.Body.String() != tt.value || rec.Header().Get("Content-Type") != tt.kept || !strings.Contains(rec.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %v %q", tt.sent, rec.Header(), rec.Body)
		}
	}
}

func TestEntry_GridErrors(t *testing.T) {
	tests := []struct {
		method     string
		err        error
		status     int
		retryAfter string
	}{
		{"PUT", grid.ErrNotReady, 503, "1"}, {"GET", grid.ErrNoLease, 503, "1"}, {"DELETE", grid.ErrPartitionLost, 503, "1"},
		{"PUT", grid.ErrIndeterminate, 504, ""}, {"GET", grid.ErrIndeterminate, 504, "1"}, {"PUT", grid.ErrTooLarge, 413, ""},
	}
	for _, tt := range tests {
		f := newFixture(t)
		f.maps.err = tt.err
		rec := f.do(tt.method, entry, "v")
		message(t, rec)
		if rec.Code != tt.status || rec.Header().Get("Retry-After") != tt.retryAfter {
			t.Errorf("%s, %v: %d, Retry-After %q", tt.method, tt.err, rec.Code, rec.Header().Get("Retry-After"))
		}
		if got := strings.Contains(rec.Body.String(), `"outcome":"unknown"`); got != (tt.status == http.StatusGatewayTimeout) {
			t.Errorf("%s, %v: %s", tt.method, tt.err, rec.Body)
		}
	}
}
