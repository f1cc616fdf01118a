package rest

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
)

// v1 is where SeaTunnel's first REST API lives: on Hazelcast's own.
const v1 = "/hazelcast/rest/maps"

// handlerFunc answers a request, or returns the error to answer with. It writes nothing before it knows which.
type handlerFunc func(http.ResponseWriter, *http.Request) error

// methods are the handlers of one path. HEAD is answered by GET's, OPTIONS for all.
type methods map[string]handlerFunc

func (m methods) allow() string {
	allowed := []string{http.MethodOptions}
	for method := range m {
		allowed = append(allowed, method)
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return strings.Join(allowed, ", ")
}

// routes collects what the server answers. Handlers are registered by one function per noun, beside them.
type routes struct {
	server *Server
	router *mux.Router
	paths  []string
}

// handle registers the handlers of a path, with and without a slash at its end.
func (rs *routes) handle(path string, m methods) {
	rs.add(path, rs.server.endpoint(path, m))
}

// stream registers the GET handler of a path whose answer may take as long as it likes. It bounds by itself how many there are.
func (rs *routes) stream(path string, h handlerFunc) {
	rs.add(path, rs.server.endpointWithin(path, methods{"GET": h}, 0))
}

func (rs *routes) add(path string, h http.Handler) {
	rs.router.Handle(path, h)
	if path != "/" {
		rs.router.Handle(path+"/", h)
	}
	rs.paths = append(rs.paths, path)
}

func (s *Server) handler() http.Handler {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	router.NotFoundHandler = s.endpoint("none", nil)
	rs := &routes{server: s, router: router}
	s.registerJobs(rs)
	s.registerSubmit(rs)
	s.registerQueue(rs)
	s.registerJobDetail(rs)
	s.registerCheckpoints(rs)
	s.registerMonitor(rs)
	s.registerCluster(rs)
	s.registerMaps(rs)
	s.registerHealth(rs)
	s.registerIndex(rs)

	guard := http.NewCrossOriginProtection() // a web page of another origin must not submit jobs to a loopback address
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, failf(http.StatusForbidden, "a request that changes something must not come from a page of another origin"))
	}))
	return s.outer(guard.Handler(router))
}

// outer is around everything: it survives panics and names requests.
func (s *Server) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := uuid.NewString()
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		w.Header().Set("Server", "gridnode/"+s.cfg.Version)
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				s.log.Error("request panicked", "request", id, "panic", p, "stack", string(debug.Stack()))
				s.fail(w, r, fmt.Errorf("panic: %v", p))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

type requestIDKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// endpoint answers the requests to one path. Nil methods: there is no such path.
func (s *Server) endpoint(path string, m methods) http.Handler {
	return s.endpointWithin(path, m, s.cfg.RequestTimeout)
}

// endpointWithin bounds each answer; 0 is no bound, and its time is not measured.
func (s *Server) endpointWithin(path string, m methods, limit time.Duration) http.Handler {
	allow := m.allow()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		if limit > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			r = r.WithContext(ctx)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ending, cancel)()
		r = r.WithContext(ctx)
		defer func() {
			took := time.Since(began)
			if limit == 0 {
				took = -1
			}
			s.metrics.observe(path, r.Method, rec.status, took)
		}()
		if err := s.dispatch(rec, r, m, allow); err != nil {
			s.fail(rec, r, err)
		}
	})
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, m methods, allow string) error {
	if m == nil {
		return failf(http.StatusNotFound, "there is nothing at %q; GET / lists what there is", r.URL.EscapedPath())
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	h, ok := m[method]
	switch {
	case ok:
	case method == http.MethodOptions:
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		w.Header().Set("Allow", allow)
		return failf(http.StatusMethodNotAllowed, "%s is not allowed here, only %s", r.Method, allow)
	}
	return h(w, r)
}

// limited is for all that needs the cluster: it is bounded in number and in time.
func (s *Server) limited(h handlerFunc) handlerFunc { return s.counted(s.deadlined(h)) }

// counted takes one of the server's tokens for the time of the request: what it holds in memory at once is bounded by that.
func (s *Server) counted(h handlerFunc) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.refused(); err != nil {
			return err
		}
		select {
		case s.inFlight <- struct{}{}:
			defer func() { <-s.inFlight }()
			return h(w, r)
		default:
			return failf(http.StatusServiceUnavailable, "%d requests are being worked on already", cap(s.inFlight))
		}
	}
}

// statusRecorder remembers the status that was sent.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets [http.ResponseController] find the original.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
