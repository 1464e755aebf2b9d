package server_test

import (
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

var update = flag.Bool("update", false, "rewrite golden files")

// testServer is a test server over an engine on an empty SQLite database.
type testServer struct {
	*testing.T
	p   *pawltest.Pawl
	srv *httptest.Server
}

func open(t *testing.T) *testServer {
	t.Helper()
	p := pawltest.Open(t, pawltest.SQLite)
	return &testServer{t, p, serve(t, p.Service, server.Options{})}
}

func serve(t *testing.T, svc pawl.Service, o server.Options) *httptest.Server {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return start(t, held(t, server.New(svc, o)))
}

func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close) // before the cleanup of held
	return srv
}

// unreachable is a service that no call may reach.
type unreachable struct{ pawl.Service }

// reply is an answer with its body read as JSON.
type reply struct {
	*http.Response
	text string
	json map[string]any
}

// ask makes a request; headers are name, value, name, value.
func ask(t *testing.T, srv *httptest.Server, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := reply{Response: res, text: string(raw)}
	_ = json.Unmarshal(raw, &out.json) // lists of the older shape and empty bodies stay nil
	return out
}

// do is ask that checks the status.
func (h *testServer) do(status int, method, path, body string, headers ...string) reply {
	h.Helper()
	r := ask(h.T, h.srv, method, path, body, headers...)
	if r.StatusCode != status {
		h.Fatalf("%s %s %s: %s, want %d\n%s", method, path, body, r.Status, status, r.text)
	}
	return r
}

func (r reply) str(name string) string {
	s, _ := r.json[name].(string)
	return s
}

// pointers returns the places of a refusal's faults.
func (r reply) pointers() (out []string) {
	list, _ := r.json["errors"].([]any)
	for _, e := range list {
		out = append(out, e.(map[string]any)["pointer"].(string))
	}
	return out
}

// items returns the answer's rows.
func (r reply) items() []map[string]any {
	var out []map[string]any
	list, _ := r.json["items"].([]any)
	for _, e := range list {
		out = append(out, e.(map[string]any))
	}
	return out
}

func TestEveryRouteIsRegisteredAndNoOther(t *testing.T) {
	var got, want []string
	err := chi.Walk(server.New(unreachable{}, server.Options{}).(chi.Routes),
		func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			got = append(got, method+" "+path)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range api.Routes {
		want = append(want, r.Method+" "+r.Path)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("registered:\n%s\nin api.Routes:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The page names every call and every schema, and loads nothing from elsewhere.
func TestReferenceNeedsNothingElse(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	r := ask(t, srv, "GET", "/docs", "")
	if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") ||
		!strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%s %s", r.Status, r.Header)
	}
	for _, route := range api.Routes {
		if !strings.Contains(r.text, `</summary><a id="`+route.Name+`">`) { // inside: a link to it opens it
			t.Errorf("%s is not there", route.Name)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(r.text, -1) {
		if !strings.Contains(r.text, `id="`+m[1]+`"`) {
			t.Errorf("#%s leads nowhere", m[1])
		}
	}
	if strings.Contains(r.text, "`") || !strings.Contains(r.text, "<code>state</code>") {
		t.Error("what stands between backticks is not shown as code")
	}
	if strings.Contains(r.text, "</a><a href") {
		t.Error("links without a space between them are one word, which runs out of a narrow page")
	}
	for _, elsewhere := range []string{"src=", "<script", "<link", "@import", "url("} {
		if strings.Contains(r.text, elsewhere) {
			t.Errorf("it loads: %s", elsewhere)
		}
	}
}

func TestDescriptionIsTheGoldenOne(t *testing.T) {
	const golden = "testdata/openapi.json"
	got := ask(t, serve(t, unreachable{}, server.Options{}), "GET", "/openapi.json", "")
	if *update {
		if err := os.WriteFile(golden, []byte(got.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.text != string(want) {
		t.Errorf("the description differs from %s; look at it with go test ./server -update and git diff", golden)
	}
	for _, r := range api.Routes {
		path, _ := got.json["paths"].(map[string]any)[r.Path].(map[string]any)
		op, _ := path[strings.ToLower(r.Method)].(map[string]any)
		if op["operationId"] != r.Name || op["security"] == nil || op["summary"] == "" {
			t.Errorf("%s %s is described as %v", r.Method, r.Path, op)
		}
	}
}
