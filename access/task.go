package access

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// RequireTask lets requests to a service of yours through that bear a task token
// (pawl.Lease's), in the header Pawl-Task-Token or as Authorization: Bearer, whose
// lease runs: nothing is done there but by work under way. tokens is an engine,
// or a client whose key holds the role reader; it is asked at every request, so
// that a lost lease is refused from that moment. What comes after the check is
// not undone by a lease that ends then.
//
// Handlers find whose token it was with TaskOf. Refusals are problem documents:
// 401 with WWW-Authenticate without a token or with one that is none, 403 with the
// reason when its lease is over, 503 when it cannot be checked.
func RequireTask(tokens pawl.TokenReader) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := taskToken(r.Header)
			if token == "" {
				challenge(w, r, "", "this needs the token of a task under way")
				return
			}
			t, err := tokens.CheckToken(r.Context(), token)
			switch code := pawl.CodeOf(err); code {
			case "":
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), taskKey{}, t)))
			case pawl.CodeInvalid:
				challenge(w, r, `, error="invalid_token"`, "this is no task token")
			case pawl.CodeLeaseLost, pawl.CodeConflict, pawl.CodeNotFound:
				p := api.ProblemOf(err, r.URL.Path)
				no := api.ProblemOf(&pawl.Error{Code: pawl.CodeForbidden, Message: "the task token is no good any more: " + p.Detail}, r.URL.Path)
				no.State, no.Reason = p.State, p.Reason
				answer(w, no)
			default: // what is wrong between this service and Pawl is not the caller's to know
				answer(w, api.ProblemOf(&pawl.Error{Code: pawl.CodeUnavailable, Message: "task tokens cannot be checked now"}, r.URL.Path))
			}
		})
	}
}

type taskKey struct{}

// TaskOf is what the task token of a request stands for, which RequireTask has let
// through.
func TaskOf(ctx context.Context) (pawl.TaskToken, bool) {
	t, ok := ctx.Value(taskKey{}).(pawl.TaskToken)
	return t, ok
}

// taskToken is the token of a request; more than one is none.
func taskToken(h http.Header) string {
	switch own, auth := h.Values(api.TaskTokenHeader), h.Values("Authorization"); {
	case len(own) == 1:
		return own[0]
	case len(own) == 0 && len(auth) == 1:
		return Bearer(h)
	}
	return ""
}

// Bearer is the token in a request's Authorization header. For another scheme it
// returns a token that no key has.
func Bearer(h http.Header) string {
	text := h.Get("Authorization")
	scheme, token, _ := strings.Cut(text, " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return text
}

func challenge(w http.ResponseWriter, r *http.Request, more, why string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="pawl task"`+more)
	answer(w, api.ProblemOf(&pawl.Error{Code: pawl.CodeUnauthenticated, Message: why}, r.URL.Path))
}

func answer(w http.ResponseWriter, p api.Problem) {
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller may be gone
}
