package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// The parameters fields and include offer exactly the members of what they select from, and
// a read takes each of them.
func TestFieldsAreTheMembers(t *testing.T) {
	h := open(t)
	d := description(t, h.srv)
	task := h.do(201, "POST", "/v1/tasks", `{"type":"a"}`).str("id")
	item := h.do(200, "GET", "/v1/tasks/"+task+"/items", "").items()[0]["id"].(string)
	for path, schemas := range map[string]map[string]string{
		"/v1/tasks":            {"fields": "Task", "include": "Included"},
		"/v1/tasks/{id}":       {"fields": "Task", "include": "Included"},
		"/v1/items":            {"fields": "Item", "include": "ItemIncluded"},
		"/v1/items/{id}":       {"fields": "Item", "include": "ItemIncluded"},
		"/v1/tasks/{id}/items": {"fields": "Item", "include": "ItemIncluded"},
	} {
		at := strings.Replace(path, "{id}", map[bool]string{true: item, false: task}[path == "/v1/items/{id}"], 1)
		get := d.doc["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)
		for _, p := range get["parameters"].([]any) {
			p := p.(map[string]any)
			name := p["name"].(string)
			schema, told := schemas[name]
			if !told {
				continue
			}
			delete(schemas, name)
			var offered []string
			for _, word := range p["schema"].(map[string]any)["items"].(map[string]any)["enum"].([]any) {
				offered = append(offered, word.(string))
			}
			members := slices.Sorted(maps.Keys(d.schemas[schema].(map[string]any)["properties"].(map[string]any)))
			if slices.Sort(offered); !slices.Equal(offered, members) {
				t.Errorf("%s of %s:\n got %v\nwant %v", name, path, offered, members)
			}
			for _, word := range offered {
				h.do(200, "GET", at+"?"+name+"="+word, "")
			}
			h.do(400, "GET", at+"?"+name+"=id,nothing", "")
		}
		if len(schemas) > 0 {
			t.Errorf("%s lacks %v", path, schemas)
		}
	}
}

// A member that may have several forms says which.
func TestAMemberOfSeveralFormsSaysWhich(t *testing.T) {
	h := open(t)
	item := "/v1/items/" + h.do(201, "POST", "/v1/tasks", `{"type":"a"}`).str("id")
	for _, c := range []struct{ path, body, pointer, text string }{
		{"/v1/tasks", `{"type":"a","dedupe":3}`, "/dedupe", "must be true, false or a list of JSON Pointers"},
		{item + ":fail", `{"worker_id":"w","attempt":1,"error":3}`, "/error",
			"must be a text, or an object with a message and perhaps a code and a detail"},
		{item + ":suspend", `{"worker_id":"w","attempt":1,"children":{"ids":["tsk_1"],"need":0}}`, "/children/need",
			`must be "all", "any" or a number of children, from 1`},
		{"/v1/bulk", `{"verb":"cancel","filter":{"type":3}}`, "/filter/type", "must be a text or a list of texts"},
	} {
		got := h.do(400, "POST", c.path, c.body).json["errors"].([]any)[0].(map[string]any)
		if got["pointer"] != c.pointer || got["message"] != c.text {
			t.Errorf("%s: %v", c.body, got)
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
	if in == nil || len(in["items"].([]any)) != 1 || len(in["events"].([]any)) < 3 || in["checkpoints"] == nil ||
		in["result"] != nil || r.str("title") != "x" {
		t.Errorf("included: %s", r.text)
	}
	for path, names := range map[string]string{"/v1/tasks?fields=colour": "last_transitioned_at",
		"/v1/items/" + item + "?fields=title": "lease_expires_at", "/v1/tasks/" + id + "?include=colours": "checkpoints",
		"/v1/items/" + item + "?include=result": "provenances"} {
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

// A read of items may ask for what belongs to them, a read of a task for the live parts of its items.
func TestItemsWithWhatBelongsToThem(t *testing.T) {
	h := open(t)
	h.do(201, "PUT", "/v1/types/book", `{"parts":[{"key":"page","repeatable":true}],"approval":{"mode":"manual"}}`)
	id := h.do(201, "POST", "/v1/tasks", `{"type":"book","items":[{"input":1},{"input":2}]}`).str("id")
	leases := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","limit":2}`).items()
	for n, l := range leases {
		at := "/v1/items/" + l["id"].(string)
		for _, payload := range []string{"1", "2"} { // the second takes the place of the first
			h.do(201, "POST", at+"/parts", `{"worker_id":"w","attempt":1,"key":"page","seq":0,"payload":`+payload+`}`)
		}
		h.do(201, "POST", at+":checkpoint", `{"worker_id":"w","attempt":1,"type":"custom","snapshot":`+strconv.Itoa(n)+`}`)
		h.do(201, "POST", at+"/messages", `{"worker_id":"w","attempt":1,"role":"assistant"}`)
	}
	item := leases[0]["id"].(string)
	const all = "include=parts,events,checkpoints,messages,provenances"
	for path, want := range map[string]int{"/v1/items/" + item + "?" + all: 1, "/v1/items?" + all: 2, "/v1/tasks/" + id + "/items?" + all: 2} {
		r := h.do(200, "GET", path, "")
		views := []map[string]any{r.json}
		if want > 1 {
			views = r.items()
		}
		if len(views) != want {
			t.Fatalf("%s: %s", path, r.text)
		}
		for _, v := range views {
			in := v["included"].(map[string]any)
			parts := in["parts"].([]any)
			if len(parts) != 1 || parts[0].(map[string]any)["payload"] != 2.0 || len(in["events"].([]any)) < 3 ||
				len(in["checkpoints"].([]any)) != 1 || len(in["messages"].([]any)) != 1 || in["provenances"] != nil {
				t.Errorf("%s: %v", path, in)
			}
		}
	}
	in := h.do(200, "GET", "/v1/tasks/"+id+"?include=parts&fields=id", "").json["included"].(map[string]any)
	if len(in["parts"].([]any)) != 2 || len(in) != 1 {
		t.Errorf("of the task: %v", in)
	}
	if r := h.do(400, "GET", "/v1/items?include=parts&limit=1000", ""); !strings.Contains(r.text, "/limit") {
		t.Errorf("a thousand with include: %s", r.text)
	}
}
