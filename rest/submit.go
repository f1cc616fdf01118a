package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"gridnode/engine"
)

const (
	maxSubmits   = 100 // jobs that one request may submit
	maxSubmitKey = 255 // bytes
)

func (s *Server) registerSubmit(rs *routes) {
	for _, prefix := range []string{"", v1} {
		rs.handle(prefix+"/submit-job", methods{"POST": s.limited(s.submitJob)})
		rs.handle(prefix+"/submit-job/upload", methods{"POST": s.limited(s.submitUpload)})
		rs.handle(prefix+"/submit-jobs", methods{"POST": s.counted(s.submitJobs)})
	}
}

// submitShape is the answer to an accepted submit.
type submitShape struct {
	JobID     string           `json:"jobId"`
	JobName   string           `json:"jobName"`
	JobStatus engine.JobStatus `json:"jobStatus,omitempty"`
	Warnings  []string         `json:"warnings,omitempty"`
}

func submitShapeOf(res engine.SubmitResult) submitShape {
	return submitShape{JobID: res.JobID, JobName: res.JobName, JobStatus: res.Status, Warnings: res.Warnings}
}

func (s *Server) submitJob(w http.ResponseWriter, r *http.Request) error {
	return s.submitFrom(w, r, jsonBody)
}

// submitUpload takes the config from the file of a form.
func (s *Server) submitUpload(w http.ResponseWriter, r *http.Request) error {
	return s.submitFrom(w, r, uploaded)
}

// submitFrom submits the job of the query, with the config that the body gives.
func (s *Server) submitFrom(w http.ResponseWriter, r *http.Request, config func(http.ResponseWriter, *http.Request) ([]byte, error)) error {
	q, err := submitQuery(r)
	if err != nil {
		return err
	}
	req, err := submitRequest(q.get)
	if err != nil {
		return err
	}
	if req.SubmitKey, err = submitKey(r); err != nil {
		return err
	}
	if req.Config, err = config(w, r); err != nil {
		return err
	}
	return s.submit(w, r, req)
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request, req engine.SubmitRequest) error {
	if req.Config[0] != '{' { // it is JSON, without blanks around it
		return badRequest("The job config must be a JSON object.")
	}
	res, err := s.cfg.Jobs.Submit(r.Context(), req)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, submitShapeOf(res))
	return nil
}

// submitQuery refuses what cannot be had over REST: a dry run, and configs that are not JSON.
func submitQuery(r *http.Request) (query, error) {
	q, err := queryOf(r)
	if err != nil {
		return nil, err
	}
	for name := range q {
		if plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)); plain == "dryrun" {
			return nil, badRequest("Dry-run is only supported via CLI")
		}
	}
	format, err := q.get("format")
	if err != nil {
		return nil, err
	}
	return q, jsonFormat(format)
}

func jsonFormat(format string) error {
	switch strings.ToLower(format) {
	case "", "json":
		return nil
	case "hocon", "sql":
		return badRequest("format %q is not supported yet: send the config as JSON", format)
	}
	return badRequest("format %q is not known: send the config as JSON", shorten(format))
}

// submitRequest reads what stands beside the config: in the query, or in params.
func submitRequest(get func(name string) (string, error)) (req engine.SubmitRequest, err error) {
	id, err := get("jobId")
	if err != nil {
		return req, err
	}
	if id != "" {
		var possible bool
		if req.JobID, possible, err = jobID(id); err != nil {
			return req, err
		} else if !possible {
			return req, badRequest("jobId %s must be greater than 0", req.JobID)
		}
	}
	if req.JobName, err = get("jobName"); err != nil {
		return req, err
	}
	savepoint, err := get("isStartWithSavePoint")
	if err != nil {
		return req, err
	}
	if req.StartWithSavepoint, err = boolean(savepoint, "isStartWithSavePoint"); err != nil {
		return req, err
	}
	if req.StartWithSavepoint && req.JobID == "" {
		return req, badRequest("Please provide jobId when start with save point.")
	}
	return req, nil
}

// submitKey lets a client repeat a submit whose answer it did not get.
func submitKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxSubmitKey || !utf8.ValidString(key) {
		return "", badRequest("Idempotency-Key must be UTF-8 of at most %d bytes", maxSubmitKey)
	}
	return key, nil
}

