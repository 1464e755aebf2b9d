package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// requestID is the header in which a caller may name its request; else the server names it.
const requestID = "X-Request-Id"

var idForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// call holds what each log line and problem about a request needs, and how its answer is made.
type call struct {
	id, path string
	streams  bool // the caller asks for a stream
	// rest writes the answer after the operation and its middleware have returned; nil = the
	// operation has answered.
	rest func(w http.ResponseWriter, r *http.Request)
	// again runs the operation of a read anew: see waitForEnd.
	again  later
	waited bool
	// keyed is the idempotency key that the call is carried out under; nil = none.
	keyed *pawl.KeyBegin
	// upload is the body of a call that takes bytes; nil = the call takes none.
	upload *uploadBody
	// long is the wait of a call that is carried out under a key: see waitKeyed.
	long keyedWait
	// nothing says that the call had no effect: its answer is not stored under its key.
	nothing bool
	// sifted are the calls of a batch that could not be read.
	sifted sifted
	// refused is the code of an error that huma found, which logRequest counts; "" = none.
	refused pawl.Code
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		c = &call{}
	}
	return c
}

// withRequestID gives a request its id, which its answer and its log lines carry.
func withRequestID(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header.Get(requestID)
	if !idForm.MatchString(id) {
		id = "req_" + rand.Text()
	}
	w.Header().Set(requestID, id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return r.WithContext(context.WithValue(r.Context(), callKey{}, &call{id: id, path: r.URL.EscapedPath()}))
}

// logRequest logs the line of a request, at debug, and counts it. It must be deferred: it turns a panic into
// an internal error.
func (s *server) logRequest(w middleware.WrapResponseWriter, r *http.Request, began time.Time) {
	v := recover()
	if v != nil && v != http.ErrAbortHandler {
		s.panicked(w, r, v)
	}
	route := chi.RouteContext(r.Context()).RoutePattern()
	took := clock.Now().Sub(began)
	s.metrics.observe(route, r.Method, w.Status(), took)
	if code := callOf(r.Context()).refused; code != "" {
		s.metrics.errors.WithLabelValues(string(code)).Inc()
	}
	s.opts.Log.LogAttrs(r.Context(), slog.LevelDebug, "request",
		slog.String("request_id", callOf(r.Context()).id),
		slog.String("method", r.Method),
		slog.String("route", route),
		slog.String("path", r.URL.Path),
		slog.Int("status", w.Status()),
		slog.Int("bytes", w.BytesWritten()),
		slog.Duration("took", took))
	s.endSpan(w, r, route)
	if v == http.ErrAbortHandler { // such an answer is aborted on purpose
		panic(v)
	}
}

func (s *server) panicked(w middleware.WrapResponseWriter, r *http.Request, v any) {
	err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	if w.Status() != 0 {
		s.problem(r.Context(), err) // the answer has begun: this only logs
		return
	}
	s.write(w, r, err)
}
