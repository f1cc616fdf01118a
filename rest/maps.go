package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gridnode/grid"
)

// Limits of keys, values and lists.
const (
	MaxValue   = 4 << 20
	MaxKey     = 1 << 10
	MaxMapName = 255
	MaxEntries = 1000 // of one list

	defaultEntries = 100
	maxListBytes   = 8 << 20 // of the values of one list
)

// enginePrefix begins the names of the maps that belong to the job engine.
const enginePrefix = "engine_"

const (
	textType   = "text/plain; charset=utf-8"
	binaryType = "application/octet-stream"
)

func (s *Server) registerMaps(rs *routes) {
	rs.handle("/api/v1/maps", methods{"GET": s.limited(s.listMaps)})
	rs.handle("/api/v1/maps/{map}/size", methods{"GET": s.limited(s.mapSize)})
	rs.handle("/api/v1/maps/{map}/entries", methods{"GET": s.limited(s.mapEntries)})
	rs.handle("/api/v1/maps/{map}/entries/{key}", methods{
		"GET": s.limited(s.getEntry), "PUT": s.limited(s.putEntry), "DELETE": s.limited(s.deleteEntry),
	})
}

type mapShape struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// mapInfoShape is a map in the list of maps.
type mapInfoShape struct {
	Name        string `json:"name"`
	Size        int    `json:"size"`
	Bytes       int64  `json:"bytes"`
	Locks       int    `json:"locks"`
	Gets        uint64 `json:"gets"`
	Hits        uint64 `json:"hits"`
	Misses      uint64 `json:"misses"`
	Puts        uint64 `json:"puts"`
	Removes     uint64 `json:"removes"`
	Evictions   uint64 `json:"evictions"`
	Expirations uint64 `json:"expirations"`
}

func (s *Server) listMaps(w http.ResponseWriter, r *http.Request) error {
	infos, err := s.cfg.Maps.List(r.Context())
	if err != nil {
		return err
	}
	shapes := make([]mapInfoShape, 0, len(infos))
	for _, m := range infos {
		shapes = append(shapes, mapInfoShape{
			Name: m.Name, Size: m.Size, Bytes: m.Bytes, Locks: m.Locks, Gets: m.Gets, Hits: m.Hits, Misses: m.Misses,
			Puts: m.Puts, Removes: m.Removes, Evictions: m.Evictions, Expirations: m.Expirations,
		})
	}
	s.answer(w, r, http.StatusOK, map[string]any{"maps": shapes})
	return nil
}

func (s *Server) mapSize(w http.ResponseWriter, r *http.Request) error {
	name, err := mapName(r)
	if err != nil {
		return err
	}
	size, err := s.cfg.Maps.Size(r.Context(), name)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, mapShape{Name: name, Size: size})
	return nil
}

// entryShape is an entry of a list. The value stands in the field that it fits: JSON as itself, text as text, anything else in base64.
type entryShape struct {
	Key         string          `json:"key"`
	JSON        json.RawMessage `json:"json,omitempty"`
	Text        *string         `json:"text,omitempty"`
	Base64      []byte          `json:"base64,omitempty"`
	ContentType string          `json:"contentType"`
	Version     string          `json:"version"`
	TTLMillis   int64           `json:"ttlMs,omitempty"`
	Type        int32           `json:"type,omitempty"`
}

func entryShapeOf(e Entry) entryShape {
	shape := entryShape{
		Key: e.Key, ContentType: e.Value.ContentType, Version: strconv.FormatUint(e.Value.Version, 10), TTLMillis: e.Value.TTL.Milliseconds(),
		Type: e.Value.Type,
	}
	switch {
	case e.Value.Type != 0:
		shape.Base64 = e.Value.Body
	case isJSON(e.Value.ContentType) && json.Valid(e.Value.Body):
		shape.JSON = e.Value.Body
	case utf8.Valid(e.Value.Body):
		shape.Text = new(string(e.Value.Body))
	default:
		shape.Base64 = e.Value.Body
	}
	return shape
}

// mapEntries lists some entries: at most limit, and no more than fit an answer.
func (s *Server) mapEntries(w http.ResponseWriter, r *http.Request) error {
	name, err := mapName(r)
	if err != nil {
		return err
	}
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, MaxEntries, defaultEntries)
	if err != nil {
		return err
	}
	if q.given("where") || q.given("after") {
		return s.findEntries(w, r, name, q, limit)
	}
	entries, err := s.cfg.Maps.Entries(r.Context(), name, limit+1) // one more tells whether there are more
	if err != nil {
		return err
	}
	shapes, bytes := make([]entryShape, 0, min(len(entries), limit)), 0
	for _, e := range entries[:min(len(entries), limit)] {
		if bytes += len(e.Value.Body); bytes > maxListBytes && len(shapes) > 0 {
			break
		}
		shapes = append(shapes, entryShapeOf(e))
	}
	s.answer(w, r, http.StatusOK, map[string]any{"map": name, "entries": shapes, "more": len(shapes) < len(entries)})
	return nil
}

