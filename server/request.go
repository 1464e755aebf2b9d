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

// A request is answered in three functions: answer, toRoute and handle. Each takes its
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
	if preflight(ww, r) {
		return
	}
	if err := s.guard(r); err != nil {
		s.refuseUnread(ww, r, err)
		return
	}
	s.front.ServeHTTP(ww, r)
	if rest := callOf(r.Context()).rest; rest != nil {
		rest(ww, r)
	}
}

// toRoute passes a request of the API to its route, after it has read the caller and tidied the
// URL. No byte of the body is read before the route is found and admits the caller.
func (s *server) toRoute(w http.ResponseWriter, r *http.Request) {
	r, err := s.asCaller(r)
	if err == nil {
		err = s.tidyURL(w, r)
	}
	if err == nil {
		err = checkPromises(r)
	}
	if err != nil {
		s.refuseUnread(w, r, err)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// door passes the requests of one of Options.At to its handler, with the body, which it has read
// and checked.
func (s *server) door(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := s.room(&s.bodies, &s.nameless, r)
		defer in.close()
		read := func() error { return s.readBody(w, r, in) }
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
		default:
			read = func() error { return s.checkNone(w, r) }
		}
		err := read()
		if err == nil {
			err = checkRead(r)
		}
		if err != nil {
			s.refuseUnread(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	}
}

// intake reads the body of a route's call, in the form that the route takes, into its room.
func (s *server) intake(w http.ResponseWriter, r *http.Request, route api.Route, in *room) (end func(), err error) {
	switch {
	case route.Has(api.TakesBytes):
		if err := checkCoding(r); err != nil {
			return nil, err
		}
		return s.holdBytes(w, r, in)
	case route.Method == http.MethodGet || route.Method == http.MethodDelete:
		return func() {}, s.checkNone(w, r)
	}
	return func() {}, s.readBody(w, r, in)
}

// plainBody checks the syntax of the body of a route's call, and writes its ids as text.
func (s *server) plainBody(r *http.Request, route api.Route) error {
	if err := s.checkCalls(r, route); err != nil {
		return err
	}
	return s.ids[route.Name].bodyAsText(r)
}

// received admits a route's call, and then reads and checks its body. It has answered the call if
// it returns no request. hook is the key of a webhook's delivery. end gives back what the body
// holds.
func (s *server) received(w http.ResponseWriter, r *http.Request, route api.Route) (_ *http.Request, hook *pawl.KeyBegin, end func()) {
	end = func() {}
	s.ids[route.Name].asText(r)
	var err error
	if route.Role != api.Anyone {
		r, err = s.admit(w, r, route)
	} else if route.Name == receiveWebhook {
		err = s.expected(r)
	}
	if err != nil {
		s.logDenied(r, route.Name, err)
		s.refuseUnread(w, r, err)
		return nil, nil, end
	}
	all := &s.bodies
	if route.Has(api.TakesBytes) {
		all = &s.uploads
	}
	in := s.room(all, &s.nameless, r)
	after, err := s.intake(w, r, route, in)
	end = func() {
		if after != nil {
			after()
		}
		in.close()
	}
	if err != nil {
		s.refuseUnread(w, r, err)
		return nil, nil, end
	}
	if route.Name == receiveWebhook {
		r, hook, err = s.verified(r)
	} else if err = s.plainBody(r, route); err != nil {
		s.write(w, r, err)
		return nil, nil, end
	} else {
		err = s.countAgent(r, route)
	}
	if err != nil {
		s.deny(w, r, route.Name, err)
		return nil, nil, end
	}
	return r, hook, end
}

// handle passes a request of a route to its operation, if the caller's key, the body and the
// idempotency key allow it. The room for the body is held until the operation has returned.
func (o *operation) handle(c huma.Context) {
	r, w := humachi.Unwrap(c)
	r, hook, end := o.received(w, r, o.route)
	defer end()
	if r == nil {
		return
	}
	if o.changes && (o.route.Role == api.Operator || o.route.Has(api.TakesLong)) {
		extendDeadline(w)
	}
	if o.changes {
		if err := o.fitCalls(o.Operation, r, o.route); err != nil {
			o.refuseBody(o.Operation, w, r, err)
			return
		}
	}
	call := callOf(r.Context())
	call.keyed = hook
	call.streams = o.route.Has(api.MayStream) && wantsStream(r.Header.Get("Accept"))
	if isRead(o.route) {
		read := func(w http.ResponseWriter) { o.runRead(w, r) }
		call.again = later{r.Context(), read}
		read(w)
		return
	}
	if o.route.TakesKey() {
		var err error
		if call.keyed, err = o.keyed(r, o.route); err != nil {
			o.write(w, r, err)
			return
		}
	}
	if o.late || call.keyed != nil {
		w = dropping{w, call}
	}
	c = humachi.NewContext(o.Operation, r, w)
	if in, ok := o.input(c); ok { // run is called here: it is the way to SQL, on which few functions are to be
		out, err := o.run(r.Context(), in)
		o.reply(c, out, err)
	}
}

// runRead runs the operation of a read, within the bounds of reads.
func (o *operation) runRead(w http.ResponseWriter, r *http.Request) {
	bounded, end, err := o.bounded(r, o.route)
	if err != nil {
		o.deny(w, r, o.route.Name, err)
		return
	}
	defer end()
	if o.late {
		w = dropping{w, callOf(r.Context())}
	}
	c := humachi.NewContext(o.Operation, bounded, w)
	if in, ok := o.input(c); ok {
		out, err := o.run(bounded.Context(), in)
		o.reply(c, out, err)
	}
}
