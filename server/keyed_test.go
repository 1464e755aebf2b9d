package server_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

const keyHeader, replayedHeader = api.KeyHeader, api.ReplayedHeader

func TestACallWithAKeyIsCarriedOutOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		ask := func(body string, headers ...string) reply { return ask(t, srv, "POST", "/v1/tasks", body, headers...) }
		body := `{"type":"a","payload":{"n":9007199254740993,"s": "é"}}`
		first := ask(body, keyHeader, "k")
		if first.StatusCode != 201 || first.Header.Get(replayedHeader) != "" {
			t.Fatalf("%s %s", first.Status, first.text)
		}
		for _, again := range []reply{
			ask(body, keyHeader, "k"), ask(body, keyHeader, `"k"`), ask(body, "X-"+keyHeader, "k"), ask(body, keyHeader, "k", "X-"+keyHeader, `"k"`),
			ask(` {"payload": {"s":"\u00e9","n":9007199254740993}, "type":"a"}`, keyHeader, "k"),
		} {
			if again.StatusCode != 201 || again.text != first.text || again.Header.Get(replayedHeader) != "true" ||
				again.Header.Get("Location") != first.Header.Get("Location") || again.Header.Get("Content-Type") != first.Header.Get("Content-Type") ||
				again.Header.Get("ETag") != `"0"` || first.Header.Get("ETag") != `"0"` {
				t.Errorf("%s %v\n%s want\n%s", again.Status, again.Header, again.text, first.text)
			}
		}
		for _, other := range []reply{ask(strings.Replace(body, "993", "992", 1), keyHeader, "k"), ask(`{"type":"b"}`, keyHeader, "k")} {
			if other.StatusCode != 422 || other.str("code") != "key_reused" {
				t.Errorf("another request: %s %s", other.Status, other.text)
			}
		}
		for _, bad := range []reply{ask(body, keyHeader, " "), ask(body, keyHeader, strings.Repeat("k", 256)),
			ask(body, keyHeader, "k", "X-"+keyHeader, "l"), ask(body, keyHeader, "k", api.KeySecondsHeader, "0"),
			ask(body, keyHeader, "k59", api.KeySecondsHeader, "59"), ask(body, api.KeySecondsHeader, "59")} {
			if bad.StatusCode != 400 {
				t.Errorf("a bad key: %s %s", bad.Status, bad.text)
			}
		}
		// another caller's key, another path's, and another namespace's are others
		for _, r := range []reply{ask(body, keyHeader, "k", api.ActorHeader, "user/ann"), ask(body, keyHeader, "k", api.NamespaceHeader, "n2")} {
			if r.StatusCode != 201 || r.text == first.text || r.Header.Get(replayedHeader) != "" {
				t.Errorf("another caller: %s %v\n%s", r.Status, r.Header, r.text)
			}
		}
		if r := ask(body, api.ActorHeader, "user:ann"); r.StatusCode != 400 || r.str("code") != "invalid" {
			t.Errorf("a caller of no known type: %s %s", r.Status, r.text)
		}
		p.Advance(pawl.DefaultKeyTTL)
		if r := ask(body, keyHeader, "k"); r.StatusCode != 201 || r.str("id") == first.str("id") {
			t.Errorf("after a day: %s %s", r.Status, r.text)
		}
	})
}

func TestRefusalsAreNotKept(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		post := func(path, body string) reply { return ask(t, srv, "POST", path, body, keyHeader, "k") }
		bury := fmt.Sprintf(`{"items":[{"task_id":%q}]}`, task.ID)
		for range 2 {
			if r := post("/v1/tasks/"+task.ID+":bury", ``); r.StatusCode != 409 || r.str("code") != "conflict" ||
				r.Header.Get(replayedHeader) != "" {
				t.Errorf("%s %s", r.Status, r.text)
			}
			if r := post("/v1/tasks:bury", bury); r.StatusCode != 200 || r.Header.Get(replayedHeader) != "" {
				t.Errorf("a batch of refusals: %s %s", r.Status, r.text)
			}
		}
		if r := post("/v1/tasks/"+task.ID+":bury", `{"reason":"another request"}`); r.StatusCode != 409 || r.str("code") != "conflict" {
			t.Errorf("the key is not free: %s %s", r.Status, r.text)
		}
		mixed := fmt.Sprintf(`{"items":[{"task_id":%q},{"task_id":"tsk_none"}]}`, task.ID)
		first := post("/v1/tasks:cancel", mixed)
		if again := post("/v1/tasks:cancel", mixed); again.text != first.text || again.Header.Get(replayedHeader) != "true" ||
			!strings.Contains(first.text, "not_found") {
			t.Errorf("a mixed batch: %s then %s", first.text, again.text)
		}
		// delete runs in several transactions
		for n := range 2 {
			if r := ask(t, srv, "DELETE", "/v1/tasks/"+task.ID, "", keyHeader, "k"); r.StatusCode != 204 ||
				(r.Header.Get(replayedHeader) == "true") != (n == 1) {
				t.Errorf("delete %d: %s %v %s", n, r.Status, r.Header, r.text)
			}
		}
	})
}