// findEntries lists the entries for which a where text holds, page by page.
func (s *Server) findEntries(w http.ResponseWriter, r *http.Request, name string, q query, limit int) error {
	find := Find{Limit: limit, Bytes: maxListBytes}
	var err error
	if find.Where, err = q.get("where"); err != nil {
		return err
	}
	if find.Where == "" && q.given("where") {
		return badRequest("query parameter where is empty")
	}
	if find.After, err = q.get("after"); err != nil {
		return err
	}
	entries, next, err := s.cfg.Maps.Find(r.Context(), name, find)
	if err != nil {
		return err
	}
	shapes := make([]entryShape, 0, len(entries))
	for _, e := range entries {
		shapes = append(shapes, entryShapeOf(e))
	}
	out := map[string]any{"map": name, "entries": shapes, "more": next != ""}
	if next != "" {
		out["next"] = next
	}
	s.answer(w, r, http.StatusOK, out)
	return nil
}

func (s *Server) getEntry(w http.ResponseWriter, r *http.Request) error {
	name, key, err := entryPath(r)
	if err != nil {
		return err
	}
	v, err := s.cfg.Maps.Get(r.Context(), name, key)
	if errors.Is(err, ErrAbsent) {
		return absent(name, key)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Etag", etag(v.Version))
	h.Set("Cache-Control", "no-cache")
	if v.TTL > 0 {
		h.Set("Gridnode-Ttl-Ms", strconv.FormatInt(max(v.TTL.Milliseconds(), 1), 10))
	}
	if v.Type != 0 {
		h.Set("Gridnode-Type", strconv.Itoa(int(v.Type)))
	}
	if none := r.Header.Get("If-None-Match"); none == "*" || slices.Contains(strings.Split(strings.ReplaceAll(none, " ", ""), ","), etag(v.Version)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	// What users stored must not run as a page of this member.
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Type", v.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(v.Body)))
	w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(w, bytes.NewReader(v.Body)) // an error means that the client is gone
	return nil
}

// putShape is the answer to a put.
type putShape struct {
	Map       string           `json:"map"`
	Key       string           `json:"key"`
	Created   bool             `json:"created"`
	Version   string           `json:"version"`
	Partition grid.PartitionID `json:"partition"`
	Primary   string           `json:"primary,omitempty"` // the name of the member
}

func (s *Server) putEntry(w http.ResponseWriter, r *http.Request) error {
	name, key, err := writablePath(r)
	if err != nil {
		return err
	}
	opts, err := putOptions(r.Header)
	if err != nil {
		return err
	}
	v, err := putValue(w, r)
	if err != nil {
		return err
	}
	res, err := s.cfg.Maps.Put(r.Context(), name, key, v, opts)
	if err != nil {
		return err
	}
	if !res.Applied {
		return s.conditionFailed(w, name, key, res.Version)
	}
	w.Header().Set("Etag", etag(res.Version))
	status := http.StatusOK
	if res.Created {
		status = http.StatusCreated
	}
	s.answer(w, r, status, putShape{
		Map: name, Key: key, Created: res.Created, Version: strconv.FormatUint(res.Version, 10),
		Partition: res.Partition, Primary: s.primaryName(res.Partition),
	})
	return nil
}

func (s *Server) deleteEntry(w http.ResponseWriter, r *http.Request) error {
	name, key, err := writablePath(r)
	if err != nil {
		return err
	}
	match, err := ifMatch(r.Header)
	if err != nil {
		return err
	}
	if r.Header.Get("If-None-Match") != "" {
		return badRequest("If-None-Match cannot be had with DELETE")
	}
	res, err := s.cfg.Maps.Delete(r.Context(), name, key, match.version)
	switch {
	case err != nil:
		return err
	case res.Deleted:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case match.given:
		return s.conditionFailed(w, name, key, res.Version)
	}
	return absent(name, key)
}

func absent(name, key string) error {
	return failf(http.StatusNotFound, "map %q has no entry %q", name, shorten(key))
}

// conditionFailed says how the entry is instead.
func (s *Server) conditionFailed(w http.ResponseWriter, name, key string, version uint64) error {
	if version == 0 {
		return withFields(failf(http.StatusPreconditionFailed, "map %q has no entry %q", name, shorten(key)), "", map[string]any{"exists": false})
	}
	w.Header().Set("Etag", etag(version))
	text := strconv.FormatUint(version, 10)
	err := failf(http.StatusPreconditionFailed, "the entry %q of map %q has version %s", shorten(key), name, text)
	return withFields(err, "", map[string]any{"exists": true, "version": text})
}

func (s *Server) primaryName(p grid.PartitionID) string {
	state := s.cfg.Grid.State()
	if state == nil || p < 0 || int(p) >= len(state.Partitions) {
		return ""
	}
	m, _ := state.Member(state.Partitions[p].Primary())
	return m.Name
}

func mapName(r *http.Request) (string, error) {
	name, err := pathVar(r, "map")
	if err == nil && len(name) > MaxMapName {
		err = badRequest("the map name has %d bytes, more than %d", len(name), MaxMapName)
	}
	return name, err
}

func entryPath(r *http.Request) (name, key string, err error) {
	if name, err = mapName(r); err != nil {
		return "", "", err
	}
	if key, err = pathVar(r, "key"); err == nil && len(key) > MaxKey {
		err = badRequest("the key has %d bytes, more than %d", len(key), MaxKey)
	}
	return name, key, err
}

// writablePath is entryPath for a request that changes the entry. The engine's maps can be looked at, but jobs live in them.
func writablePath(r *http.Request) (name, key string, err error) {
	name, key, err = entryPath(r)
	if err == nil && strings.HasPrefix(name, enginePrefix) {
		err = failf(http.StatusForbidden, "map %q belongs to the job engine and can only be read", name)
	}
	return name, key, err
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// match is an If-Match header.
type match struct {
	given   bool
	version uint64 // 0: any
}

func ifMatch(h http.Header) (match, error) {
	text := strings.TrimSpace(h.Get("If-Match"))
	switch text {
	case "":
		return match{}, nil
	case "*":
		return match{given: true}, nil
	}
	bare, quoted := strings.CutPrefix(text, `"`)
	bare, closed := strings.CutSuffix(bare, `"`)
	version, err := strconv.ParseUint(bare, 10, 64)
	if err != nil || version == 0 || quoted != closed {
		return match{}, badRequest("If-Match must be * or one version such as \"42\", as the Etag header gives it, not %s", shorten(text))
	}
	return match{given: true, version: version}, nil
}

func putOptions(h http.Header) (PutOptions, error) {
	m, err := ifMatch(h)
	if err != nil {
		return PutOptions{}, err
	}
	none := strings.TrimSpace(h.Get("If-None-Match"))
	switch {
	case none != "" && none != "*":
		return PutOptions{}, badRequest("If-None-Match must be * with PUT, not %s", shorten(none))
	case none != "" && m.given:
		return PutOptions{}, badRequest("If-Match and If-None-Match exclude each other")
	}
	return PutOptions{IfAbsent: none != "", IfPresent: m.given && m.version == 0, IfVersion: m.version}, nil
}

// putValue reads the value and its time to live.
func putValue(w http.ResponseWriter, r *http.Request) (v Value, err error) {
	q, err := queryOf(r)
	if err != nil {
		return v, err
	}
	ttl, err := q.get("ttl")
	if err != nil {
		return v, err
	}
	if ttl != "" {
		if v.TTL, err = duration(ttl, "ttl"); err != nil {
			return v, err
		}
	}
	for name := range q {
		if name != "ttl" {
			return v, badRequest("query parameter %q is not known here, only ttl", shorten(name))
		}
	}
	if v.Body, err = body(w, r, MaxValue); err != nil {
		return v, err
	}
	v.ContentType, err = contentType(r.Header.Get("Content-Type"), v.Body)
	return v, err
}

// contentType decides how a value is kept. What clients send when they were told nothing means text, if it is some.
func contentType(given string, value []byte) (string, error) {
	media, params, err := mime.ParseMediaType(given)
	if given != "" && (err != nil || len(given) > 255) {
		return "", badRequest("Content-Type %q cannot be read", shorten(given))
	}
	switch text := utf8.Valid(value); {
	case given == "" || media == "application/x-www-form-urlencoded": // the latter is curl's default
		if text {
			return textType, nil
		}
		return binaryType, nil
	case isJSON(media):
		if !json.Valid(value) || !text {
			return "", badRequest("the value is not valid JSON, which its Content-Type %s promises", media)
		}
	case strings.HasPrefix(media, "text/") && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8")) && !text:
		return "", badRequest("the value is not UTF-8, which its Content-Type %s promises", media)
	}
	return given, nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
