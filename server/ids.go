package server

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/idform"
)

// ids says where a request of a route has ids of tasks and items. They may be UUIDs.
type ids struct {
	path        func(string) string // of the {id} of the path; nil = it is of another noun
	query, body *idform.Members
}

// idsOf returns the ids of an operation by its input. The body of a single form is set by verb.
func idsOf(r api.Route, in reflect.Type) *ids {
	out := &ids{query: idform.MembersOf(in, "query")}
	switch r.Noun() {
	case "task":
		out.path = idform.Task
	case "item":
		out.path = idform.Item
	}
	if body, ok := in.FieldByName("Body"); ok {
		out.body = idform.MembersOf(body.Type, "json")
	}
	return out
}

// asText writes the ids of a request that are UUIDs as text, before anything else reads them:
// a call is the same call in either form, for its idempotency key too.
func (i *ids) asText(r *http.Request) {
	if i.path != nil {
		id := r.PathValue("id")
		if is := i.path(id); is != id {
			call := callOf(r.Context())
			call.path = strings.Replace(call.path, id, is, 1)
			r.SetPathValue("id", is)
		}
	}
	if i.query != nil && r.URL.RawQuery != "" {
		q, changed := r.URL.Query(), false
		for name, values := range q {
			if is := i.query.Text(name, values[0]); is != values[0] {
				q[name], changed = []string{is}, true
			}
		}
		if changed {
			r.URL.RawQuery = q.Encode()
		}
	}
}

// bodyAsText is asText for the ids in the body.
func (i *ids) bodyAsText(r *http.Request) error {
	if i.body == nil || r.Body == nil {
		return nil
	}
	body, err := bodyOf(r)
	if err == nil && len(body) > 0 {
		setBody(r, i.body.JSON(body))
	}
	return err
}
