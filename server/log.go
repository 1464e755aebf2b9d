package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// requestID is the header that a caller may name its request by; else we do.
const requestID = "X-Request-Id"

var idForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// call is what every line and problem about a request needs, and how it goes on.
type call struct {
	id, path string
	streams  bool // the caller wants a stream
	// rest answers when all that led to the operation has returned; nil = the
	// operation has answered.
	rest func(w http.ResponseWriter, r *http.Request)
	// keyed is the idempotency key that the call is carried out under, nil = none.
	keyed *pawl.KeyBegin
	// nothing says that the call had no effect: its answer is not kept for its key.
	nothing bool
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		c = &call{}
	}
	return c
}

func (s *server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestID)
		if !idForm.MatchString(id) {
			id = "req_" + rand.Text()
		}
		w.Header().Set(requestID, id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, &call{id: id, path: r.URL.EscapedPath()})))
	})
}

// logged writes a line per request, and turns a panic into an internal error.
func (s *server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := clock.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			v := recover()
			if v != nil && v != http.ErrAbortHandler {
				s.panicked(ww, r, v)
			}
			route := chi.RouteContext(r.Context()).RoutePattern()
			took := clock.Now().Sub(began)
			s.metrics.observe(route, r.Method, ww.Status(), took)
			s.opts.Log.InfoContext(r.Context(), "request",
				slog.String("request_id", callOf(r.Context()).id),
				slog.String("method", r.Method),
				slog.String("route", route),
				slog.String("path", r.URL.Path),
				slog.Int("status", ww.Status()),
				slog.Int("bytes", ww.BytesWritten()),
				slog.Duration("took", took))
			if v == http.ErrAbortHandler { // an answer that is broken off on purpose
				panic(v)
			}
		}()
		next.ServeHTTP(ww, r)
		if rest := callOf(r.Context()).rest; rest != nil {
			rest(ww, r)
		}
	})
}

func (s *server) panicked(w middleware.WrapResponseWriter, r *http.Request, v any) {
	err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	if w.Status() != 0 {
		s.problem(r.Context(), err) // the answer is under way: log only
		return
	}
	s.write(w, r, err)
}
