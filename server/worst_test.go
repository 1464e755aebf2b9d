package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/store"
)

const (
	worstBody  = 32 << 10 // bytes of a body that says nothing
	worstCalls = 100      // calls of a batch that all name the same task
)

// doors is a server with all its doors, whose requests are measured.
type doors struct {
	*testing.T
	p       *pawltest.Pawl
	gate    *access.Gate
	handler http.Handler
	key     string // of the requests
	session string
	schemas bodyOf
	paths   map[string]any
	ids     map[string]string // of a task with much in it, its item and its message
}

// eachDoors runs a test on each database, one after the other: allocations are those of the whole process.
func eachDoors(t *testing.T, run func(d *doors)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			d := openDoors(t, which)
			d.fill()
			run(d)
		})
	}
}

func openDoors(t *testing.T, which pawltest.Database) *doors {
	p := pawltest.OpenNew(t, which, engine.Options{}) // the functions of the pool would be measured, too
	log := slog.New(slog.DiscardHandler)
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: log})
	hook, err := inbound.New(inbound.Options{Form: "github", Secrets: []string{hookSecret}, Task: &inbound.Task{Type: "push"}})
	if err != nil {
		t.Fatal(err)
	}
	h := server.New(p.Service, server.Options{Gate: gate, Log: log, Inbound: map[string]*inbound.Source{"code": hook},
		Front: dashboard.New(p.Engine, dashboard.Options{Gate: gate, Log: log}),
		At:    map[string]http.Handler{"/mcp": mcp.New(p.Service, mcp.Options{Log: log, Gate: gate}).HTTP()}})
	d := &doors{T: t, p: p, gate: gate, handler: h}
	d.key = d.token()
	w, _ := d.send(http.MethodPost, "/ui/login", url.Values{"key": {strings.TrimPrefix(d.key, "Bearer ")}}.Encode())
	for _, c := range (&http.Response{Header: w.header}).Cookies() {
		d.session += c.Name + "=" + c.Value + "; "
	}
	w, _ = d.send(http.MethodGet, "/openapi.json", "")
	var said map[string]any
	if err := json.Unmarshal(w.body, &said); err != nil || d.session == "" {
		t.Fatal(err, d.session)
	}
	d.paths = said["paths"].(map[string]any)
	d.schemas = bodyOf{said["components"].(map[string]any)["schemas"].(map[string]any)}
	return d
}

func (d *doors) token() string {
	d.Helper()
	_, token, err := d.p.Engine.CreateAPIKey(d.Context(), pawl.NewAPIKey{Name: "x", Roles: pawl.KeyRoles, Namespace: pawl.AnyNamespace})
	if err != nil {
		d.Fatal(err)
	}
	return "Bearer " + token
}

// counted is the body of a request. It counts what is read of it.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

// measured is an answer, with what was read of the body before it began.
type measured struct {
	header http.Header
	status int
	body   []byte
	from   *counted
	before int
}

func (m *measured) Header() http.Header { return m.header }

func (m *measured) WriteHeader(status int) {
	if m.status == 0 {
		m.status, m.before = status, m.from.n
	}
}

func (m *measured) Write(b []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	m.body = append(m.body, b...)
	return len(b), nil
}

func (m *measured) Flush() {}

// spent is what the answer to a request took.
type spent struct {
	time  time.Duration
	bytes uint64
}

// send makes a request and measures it. Requests to the dashboard have the session, others the key.
func (d *doors) send(method, path, body string) (*measured, spent) {
	d.Helper()
	from := &counted{Reader: strings.NewReader(body)}
	ctx, cancel := context.WithTimeout(d.Context(), 10*time.Second)
	defer cancel()
	if strings.Contains(path, "/stream") || path == "/v1/chat" || strings.HasPrefix(path, "/ui/live") {
		ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond) // it does not end by itself
		defer cancel()
	}
	r := httptest.NewRequestWithContext(ctx, method, path, from)
	if r.ContentLength = int64(len(body)); body == "" {
		r.Body = http.NoBody
	}
	r.Host = "localhost"
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/ui/") {
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", d.session)
	} else if d.key != "" {
		r.Header.Set("Authorization", d.key)
		if !strings.HasPrefix(path, "/mcp") {
			r.Header.Set("Accept", "application/json")
		}
	}
	w := &measured{header: http.Header{}, from: from}
	var s spent
	s.time, s.bytes = cost.Of(func() { d.handler.ServeHTTP(w, r) })
	return w, s
}

// fill creates what lists, pages and tasks then have much of.
func (d *doors) fill() {
	d.Helper()
	ctx := d.Context()
	must := func(err error) {
		d.Helper()
		if err != nil {
			d.Fatal(err)
		}
	}
	large := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	for range 60 {
		_, err := pawl.Create(ctx, d.p.Service, pawl.NewTask{Type: "large", Payload: large, Thread: "large",
			Messages: []pawl.NewMessage{{Role: pawl.RoleUser, Content: json.RawMessage(`"x"`)}}})
		must(err)
	}
	items := make([]pawl.NewItem, 1200)
	for i := range items {
		items[i] = pawl.NewItem{Input: json.RawMessage(`1`)}
	}
	t, err := pawl.Create(ctx, d.p.Service, pawl.NewTask{Type: "many", Payload: large, Items: items})
	must(err)
	list, err := d.p.Service.ListItems(ctx, pawl.ItemFilter{TaskID: t.ID, Page: pawl.Page{Limit: 1}})
	must(err)
	d.ids = map[string]string{"task": t.ID, "item": list.Items[0].ID, "message": d.target()["message"]}
}

