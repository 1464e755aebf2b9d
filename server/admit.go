package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// payloadsHeader says that payloads were left out of an answer.
const payloadsHeader = "Pawl-Payloads"

// freePaths returns the paths of the routes that need no key.
func freePaths() map[string]bool {
	free := map[string]bool{}
	for _, r := range api.Routes {
		free[r.Path] = r.Role == api.Anyone
	}
	return free
}

// asCaller reads who calls and for which namespace, and checks the API key or what stands for it. It does not
// check what the key permits: each operation does (see admit), and so does each handler of
// Options.At. The returned request also serves to write a refusal.
func (s *server) asCaller(r *http.Request) (*http.Request, error) {
	ns, err := access.Header(r.Header, api.NamespaceHeader)
	if err != nil {
		return r, err
	}
	actor, err := access.Header(r.Header, api.ActorHeader)
	if err != nil {
		return r, err
	}
	asked := pawl.Caller{Namespace: ns}
	if actor != "" && !strings.Contains(actor, "/") {
		actor += "/" // a type alone
	}
	if asked.ActorType, asked.ActorID, err = pawl.ParseActor(actor); err != nil {
		return r, &pawl.Error{Code: pawl.CodeInvalid, Message: fmt.Sprintf("%s is type/id or type, and an id has no slash; possible types: %s",
			api.ActorHeader, strings.Join(pawl.ActorTypes, ", "))}
	}
	if !s.free[r.URL.Path] && !strings.HasPrefix(r.URL.Path, inboundPath) {
		pass, leased, err := s.byLease(r)
		if !leased {
			pass, err = s.gate.EnterRequest(r)
		}
		pass = pass.Asking(asked)
		r = r.WithContext(access.With(r.Context(), pass))
		if _, door := s.opts.At[r.URL.Path]; door && err == nil {
			asked, err = pass.Caller("")
		}
		if err != nil {
			s.logDenied(r, "", err)
			return r, err
		}
	}
	return r.WithContext(pawl.As(r.Context(), asked)), nil
}

// admit lets a call in if its key holds the route's role, and sets the key's namespace.
func (s *server) admit(w http.ResponseWriter, r *http.Request, route api.Route) (*http.Request, error) {
	role := string(route.Role)
	if route.Or != "" && access.Of(r.Context()).May(role, false) != nil && access.Of(r.Context()).May(string(route.Or), false) == nil {
		role = string(route.Or)
	}
	ctx, err := s.gate.Admit(r.Context(), role, route.Has(api.Global), nil)
	if err != nil {
		return r, err
	}
	hides := access.Of(ctx).Hides(route)
	if hides && route.Has(api.PayloadOnly) {
		return r, &pawl.Error{Code: pawl.CodeForbidden,
			Message: "all of this answer is a payload: this call needs a key with payloads, or the role submitter, approver or operator"}
	}
	if hides && route.Name != "resume_item" { // which knows this only once it has read the item
		w.Header().Set(payloadsHeader, "hidden")
	}
	return r.WithContext(ctx), nil
}

// deny refuses a call and records the refusal.
func (s *server) deny(w http.ResponseWriter, r *http.Request, route string, err error) {
	s.logDenied(r, route, err)
	s.write(w, r, err)
}

// logDenied records a refusal: in the log, in the metrics and in the key's count.
func (s *server) logDenied(r *http.Request, route string, err error) {
	s.gate.Refused(r.Context(), route, err, "request_id", callOf(r.Context()).id, "method", r.Method, "path", r.URL.Path,
		"remote", r.RemoteAddr)
}

// resumed is the answer with an item's resume state. Whether its payloads are hidden depends
// on who holds the lease.
type resumed struct {
	Payloads string `header:"Pawl-Payloads"`
	Body     pawl.ResumeState
}

// visible removes the payloads from an answer that the caller may not read.
func visible(ctx context.Context, route api.Route, out any) {
	answer := out
	r, ok := out.(*resumed)
	if ok {
		answer = &r.Body
	}
	if !access.Of(ctx).HidesFrom(route, answer) {
		return
	}
	if access.Hide(out); ok {
		r.Payloads = "hidden"
	}
}

// countAgent counts a call for the rates of the agents that make it: the workers that the body
// names, or the actor.
func (s *server) countAgent(r *http.Request, route api.Route) error {
	if route.Role == api.Anyone || !s.gate.CountsAgents() {
		return nil
	}
	body, err := bodyOf(r)
	if err != nil {
		return err
	}
	workers := workersOf(body)
	if len(workers) == 0 {
		workers = []string{pawl.CallerOf(r.Context()).ActorID}
	}
	for _, who := range workers {
		if err := s.gate.CountAgent(r.Context(), who); err != nil {
			return err
		}
	}
	return nil
}

// workersOf returns the workers that a body names: its own member, and that of each call of a
// batch, each worker once. What applications store in payloads names none.
func workersOf(body []byte) (workers []string) {
	var by struct {
		WorkerID jsontext.Value `json:"worker_id"`
		Items    jsontext.Value `json:"items"`
	}
	var calls []struct {
		WorkerID jsontext.Value `json:"worker_id"`
	}
	lenient := jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if len(body) == 0 || jsonv2.Unmarshal(body, &by, lenient) != nil {
		return nil
	}
	_ = jsonv2.Unmarshal(by.Items, &calls, lenient) // only a batch has them
	for i := -1; i < len(calls); i++ {
		raw, id := by.WorkerID, ""
		if i >= 0 {
			raw = calls[i].WorkerID
		}
		if jsonv2.Unmarshal(raw, &id, lenient) == nil && id != "" {
			workers = append(workers, id)
		}
	}
	slices.Sort(workers)
	return slices.Compact(workers)
}
