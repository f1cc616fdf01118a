package rest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"gridnode/engine"
	"gridnode/grid"
)

// httpError is an error whose answer is already known.
type httpError struct {
	status  int
	message string
}

func (e *httpError) Error() string { return e.message }

func failf(status int, format string, args ...any) error {
	return &httpError{status: status, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return failf(http.StatusBadRequest, format, args...)
}

// withFields adds fields to the body of the answer to err, whatever error it is.
func withFields(err error, prefix string, fields map[string]any) error {
	return &fieldsError{err: err, prefix: prefix, fields: fields}
}

type fieldsError struct {
	err    error
	prefix string
	fields map[string]any
}

func (e *fieldsError) Error() string { return e.prefix + e.err.Error() }
func (e *fieldsError) Unwrap() error { return e.err }

// failure is what the caller gets for an error.
type failure struct {
	status     int
	message    string
	unknown    bool          // the request may have done its work
	retryAfter time.Duration // 0: it is of no use to ask again
	internal   bool          // the message is not for the caller
	extra      map[string]any
}

// defaultRetryAfter is when to ask again if the error does not say. Retry-After counts in whole seconds.
const defaultRetryAfter = time.Second

// failureOf is the one place where errors become answers.
func failureOf(err error) failure {
	f := failure{message: err.Error()}
	if he, ok := errors.AsType[*httpError](err); ok {
		f.status = he.status
	} else if f.status = engineStatus(err); f.status == 0 {
		f.status = gridStatus(err)
	}
	if fe, ok := errors.AsType[*fieldsError](err); ok {
		f.extra = fe.fields
	}
	if f.message == "" {
		f.message = http.StatusText(f.status)
	}
	switch f.status {
	case http.StatusServiceUnavailable:
		f.retryAfter = defaultRetryAfter
	case http.StatusGatewayTimeout:
		f.unknown = true
	case http.StatusInternalServerError:
		f.internal = true
	}
	if ra, ok := errors.AsType[*engine.RetryAfterError](err); ok {
		f.retryAfter = max(ra.After, defaultRetryAfter)
	}
	return f
}

// engineStatus returns 0 for an error that is none of the engine's.
func engineStatus(err error) int {
	switch {
	case errors.Is(err, engine.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, engine.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, engine.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, engine.ErrIndeterminate):
		return http.StatusGatewayTimeout
	case errors.Is(err, engine.ErrRetryable):
		return http.StatusServiceUnavailable
	}
	return 0
}

func gridStatus(err error) int {
	switch {
	case errors.Is(err, grid.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, grid.ErrBadRequest):
		return http.StatusBadRequest
	case errors.Is(err, grid.ErrMemory):
		return http.StatusInsufficientStorage
	case errors.Is(err, grid.ErrRefused), errors.Is(err, grid.ErrNotOwner):
		return http.StatusConflict
	case errors.Is(err, grid.ErrClosed): // another member can do it
		return http.StatusServiceUnavailable
	}
	switch grid.KindOf(err) {
	case grid.Retryable:
		return http.StatusServiceUnavailable
	case grid.Indeterminate:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// fail answers with the error. A cause inside the member is logged, and the caller is told where to look.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if no := s.cfg.Grid.Quorum(); no != nil && f.status == http.StatusServiceUnavailable && outOfReach(err) {
		f.message = no.Error() + " (" + f.message + ")"
	}
	if f.internal {
		id := requestID(r.Context())
		s.log.Error("request failed", "method", r.Method, "path", r.URL.EscapedPath(), "request", id, "error", err)
		f.message = "internal error; the log of this member has the cause under request " + id
	} else if errors.Is(err, context.Canceled) && context.Cause(r.Context()) == context.Canceled {
		s.log.Debug("client went away", "method", r.Method, "path", r.URL.EscapedPath())
	}
	body := map[string]any{}
	for k, v := range f.extra {
		body[k] = v
	}
	body["status"], body["message"] = "fail", f.message
	if f.unknown {
		body["outcome"] = "unknown"
		if safe(r.Method) {
			f.retryAfter = defaultRetryAfter
		}
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
	}
	s.answer(w, r, f.status, body)
}

// outOfReach reports whether an error may come from there being no majority, and does not say so itself.
func outOfReach(err error) bool {
	_, own := errors.AsType[*httpError](err)
	return !own && !errors.Is(err, grid.ErrNoQuorum) && !errors.Is(err, grid.ErrClosed) && !errors.Is(err, grid.ErrOverloaded)
}

// safe reports whether the method changes nothing, so that it may always be repeated.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