// uploaded reads the form's field config_file, without keeping anything on disk.
func uploaded(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxJobBody+(64<<10))
	form, err := r.MultipartReader()
	if err != nil {
		return nil, failf(http.StatusUnsupportedMediaType, "the request must be a multipart/form-data form with a file in the field config_file, and its Content-Type is %q",
			shorten(r.Header.Get("Content-Type")))
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, badRequest("the form has no file in the field config_file")
		}
		if err != nil {
			return nil, formError(err)
		}
		if part.FormName() != "config_file" {
			continue
		}
		switch ext := strings.ToLower(filepath.Ext(part.FileName())); ext {
		case ".json", "":
		case ".conf", ".config":
			return nil, jsonFormat("hocon")
		default:
			return nil, jsonFormat(strings.TrimPrefix(ext, "."))
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return nil, formError(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		return jsonBody(w, r)
	}
}

func formError(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return failf(http.StatusRequestEntityTooLarge, "the form is larger than %d bytes", tooLarge.Limit)
	}
	return badRequest("the form cannot be read: %v", err)
}

// submitJobs submits several jobs, in order. Nothing is submitted if one of the requests is malformed; a later failure says what was
// submitted before it.
func (s *Server) submitJobs(w http.ResponseWriter, r *http.Request) error {
	if _, err := submitQuery(r); err != nil {
		return err
	}
	data, err := jsonBody(w, r)
	if err != nil {
		return err
	}
	objs, err := arrayOf(data, "job config", maxSubmits)
	if err != nil {
		return err
	}
	key, err := submitKey(r)
	if err != nil {
		return err
	}
	reqs := make([]engine.SubmitRequest, len(objs))
	for i, obj := range objs {
		if reqs[i], err = batched(obj); err != nil {
			return withFields(err, at(i), nil)
		}
		if key != "" {
			reqs[i].SubmitKey = key + "/" + whole(i)
		}
	}
	submitted := make([]submitShape, 0, len(reqs))
	for i, req := range reqs {
		ctx, cancel := s.oneCall(r)
		res, err := s.cfg.Jobs.Submit(ctx, req)
		cancel()
		if err != nil {
			return withFields(err, at(i), map[string]any{"submitted": submitted})
		}
		submitted = append(submitted, submitShapeOf(res))
	}
	s.answer(w, r, http.StatusOK, submitted)
	return nil
}

// batched takes params out of a config.
func batched(config map[string]json.RawMessage) (engine.SubmitRequest, error) {
	params := map[string]json.RawMessage{}
	if raw, ok := config["params"]; ok && string(raw) != "null" {
		var err error
		if params, err = objectOf(raw, "params"); err != nil {
			return engine.SubmitRequest{}, err
		}
	}
	delete(config, "params")
	if err := onlyKeys(params, "params", "jobId", "jobName", "isStartWithSavePoint", "format"); err != nil {
		return engine.SubmitRequest{}, err
	}
	format, _, err := scalar(params["format"], "params.format")
	if err == nil {
		err = jsonFormat(format)
	}
	if err != nil {
		return engine.SubmitRequest{}, err
	}
	req, err := submitRequest(func(name string) (string, error) {
		text, _, err := scalar(params[name], "params."+name)
		return text, err
	})
	if err != nil {
		return req, err
	}
	req.Config, err = json.Marshal(config)
	return req, err
}

// stopRequest reads one request to stop a job.
func stopRequest(obj map[string]json.RawMessage) (req engine.StopRequest, err error) {
	if err := onlyKeys(obj, "The request", "jobId", "isStopWithSavePoint", "force"); err != nil {
		return req, err
	}
	text, present, err := scalar(obj["jobId"], "jobId")
	if err != nil {
		return req, err
	}
	if !present || text == "" {
		return req, badRequest("jobId cannot be empty.")
	}
	if req.JobID, _, err = jobID(text); err != nil {
		return req, err
	}
	for name, into := range map[string]*bool{"isStopWithSavePoint": &req.Savepoint, "force": &req.Force} {
		text, _, err := scalar(obj[name], name)
		if err != nil {
			return req, err
		}
		if *into, err = boolean(text, name); err != nil {
			return req, err
		}
	}
	return req, nil
}
