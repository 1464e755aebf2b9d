package server_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// The fields that may be requested are exactly the members.
func TestFieldsAreTheMembers(t *testing.T) {
	for shape, of := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[api.TaskShape](): reflect.TypeFor[pawl.Task](),
		reflect.TypeFor[api.ItemShape](): reflect.TypeFor[pawl.Item](),
	} {
		var names []string
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
		f, _ := shape.FieldByName("Fields")
		if got, want := f.Tag.Get("enum"), strings.Join(names, ","); got != want {
			t.Errorf("%s:\n got %s\nwant %s", shape.Name(), got, want)
		}
	}
}

// The statuses in the description are those of the table and those that the server accepts: a
// task is never expired.
func TestStatusesAreTheTables(t *testing.T) {
	h := open(t)
	d := description(t, h.srv)
	for path, of := range map[string]struct {
		schema string
		words  []pawl.Status
	}{
		"/v1/tasks": {"Task", pawl.TaskStatuses},
		"/v1/items": {"Item", pawl.ItemStatuses},
	} {
		said := []any{d.schemas[of.schema].(map[string]any)["properties"].(map[string]any)["status"]}
		get := d.doc["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)
		for _, p := range get["parameters"].([]any) {
			if p := p.(map[string]any); p["name"] == "status" {
				said = append(said, p["schema"].(map[string]any)["items"])
			}
		}
		for i, s := range said {
			if got, want := fmt.Sprint(s.(map[string]any)["enum"]), fmt.Sprint(of.words); got != want {
				t.Errorf("%s, %d: %s, the table has %s", path, i, got, want)
			}
		}
		for _, s := range pawl.ItemStatuses {
			h.do(map[bool]int{true: 200, false: 400}[slices.Contains(of.words, s)], "GET", path+"?status="+string(s), "")
		}
	}
}

// A read may ask for some members only, and for what belongs to the task.
func TestShapes(t *testing.T) {
	h := open(t)
	id := h.do(201, "POST", "/v1/tasks", `{"type":"a","title":"x","payload":{"n": 1}}`).str("id")
	item := h.do(200, "GET", "/v1/tasks/"+id+"/items?fields=id", "").items()[0]["id"].(string)
	for path, want := range map[string]string{
		"/v1/tasks/" + id + "?fields=title,payload":            `{"id":"` + id + `","payload":{"n": 1},"title":"x"}`,
		"/v1/tasks?fields=state&fields=state":                  `{"items":[{"id":"` + id + `","state":"queued"}]}`,
		"/v1/items/" + item + "?fields=error,attempt":          `{"attempt":0,"id":"` + item + `"}`,
		"/v1/items?fields=input":                               `{"items":[{"id":"` + item + `","input":{"n": 1}}]}`,
		"/v1/tasks/" + id + "/items?fields=state":              `{"items":[{"id":"` + item + `","state":"queued"}]}`,
		"/v1/tasks/" + id + "?fields=id&include=result":        `{"id":"` + id + `","included":{}}`,
		"/v1/tasks?fields=id&include=checkpoints&state=failed": `{"items":[]}`,
	} {
		if got := strings.TrimSpace(h.do(200, "GET", path, "").text); got != want {
			t.Errorf("%s\n got %s\nwant %s", path, got, want)
		}
	}
	h.fail(id)
	r := h.do(200, "GET", "/v1/tasks/"+id+"?include=items,events,result,checkpoints", "")
	in, _ := r.json["included"].(map[string]any)
	if in == nil || len(in["items"].([]any)) != 1 || len(in["events"].([]any)) < 3 || in["checkpoints"] == nil || in["result"] != nil || r.str("title") != "x" {
		t.Errorf("included: %s", r.text)
	}
	for path, names := range map[string]string{"/v1/tasks?fields=colour": "last_transitioned_at", "/v1/items/" + item + "?fields=title": "lease_expires_at", "/v1/tasks/" + id + "?include=parts": "checkpoints"} {
		if r := h.do(400, "GET", path, ""); !strings.Contains(r.text, names) {
			t.Errorf("%s does not say what there is: %s", path, r.text)
		}
	}
	if r := h.do(400, "GET", "/v1/tasks?include=items&limit=1000", ""); !strings.Contains(r.text, "/limit") {
		t.Errorf("a thousand with include: %s", r.text)
	}
}

// unread is a service whose items must not be read as a whole.
type unread struct {
	pawl.Service
	t *testing.T
}

func (u unread) GetItem(ctx context.Context, id string) (pawl.Item, error) {
	u.t.Errorf("%s is read as a whole", id)
	return u.Service.GetItem(ctx, id)
}

// An item is read without the large members that were not asked for.
func TestAnItemIsReadInPart(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Payload: []byte(`"large"`)})
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		id := l.Items[0].ID
		srv := serve(t, unread{p.Service, t}, server.Options{})
		for fields, want := range map[string]string{
			"state":               `{"id":"` + id + `","state":"queued"}`,
			"input":               `{"id":"` + id + `","input":"large"}`,
			"attempt,blocked_by":  `{"attempt":0,"blocked_by":{"reason":"no_worker","detail":"no live worker takes a"},"id":"` + id + `"}`,
			"result,max_attempts": `{"id":"` + id + `","max_attempts":3}`,
		} {
			if got := ask(t, srv, "GET", "/v1/items/"+id+"?fields="+fields, ""); strings.TrimSpace(got.text) != want {
				t.Errorf("%s: %s", fields, got.text)
			}
		}
		if got := ask(t, srv, "GET", "/v1/items/itm_none?fields=state", ""); got.StatusCode != 404 {
			t.Errorf("one that does not exist: %s", got.text)
		}
	})
}

// The frames that are cached for other readers are limited in bytes.
func TestFramesKeptAreBoundedByBytes(t *testing.T) {
	events := make([]pawl.Event, 50)
	for i := range events {
		events[i].Position, events[i].Data = int64(i), []byte(`"`+strings.Repeat("x", 1<<20)+`"`)
	}
	if n := server.KeptFrames(events); n == 0 || n > 16<<20 {
		t.Errorf("%d bytes are kept", n)
	}
}
