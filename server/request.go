package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

// A request is answered in three functions: answer, toRoute and toOperation. Each takes its
// steps one after the other. A step is a function of its own that returns what it found, or
// why the request is refused. No step calls the next one, so few functions are on the stack
// when an operation runs.

// requests returns the handler of all requests; routes finds the route of a request.
func (s *server) requests(routes http.Handler) http.Handler {
	s.routes, s.front = routes, http.HandlerFunc(s.toRoute)
	if s.opts.Front != nil {
		s.front = s.opts.Front(s.front)
	}
	return http.HandlerFunc(s.answer)
}

// answer answers a request. An operation that waits or streams leaves its work as its call's
// rest, which runs after the front has returned, on a stack of few functions.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	r = s.traced(s.gate.Forwarded(withRequestID(w, r)))
	ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
	defer s.logRequest(ww, r, clock.Now())
	if err := s.guard(r); err != nil {
		s.write(ww, r, err)
		return
	}
	s.front.ServeHTTP(ww, r)
	if rest := callOf(r.Context()).rest; rest != nil {
		rest(ww, r)
	}
}

// toRoute passes a request of the API to its route, after it has read the caller, tidied the
// URL, and read and checked the body. The room for the body is held until the route has
// returned.
func (s *server) toRoute(w http.ResponseWriter, r *http.Request) {
	r, err := s.asCaller(r)
	if err == nil {
		err = s.tidyURL(w, r)
	}
	if err == nil {
		err = checkPromises(r)
	}
	if err == nil && takesBytes(r) {
		err = checkCoding(r)
	}
	if err != nil {
		s.write(w, r, err)
		return
	}
	bodies, room, bytes := &s.bodies, s.bodies.room(r), takesBytes(r)
	if bytes {
		bodies, room = &s.uploads, s.uploadRoom(r)
	}
	if err := bodies.enter(r.Context(), room); err != nil {
		s.refuseBytes(w, r, err)
		return
	}
	defer bodies.leave(room)
	if bytes {
		defer s.holdBytes(w, r)()
	} else if err := s.readBody(w, r); err != nil {
		s.write(w, r, err)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// toOperation passes the requests of a route to its operation, if the caller's key, the body
// and the idempotency key allow it.
func (s *server) toOperation(route api.Route) func(huma.Context, func(huma.Context)) {
	changes, late := route.Method != http.MethodGet, route.Has(api.AnswersLate)
	return func(c huma.Context, operation func(huma.Context)) {
		r, w := humachi.Unwrap(c)
		if err := s.ids[route.Name].asText(r); err != nil {
			s.write(w, r, err)
			return
		}
		if route.Role != api.Anyone {
			admitted, err := s.admit(w, r, route)
			if err != nil {
				s.deny(w, r, route.Name, err)
				return
			}
			r = admitted
		}
		var hook *pawl.KeyBegin
		if route.Name == receiveWebhook {
			verified, key, err := s.verified(r)
			if err != nil {
				s.deny(w, r, route.Name, err)
				return
			}
			r, hook = verified, key
		}
		if changes && route.Role == api.Operator {
			extendDeadline(w)
		}
		if changes {
			if err := s.fits(c.Operation(), r); err != nil {
				s.refuseBody(c.Operation(), w, r, err)
				return
			}
		}
		if isRead(route) {
			bounded, end, err := s.bounded(r, route)
			if err != nil {
				s.deny(w, r, route.Name, err)
				return
			}
			defer end()
			r = bounded
		}
		call := callOf(r.Context())
		call.keyed = hook
		if route.Mutates() {
			var err error
			if call.keyed, err = s.keyed(r, route); err != nil {
				s.write(w, r, err)
				return
			}
		}
		call.streams = late && r.Method == http.MethodGet && wantsStream(r.Header.Get("Accept"))
		if late || call.keyed != nil {
			w = dropping{w, call}
		}
		operation(humachi.NewContext(c.Operation(), r, w))
	}
}
