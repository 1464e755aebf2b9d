package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// house are the calls that concern all namespaces.
var house = []string{"metrics", "sweep", "list_sweeps", "list_relays", "resume_relay", "forget_relay"}

// own are the calls whose answers are the caller's own work, payloads and all.
var own = []string{"claim", "resume_item"}

// payloadsHeader says that an answer's payloads have been left out.
const payloadsHeader = "Pawl-Payloads"

type askedKey struct{}

// asCaller reads who calls and for which namespace, and checks his key; what it
// is good for each operation says (see admit).
func (s *server) asCaller(next http.Handler) http.Handler {
	free := map[string]bool{}
	for _, r := range api.Routes {
		free[r.Path] = r.Role == api.Anyone
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ns, err1 := url.PathUnescape(r.Header.Get(api.NamespaceHeader))
		actor, err2 := url.PathUnescape(r.Header.Get(api.ActorHeader))
		if err1 != nil || err2 != nil || !plainText(ns+actor) || len(ns) > pawl.MaxIDLen || len(actor) > pawl.MaxIDLen {
			s.write(w, r, &pawl.Error{Code: pawl.CodeInvalid, Message: api.NamespaceHeader + " and " + api.ActorHeader + " are to be percent-encoded text of at most 255 bytes"})
			return
		}
		asked := pawl.Caller{Namespace: ns}
		asked.ActorType, asked.ActorID, _ = strings.Cut(actor, "/")
		ctx := context.WithValue(r.Context(), askedKey{}, asked)
		if !free[r.URL.Path] {
			pass, err := s.gate.Enter(ctx, bearer(r.Header))
			if err != nil {
				s.turnAway(w, r, pass, "", err)
				return
			}
			ctx = access.With(ctx, pass)
			if _, door := s.opts.At[r.URL.Path]; door && pass.Key != nil {
				if asked, err = s.through(pass, asked); err != nil {
					s.turnAway(w, r, pass, r.URL.Path, err)
					return
				}
			}
		}
		next.ServeHTTP(w, r.WithContext(pawl.As(ctx, asked)))
	})
}

// through lets a key through another door of this server. Such a door does not
// tell the roles of its calls apart here, so the key must hold all of them.
func (s *server) through(pass access.Pass, asked pawl.Caller) (pawl.Caller, error) {
	for _, role := range pawl.KeyRoles {
		if err := pass.May(role, false); err != nil {
			return asked, err
		}
	}
	return pass.Caller(asked, "")
}

// bearer is the token of a request. What is no bearer's is one that nobody has.
func bearer(h http.Header) string {
	text := h.Get("Authorization")
	scheme, token, _ := strings.Cut(text, " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return text
}

// admit lets a call in whose key holds the route's role, into the key's
// namespace.
func (s *server) admit(route api.Route) func(huma.Context, func(huma.Context)) {
	concernsAll := slices.Contains(house, route.Name)
	return func(c huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(c)
		ctx := r.Context()
		pass := access.Of(ctx)
		asked, _ := ctx.Value(askedKey{}).(pawl.Caller)
		err := pass.May(string(route.Role), concernsAll)
		if err == nil && route.Name == "task_result" && !pass.Payloads() {
			err = &pawl.Error{Code: pawl.CodeForbidden, Message: "a result is a payload: this call needs a key with payloads, or the role submitter, approver or operator"}
		}
		caller := asked
		if err == nil {
			caller, err = pass.Caller(asked, string(route.Role))
		}
		if err == nil && s.gate.Rates() {
			err = s.gate.Agent(pawl.CallerOf(pawl.As(ctx, caller)).Namespace, agent(r, caller))
		}
		if err != nil {
			s.turnAway(w, r, pass, route.Name, err)
			return
		}
		if !pass.Payloads() && !slices.Contains(own, route.Name) {
			w.Header().Set(payloadsHeader, "hidden")
		}
		next(humachi.NewContext(c.Operation(), r.WithContext(pawl.As(ctx, caller)), w))
	}
}

// turnAway refuses a call and puts that on record.
func (s *server) turnAway(w http.ResponseWriter, r *http.Request, pass access.Pass, route string, err error) {
	if code := pawl.CodeOf(err); code != pawl.CodeUnavailable && code != pawl.CodeInternal {
		s.putDown(r, pass, route, err)
	}
	s.write(w, r, err)
}

// putDown puts a refusal on record.
func (s *server) putDown(r *http.Request, pass access.Pass, route string, err error) {
	s.metrics.refusals.WithLabelValues(route, string(pawl.CodeOf(err))).Inc()
	s.gate.Refused(r.Context(), pass, err, "request_id", callOf(r.Context()).id, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
}

// visible hides the payloads of an answer from those who may not read them.
func visible(ctx context.Context, route api.Route, out any) {
	if !access.Of(ctx).Payloads() && !slices.Contains(own, route.Name) {
		access.Hide(out)
	}
}

var workerID = regexp.MustCompile(`"worker_id"\s*:\s*("(?:[^"\\]|\\.)*")`)

// agent is who does a call, for his rate: the worker that the body names, or
// the actor.
func agent(r *http.Request, c pawl.Caller) string {
	if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
		var id string
		if m := workerID.FindSubmatch(body); m != nil && json.Unmarshal(m[1], &id) == nil && id != "" {
			return id
		}
	}
	return c.ActorID
}
