package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorilla/mux"
)

const jsonType = "application/json;charset=UTF-8"

// maxJobBody bounds the body of a request about jobs: a config, or several.
const maxJobBody = 4 << 20

// answer sends the value as JSON.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		s.log.Error("answer not encoded", "path", r.URL.EscapedPath(), "error", err)
		status = http.StatusInternalServerError
		buf.Reset()
		buf.WriteString(`{"status":"fail","message":"internal error"}` + "\n")
	}
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // an error means that the client is gone
}

// body reads the whole body of up to limit bytes. It must come as it is: bytes that are packed would be taken for something else.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			w.Header().Set("Accept-Encoding", "identity")
			return nil, failf(http.StatusUnsupportedMediaType, "Content-Encoding %q is not supported: send the body as it is", shorten(coding))
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, failf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", limit)
	}
	if err != nil {
		return nil, badRequest("the body cannot be read: %v", err)
	}
	return data, nil
}

// jsonBody reads a body that must be JSON, in SeaTunnel's words.
func jsonBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := body(w, r, maxJobBody)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, badRequest("Request body is empty.")
	}
	const invalid = "Invalid JSON format in request body."
	if !utf8.Valid(data) {
		return nil, badRequest(invalid + " It is not UTF-8.")
	}
	var all json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		line, column := place(data, err)
		return nil, badRequest(invalid+" Line %d, column %d: %v", line, column, err)
	}
	return bytes.TrimSpace(data), nil
}

// place says where in a text the error is that its decoder found.
func place(text []byte, err error) (line, column int) {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		text = text[:min(max(int(syntax.Offset)-1, 0), len(text))] // the byte at Offset is the one that is wrong
	}
	start := bytes.LastIndexByte(text, '\n') + 1
	return 1 + bytes.Count(text, []byte("\n")), 1 + utf8.RuneCount(text[start:])
}

// objectOf decodes one JSON object, numbers exactly. what names it in errors. A key that stands twice is an error, as in a query: nobody can
// say which of the two is meant.
func objectOf(data []byte, what string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, badRequest("%s must be a JSON object.", what)
	}
	obj := map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, badRequest("%s cannot be read: %v", what, err)
		}
		key, _ := token.(string) // within an object every other token is a key
		if _, twice := obj[key]; twice {
			return nil, badRequest("%s has the key %q twice.", what, shorten(key))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, badRequest("%s cannot be read: %v", what, err)
		}
		obj[key] = value
	}
	return obj, nil
}

// onlyKeys refuses a key that is none of these: what it asks for would not be done.
func onlyKeys(obj map[string]json.RawMessage, what string, known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		if !slices.Contains(known, key) {
			return badRequest("%s has the key %q, which is unknown; there are: %s", what, shorten(key), strings.Join(known, ", "))
		}
	}
	return nil
}

// arrayOf decodes a JSON array of at most limit objects.
func arrayOf(data []byte, what string, limit int) ([]map[string]json.RawMessage, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return nil, badRequest("The request body must be a JSON array of %ss.", what)
	}
	if len(raw) > limit {
		return nil, failf(http.StatusRequestEntityTooLarge, "%d %ss in one request are more than %d", len(raw), what, limit)
	}
	objs := make([]map[string]json.RawMessage, len(raw))
	for i, item := range raw {
		var err error
		if objs[i], err = objectOf(item, "The "+what+" at index "+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return objs, nil
}

// scalar returns a JSON string, number or boolean as its text; present is false for null and for nothing.
func scalar(raw json.RawMessage, name string) (text string, present bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", false, nil
	}
	switch raw[0] {
	case '"':
		err := json.Unmarshal(raw, &text)
		return text, true, err
	case '{', '[':
		return "", false, badRequest("%s must be a string or a number, not %s", name, shorten(string(raw)))
	}
	return string(raw), true, nil
}

// boolean reads true or false, in any case; nothing is false.
func boolean(text, name string) (bool, error) {
	switch strings.ToLower(text) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, badRequest("%s must be true or false, not %q", name, shorten(text))
}

// jobID returns the id in its one form. A job id is a decimal int64; only those above 0 are ever given to a job.
func jobID(text string) (id string, possible bool, err error) {
	n, parseErr := strconv.ParseInt(text, 10, 64)
	if parseErr != nil || strings.HasPrefix(text, "+") {
		return "", false, badRequest("jobId %q is not a decimal 64-bit integer", shorten(text))
	}
	return strconv.FormatInt(n, 10), n > 0, nil
}

// pathVar returns a variable of the path, unescaped.
func pathVar(r *http.Request, name string) (string, error) {
	raw := mux.Vars(r)[name]
	text, err := url.PathUnescape(raw)
	if err != nil || !utf8.ValidString(text) {
		return "", badRequest("%s %q in the path is not percent-encoded UTF-8", name, shorten(raw))
	}
	return text, nil
}

// query is the query string. A parameter that stands twice with different values is an error when it is asked for.
type query url.Values

func queryOf(r *http.Request) (query, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query string cannot be read: %v", err)
	}
	for name, values := range q {
		for _, v := range append([]string{name}, values...) {
			if !utf8.ValidString(v) {
				return nil, badRequest("query parameter %q is not UTF-8", shorten(name))
			}
		}
	}
	return query(q), nil
}

func (q query) get(name string) (string, error) {
	values := q[name]
	for _, v := range values {
		if v != values[0] {
			return "", badRequest("query parameter %s is given twice, as %q and %q", name, shorten(values[0]), shorten(v))
		}
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[0], nil
}

// number reads an integer from low to high; fallback when it is missing.
func (q query) number(name string, low, high, fallback int) (int, error) {
	text, err := q.get(name)
	if err != nil || text == "" {
		return fallback, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, badRequest("Parameter '%s' must be an integer from %d to %d, but was: %s", name, low, high, shorten(text))
	}
	return n, nil
}

// duration reads a Go duration, or plain seconds.
func duration(text, name string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if bare := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`); err != nil && bare.MatchString(text) {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < time.Millisecond {
		return 0, badRequest("%s must be a duration of at least 1ms such as 10s, 1.5h or plain seconds, not %q", name, shorten(text))
	}
	return d, nil
}

// shorten keeps what is quoted in an answer small.
func shorten(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// clock is how SeaTunnel shows a time: in the member's zone, without one.
func clock(t time.Time) string { return t.Local().Format(time.DateTime) }

// clockOrNil is clock for a time that may not have come yet.
func clockOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := clock(t)
	return &text
}

// whole and rate are how SeaTunnel shows numbers: as strings.
func whole[N ~int | ~int64 | ~uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

func rate(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	text := strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