// target creates a task whose item is leased by w, with an open message.
func (d *doors) target() map[string]string {
	d.Helper()
	if err := d.p.Engine.ResumeNamespace(d.Context()); err != nil { // one of the routes pauses it
		d.Fatal(err)
	}
	large := json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
	t, err := pawl.Create(d.Context(), d.p.Service, pawl.NewTask{Type: "target", Payload: large, Thread: "target", Reply: &pawl.Reply{}})
	if err != nil {
		d.Fatal(err)
	}
	ls, err := d.p.Service.Claim(d.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: t.ID})
	if err != nil || len(ls) != 1 {
		d.Fatal(ls, err)
	}
	out := map[string]string{"task": t.ID, "item": ls[0].ID}
	if m := ls[0].OpenMessage; m != nil {
		out["message"] = m.ID
	}
	return out
}

// call returns a body of a schema that names the target wherever it can name something.
func (d *doors) call(r api.Route, schema any, ids map[string]string) map[string]any {
	out, _ := d.schemas.least(schema).(map[string]any)
	properties, _ := d.schemas.resolve(schema)["properties"].(map[string]any)
	for name, of := range properties {
		id := ids[names[name]]
		if name == "id" && strings.HasSuffix(r.Name, "_messages") && r.Name != "start_messages" {
			id = ids["message"]
		}
		switch kind := d.schemas.resolve(of)["type"]; {
		case name == "worker_id":
			out[name] = "w"
		case name == "return" && kind == "boolean":
			out[name] = true
		case id != "" && kind == "string":
			out[name] = id
		}
	}
	maps.Copy(out, besides[r.Name])
	return out
}

// worst returns the worst bodies that are known for a route, by what is bad about them, and how many
// calls each has.
func (d *doors) worst(r api.Route) map[string]body {
	op := d.paths[r.Path].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
	request, _ := op["requestBody"].(map[string]any)
	if request == nil || r.Has(api.TakesBytes) {
		return map[string]body{"bytes": {text: strings.Repeat("x", worstBody)}}
	}
	var members strings.Builder
	for i := 0; members.Len() < worstBody; i++ {
		fmt.Fprintf(&members, `"a%d":0,`, i)
	}
	objects := strings.Repeat(`{"":0},`, worstBody/7) + `1`
	out := map[string]body{
		"members": {text: "{" + members.String() + `"z":1}`},
		"objects": {text: "[" + objects + "]"},
		"items":   {`{"items":[` + objects + `]}`, worstBody/7 + 1},
		"depth":   {text: strings.Repeat("[", worstBody)},
		"escapes": {text: `{"type":"` + strings.Repeat(`\u0000`, worstBody/6) + `"}`},
	}
	schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"]
	made := d.schemas.with(schema, json.RawMessage("["+objects+"]"), 0)
	if at := slices.Sorted(maps.Keys(made)); len(at) > 0 {
		text, _ := json.Marshal(made[at[len(at)-1]])
		out["a value at "+at[len(at)-1]] = body{text: string(text), calls: 1}
	}
	items, _ := d.schemas.resolve(schema)["properties"].(map[string]any)
	if kindOf(d.T, r.Name) != "batch" || items["items"] == nil {
		text, _ := json.Marshal(d.call(r, schema, d.target()))
		out["the target"] = body{text: string(text), calls: 1}
		return out
	}
	one := d.call(r, d.schemas.resolve(items["items"])["items"], d.target())
	text, _ := json.Marshal(map[string]any{"items": slices.Repeat([]any{one}, worstCalls)})
	out["the target, many times"] = body{string(text), worstCalls}
	return out
}

type body struct {
	text  string
	calls int
}

// check compares an answer with what its kind may cost.
func (d *doors) check(name, what string, size, calls int, w *measured, s spent, rows int) {
	d.Helper()
	p := prices[kindOf(d.T, name)]
	fail := func(format string, args ...any) {
		d.Errorf("%s, %s of %d bytes (%d): "+format, append([]any{name, what, size, w.status}, args...)...)
	}
	most := uint64(heldAnyway + p.hold*size)
	if d.p.Database == pawltest.Postgres { // its driver encodes each value again
		most += most / 2
	}
	if s.bytes > most {
		fail("%d bytes are allocated, at most %d are allowed", s.bytes, most)
	}
	if most := time.Duration(p.millis) * time.Millisecond; s.time > most {
		fail("%v of processor time, at most %v are allowed", s.time, most)
	}
	if len(w.body) > p.answer {
		fail("the answer has %d bytes, at most %d are allowed", len(w.body), p.answer)
	}
	if w.status >= 500 && w.status != 503 {
		fail("%.300s", w.body)
	}
	var list struct{ Items, Results []json.RawMessage }
	_ = json.Unmarshal(w.body, &list)
	if n := len(list.Items) + len(list.Results); n > max(p.rows, calls) {
		fail("the answer has %d rows, at most %d are allowed", n, p.rows)
	}
	if rows > p.rows*max(1, calls) {
		fail("%d rows are written, at most %d for each call are allowed", rows, p.rows)
	}
}

// rows counts the rows of the database.
func (d *doors) rows() (n int) {
	d.Helper()
	err := d.p.Engine.DB().View(d.Context(), func(ctx context.Context, tx store.Tx) error {
		for _, table := range []string{"tasks", "items", "task_events", "checkpoints", "messages", "message_chunks", "ready", "leases",
			"signals", "idempotency_keys", "gates", "schedules", "child_links", "uniques"} {
			var of int
			if _, err := store.Row(ctx, tx, []any{&of}, "SELECT COUNT(*) FROM pawl."+table); err != nil {
				return err
			}
			n += of
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return n
}
