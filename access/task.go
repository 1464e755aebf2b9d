package access

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// RequireTask protects an HTTP service of yours: it lets only requests through that
// carry the token of a current lease (pawl.Lease.Token), in the header Pawl-Task-Token
// or as Authorization: Bearer. tokens is an engine, or a client whose key has the role
// reader. It is asked for every request, so a lost lease is refused at once. What the
// handler does after the check is not undone if the lease ends meanwhile.
//
// Handlers read the lease with TaskOf. Refusals are problem documents: 401 with
// WWW-Authenticate if the token is missing or malformed, 403 with the reason if its
// lease is over, 503 if it cannot be checked.
func RequireTask(tokens pawl.TokenReader) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := taskToken(r.Header)
			if token == "" {
				challenge(w, r, "", "this request needs a task token")
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
				no := api.ProblemOf(&pawl.Error{Code: pawl.CodeForbidden, Message: "the task token is not valid any more: " + p.Detail}, r.URL.Path)
				no.State, no.Reason = p.State, p.Reason
				answer(w, no)
			default: // an error between this service and Pawl does not concern the caller
				answer(w, api.ProblemOf(&pawl.Error{Code: pawl.CodeUnavailable, Message: "task tokens cannot be checked now"}, r.URL.Path))
			}
		})
	}
}

type taskKey struct{}

// TaskOf returns the lease that a request's token stands for. ok is false outside of
// handlers behind RequireTask.
func TaskOf(ctx context.Context) (pawl.TaskToken, bool) {
	t, ok := ctx.Value(taskKey{}).(pawl.TaskToken)
	return t, ok
}

// taskToken returns the token of a request; "" if there is none or more than one.
func taskToken(h http.Header) string {
	switch own, auth := h.Values(api.TaskTokenHeader), h.Values("Authorization"); {
	case len(own) == 1:
		return own[0]
	case len(own) == 0 && len(auth) == 1:
		return Bearer(h)
	}
	return ""
}

// Bearer returns the token in the Authorization header. For another scheme it returns
// the whole header, which is never a valid token.
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
