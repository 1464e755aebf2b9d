package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// FuzzRequests sends arbitrary requests. Each gets one of the server's own answers, and never
// an internal error. The requests reach all decoders: of paths, queries, headers and bodies.
func FuzzRequests(f *testing.F) {
	for _, r := range api.Routes {
		f.Add(r.Method, strings.Replace(r.Path, "{id}", "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV", 1),
			"limit=1&cursor=x&order=asc&metadata[a]=b", "Pawl-Namespace", "a%2Fb", `{"items":[{"type":"a"}]}`)
	}
	f.Add("PATCH", "/v1/tasks/a:b", "", "If-Match", `W/"1"`, `{"title":"\u0000","metadata":{"a":{"b":null}}}`)
	f.Add("POST", "/v1/tasks", "since=2026-01-29T11:00:00Z&type=a&type=b,c", "Content-Type", "application/json; charset=utf-8",
		`{"type":"a","dedupe":["/a/0~1"],"payload":{"a":[1e400]}}`)
	f.Add("POST", "/v1/items/i:fail", "", "Pawl-Actor", "user/%C3%A9", `{"worker_id":"w","attempt":1,"error":"no","retry_after_ms":-1}`)
	f.Add("POST", "/v1/claims", "", "Origin", "http://a", `{"worker_id":"w","wait_seconds":0.5}`)
	p := pawltest.OpenReal(f, pawltest.SQLite, engine.Options{})
	h := server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, method, path, query, header, value, body string) {
		if strings.Contains(body, "wait_seconds") {
			return // it may wait a minute
		}
		req, err := http.NewRequest(method, "http://localhost", strings.NewReader(body))
		if err != nil {
			return
		}
		if req.URL, err = req.URL.Parse("/" + strings.TrimLeft(path, "/")); err != nil || req.URL.Host != "" && req.URL.Host != "localhost" {
			return
		}
		req.URL.RawQuery = query
		req.Header.Set(header, value)
		w := httptest.NewRecorder()
		cost.Check(t, len(path)+len(query)+len(value)+len(body), func() { h.ServeHTTP(w, req) })
		if w.Code >= 500 {
			t.Fatalf("%s %s?%s %s: %s\n%s\n%d %s", method, path, query, header, value, body, w.Code, w.Body)
		}
		if w.Code < 300 || method == http.MethodHead {
			return
		}
		var problem api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Header().Get("Content-Type") != api.ProblemType ||
			problem.Status != w.Code || problem.Code == "" {
			t.Fatalf("%s %s: %d %s: %s", method, path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	})
}
