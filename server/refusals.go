package server

import (
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// refusals returns the codes that a route may refuse with. The description names their
// statuses, and no answer has another status.
func refusals(r api.Route) []pawl.Code {
	out := []pawl.Code{pawl.CodeInvalid, pawl.CodeForbidden, pawl.CodeInternal}
	if r.Role != api.Anyone {
		out = append(out, pawl.CodeUnauthenticated, pawl.CodeNotFound, pawl.CodeLimit) // not found: the namespace is not one of the key's
	}
	if r.Role != api.Anyone {
		out = append(out, pawl.CodeUnavailable)
	}
	if r.Method != http.MethodGet {
		out = append(out, pawl.CodeConflict, pawl.CodeTooLarge, pawl.CodeMediaType, pawl.CodeKeyReused, pawl.CodeKeyRequired)
	}
	if r.Has(api.TakesVersion) {
		out = append(out, pawl.CodePrecondition)
	}
	return append(out, r.Refuses...)
}

// describeRefusals replaces huma's one status for all refusals with their real statuses, each
// described once. It also adds the successes that huma does not know.
func describeRefusals(doc map[string]any) {
	shared := map[string]any{}
	for _, r := range api.Routes {
		path, _ := doc["paths"].(map[string]any)[r.Path].(map[string]any)
		op, _ := path[strings.ToLower(r.Method)].(map[string]any)
		answers, _ := op["responses"].(map[string]any)
		delete(answers, "default")
		if r.Found != "" {
			ok, _ := answers[strconv.Itoa(r.Success)].(map[string]any)
			again := maps.Clone(ok)
			again["description"] = r.Found
			answers["200"] = again
		}
		for _, c := range refusals(r) {
			status := strconv.Itoa(c.Info().HTTP)
			if answers != nil {
				answers[status] = map[string]any{"$ref": "#/components/responses/" + status}
			}
			shared[status] = sharedRefusal(c.Info().HTTP)
		}
	}
	doc["components"].(map[string]any)["responses"] = shared
}

// sharedRefusal describes all errors of a status.
func sharedRefusal(status int) map[string]any {
	var says []string
	for _, e := range pawl.Errors {
		if e.HTTP == status {
			says = append(says, string(e.Code)+": "+e.Means)
		}
	}
	out := map[string]any{
		"description": strings.Join(says, " "),
		"content":     map[string]any{api.ProblemType: map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Problem"}}},
	}
	if status == http.StatusConflict || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		out["headers"] = map[string]any{"Retry-After": map[string]any{
			"description": "Seconds after which another try makes sense, where that is known.",
			"schema":      map[string]any{"type": "integer"},
		}}
	}
	return out
}

// title returns a route's name in words.
func title(name string) string {
	s := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