// A refused submission has the same effects with a key as without one, alone and in a batch of
// refusals.
func TestWhatIsKeptOfARefusalStays(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := &testServer{t, p, serve(t, p.Service, server.Options{})}
		h.do(201, "PUT", "/v1/types/report",
			`{"result_schema":{"type":"object"},"parts":[{"key":"head","schema":{"type":"string"}}],"approval":{"mode":"manual"}}`)
		for name, headers := range map[string][]string{"without a key": nil, "with a key": {keyHeader, "k"}} {
			for _, batch := range []bool{false, true} {
				task := h.do(201, "POST", "/v1/tasks", `{"type":"report"}`).str("id")
				item := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","task_id":"`+task+`"}`).items()[0]["id"].(string)
				refused := func(verb, several, body string) {
					t.Helper()
					body = `"worker_id":"w","attempt":1,` + body
					if batch {
						r := ask(t, h.srv, "POST", several, `{"items":[{"id":"`+item+`",`+body+`}]}`, headers...)
						if r.StatusCode != 200 || !strings.Contains(r.text, `"status":400`) {
							t.Errorf("%s: %s answers %s %s", name, several, r.Status, r.text)
						}
						return
					}
					if r := ask(t, h.srv, "POST", "/v1/items/"+item+verb, "{"+body+"}", headers...); r.StatusCode != 400 {
						t.Errorf("%s: %s answers %s %s", name, verb, r.Status, r.text)
					}
				}
				for range 2 { // and again, as by a client whose answer was lost
					refused(":submit", "/v1/items:submit", `"result":7`)
					refused("/parts", "/v1/parts:batch", `"key":"head","payload":7`)
				}
				if r := h.do(200, "GET", "/v1/items/"+item, ""); !strings.Contains(r.text, `"code":"refused"`) || r.str("worker_id") != "w" {
					t.Errorf("%s: the item is %s", name, r.text)
				}
				if r := h.do(200, "GET", "/v1/items/"+item+"/parts?all=true", ""); len(r.items()) != 1 || r.items()[0]["status"] != "rejected" {
					t.Errorf("%s: its parts are %s", name, r.text)
				}
			}
		}
	})
}

func TestClaimsWithAKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		claim := func(body string) reply { return ask(t, srv, "POST", "/v1/claims", body, keyHeader, "k") }
		for range 2 {
			if r := claim(`{"worker_id":"w"}`); r.StatusCode != 200 || len(r.items()) != 0 || r.Header.Get(replayedHeader) != "" {
				t.Fatalf("nothing to claim: %s %s", r.Status, r.text)
			}
		}
		waiting := make(chan reply)
		go func() {
			r := claim(`{"worker_id":"w","wait_seconds":60}`)
			for r.StatusCode == 409 { // the concurrent call came first
				r = claim(`{"worker_id":"w","wait_seconds":60}`)
			}
			waiting <- r
		}()
		twin := claim(`{"worker_id":"w"}`)
		for twin.StatusCode != 409 { // until the other one holds the key
			twin = claim(`{"worker_id":"w"}`)
		}
		if twin.str("code") != "key_in_flight" || twin.Header.Get("Retry-After") == "" {
			t.Errorf("while it waits: %s %v %s", twin.Status, twin.Header, twin.text)
		}
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		first := <-waiting
		if len(first.items()) != 1 || first.items()[0]["task_id"] != task.ID {
			t.Fatalf("%s %s", first.Status, first.text)
		}
		if again := claim(`{"worker_id":"w","wait_seconds":60}`); again.text != first.text || again.Header.Get(replayedHeader) != "true" {
			t.Errorf("again: %s want %s", again.text, first.text)
		}
	})
}

func TestKeysMayBeRequired(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	srv := serve(t, p.Service, server.Options{RequireKeys: []string{"create_task"}})
	if r := ask(t, srv, "POST", "/v1/tasks", `{"type":"a"}`); r.StatusCode != 428 || r.str("code") != "key_required" {
		t.Errorf("%s %s", r.Status, r.text)
	}
	if r := ask(t, srv, "POST", "/v1/tasks", `{"type":"a"}`, keyHeader, "k"); r.StatusCode != 201 {
		t.Errorf("%s %s", r.Status, r.text)
	}
	if r := ask(t, srv, "POST", "/v1/claims", `{"worker_id":"w"}`); r.StatusCode != 200 {
		t.Errorf("%s %s", r.Status, r.text)
	}
	all := serve(t, p.Service, server.Options{RequireKeys: []string{"*"}})
	for _, r := range api.Routes {
		got := ask(t, all, r.Method, strings.ReplaceAll(r.Path, "{id}", "x"), "").StatusCode
		if (got == http.StatusPreconditionRequired) != r.TakesKey() {
			t.Errorf("%s: %d", r.Name, got)
		}
	}
}

// A service that stores no answers refuses keys: to ignore them would break their guarantee.
func TestAServiceThatKeepsNoAnswers(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	if r := ask(t, srv, "POST", "/v1/tasks", `{"type":"a"}`, keyHeader, "k"); r.StatusCode != 400 || r.str("code") != "invalid" {
		t.Errorf("%s %s", r.Status, r.text)
	}
}

// A handler that is given a service uses that one: with an idempotency key it is the service
// in the transaction that also stores the answer.
func TestHandlersWorkByTheServiceTheyAreGiven(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	given := 0
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			var kind *ast.FuncType
			var body *ast.BlockStmt
			switch f := n.(type) {
			case *ast.FuncLit:
				kind, body = f.Type, f.Body
			case *ast.FuncDecl:
				kind, body = f.Type, f.Body
			}
			if kind == nil || !slices.ContainsFunc(kind.Params.List,
				func(p *ast.Field) bool { return len(p.Names) > 0 && p.Names[0].Name == "svc" }) {
				return true
			}
			given++
			ast.Inspect(body, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "svc" {
					t.Errorf("%s: a function with the parameter svc uses another service", name)
				}
				return true
			})
			return true
		})
	}
	if given < 20 {
		t.Errorf("only %d functions are given a service", given)
	}
}
