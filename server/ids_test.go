package server

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/idform"
)

const someUUID = "0198f0c2-7d41-7abc-8def-0123456789ab"

// otherNouns are the routes whose {id} is not a task's or an item's, by the start of the path.
var otherNouns = []string{"/v1/messages/", "/v1/types/", "/v1/relays/", "/v1/queues/", "/v1/budgets/", "/v1/schedules/", "/v1/inbound/",
	"/v1/idempotency-keys/", "/v1/blobs/", "/v1/effects/", "/v1/streams/"}

// Every route takes a UUID wherever it takes the id of a task or an item: in the path, in the
// query and in the body. What it is said to take comes from the API's description, so a new
// route is tested too.
func TestEveryRouteTakesUUIDs(t *testing.T) {
	s := bare()
	for _, r := range api.Routes {
		ids, op := s.ids[r.Name], operationOf(s.api.OpenAPI(), r)
		if ids == nil || op == nil {
			t.Errorf("%s has no list of its ids", r.Name)
			continue
		}
		another := slices.ContainsFunc(otherNouns, func(p string) bool { return strings.HasPrefix(r.Path, p) })
		if strings.Contains(r.Path, "{id}") && (ids.path == nil) != another {
			t.Errorf("%s: api.Route.Noun is %q; a path of another noun is to be in otherNouns", r.Name, r.Noun())
		}
		for _, p := range op.Parameters {
			if is := namesID(p.Name) || p.Name == "id"; p.In == "query" && is && ids.query.Text(p.Name, someUUID) == someUUID {
				t.Errorf("%s: the parameter %s takes no UUID; has it a tag `id`?", r.Name, p.Name)
			}
		}
		if op.RequestBody == nil {
			continue
		}
		for _, content := range op.RequestBody.Content {
			for _, at := range idsIn(s.api.OpenAPI(), content.Schema, r, 0) {
				if !slices.Contains(ids.body.Names(), at) {
					t.Errorf("%s: the member %s of the body takes no UUID; those that do are %v", r.Name, at, ids.body.Names())
				}
			}
		}
	}
}

// A request in either form is the same request when its route and its idempotency key see it.
func TestARequestIsTheSameInEitherForm(t *testing.T) {
	s := bare()
	for _, r := range api.Routes {
		ids := s.ids[r.Name]
		if ids == nil {
			continue
		}
		var got [2]string
		for n, form := range [][2]string{{idform.Task(someUUID), idform.Item(someUUID)}, {strings.ToUpper(someUUID), someUUID}} {
			got[n] = seen(t, r, ids, form[0], form[1])
		}
		if got[0] != got[1] {
			t.Errorf("%s:\n%s\n%s", r.Name, got[0], got[1])
		}
	}
}

// seen returns what a route sees of a request with ids everywhere.
func seen(t *testing.T, r api.Route, ids *ids, task, item string) string {
	t.Helper()
	id := map[string]string{"task": task, "item": item}[r.Noun()]
	of := func(name string) string {
		if ids.body.Names() != nil && (name == "id" || strings.HasPrefix(name, "item")) {
			return item
		}
		return task
	}
	query := ""
	for _, name := range ids.query.Names() {
		is := task
		if ids.query.Text(name, someUUID) != idform.Task(someUUID) {
			is = item
		}
		query += name + "=" + is + "&"
	}
	members := map[string][]string{}
	for _, at := range ids.body.Names() {
		list, name, nested := strings.Cut(at, "/")
		if !nested {
			list, name = "", at
		}
		member := `"` + name + `":"` + of(name) + `"`
		if object, inner, deeper := strings.Cut(name, "/"); deeper {
			member = `"` + object + `":{"` + inner + `":"` + of(inner) + `"}`
		}
		members[list] = append(members[list], member)
	}
	body := "{" + strings.Join(append(members[""], `"b":1`), ",") + "}"
	if len(members["items"]) > 0 {
		body = `{"items":[{` + strings.Join(members["items"], ",") + "}]}"
	}
	path := strings.Replace(r.Path, "{id}", id, 1)
	req := httptest.NewRequestWithContext(t.Context(), r.Method, path+"?"+strings.Trim(query, "&"), strings.NewReader(body))
	req = withRequestID(httptest.NewRecorder(), req)
	req.SetPathValue("id", id)
	ids.asText(req)
	if err := ids.bodyAsText(req); err != nil {
		t.Fatal(err)
	}
	begin, err := keyOf(req, "k")
	text, err2 := bodyOf(req)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ToLower(string(text)+begin.Scope+req.URL.RawQuery+req.PathValue("id")), someUUID) {
		t.Errorf("%s sees a UUID: %s %s %s", r.Name, begin.Scope, req.URL.RawQuery, text)
	}
	return begin.Scope + begin.RequestHash + req.PathValue("id") + req.URL.RawQuery + string(text)
}

// bare returns a server without a service: none is asked.
func bare() *server {
	return build(struct{ pawl.Service }{}, Options{Log: slog.New(slog.DiscardHandler)})
}

func operationOf(o *huma.OpenAPI, r api.Route) *huma.Operation {
	p := o.Paths[r.Path]
	if p == nil {
		return nil
	}
	return map[string]*huma.Operation{"GET": p.Get, "POST": p.Post, "PUT": p.Put, "PATCH": p.Patch, "DELETE": p.Delete}[r.Method]
}

func namesID(name string) bool {
	return slices.Contains([]string{"task", "item", "task_id", "item_id", "task_ids", "item_ids"}, name)
}

// idsIn returns the members of a body that are ids of tasks or items, in a batch too.
func idsIn(o *huma.OpenAPI, s *huma.Schema, r api.Route, depth int) (out []string) {
	for s.Ref != "" {
		s = o.Components.Schemas.SchemaFromRef(s.Ref)
	}
	for name, p := range s.Properties {
		fenced := name == "id" && s.Properties["attempt"] != nil && s.Properties["offset"] == nil && !strings.HasPrefix(r.Path, "/v1/messages:")
		if whole := name == "task" && p.Ref != ""; namesID(name) && !whole || fenced {
			out = append(out, name)
		}
		if name == "items" && p.Items != nil && p.Items.Type == huma.TypeString && !strings.HasPrefix(r.Path, "/v1/types") {
			out = append(out, name)
		}
		if name == "items" && p.Items != nil && depth == 0 && strings.Contains(r.Path, ":") {
			for _, below := range idsIn(o, p.Items, r, depth+1) {
				out = append(out, name+"/"+below)
			}
		}
	}
	return out
}
