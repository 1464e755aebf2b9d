package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/server"
)

// A server of a copy is ready and says that it is quarantined. What acts is refused with words that
// name the way out, and what only writes is not.
func TestAServerOfACopyKeepsStill(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	open := func(path string) *engine.Engine {
		e, err := engine.OpenWith(t.Context(), "sqlite:"+path, engine.Options{Identity: "check", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	path := filepath.Join(t.TempDir(), "one.db")
	if err := open(path).Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".copy", file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := open(path + ".copy")
	defer e.Close()
	srv := httptest.NewServer(server.New(e, server.Options{Log: log}))
	defer srv.Close()
	ask := func(method, path, body string) (*http.Response, string) {
		r, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp, string(text)
	}
	if r, text := ask("GET", "/readyz", ""); r.StatusCode != 200 || r.Header.Get("Pawl-Quarantined") != "true" {
		t.Errorf("readyz: %d %v %s", r.StatusCode, r.Header, text)
	}
	if r, text := ask("POST", "/v1/tasks", `{"type":"a"}`); r.StatusCode != 201 {
		t.Errorf("a create: %d %s", r.StatusCode, text)
	}
	for path, body := range map[string]string{
		"/v1/claims":  `{"worker_id":"w"}`,
		"/v1/signals": `{"name":"s"}`,
		"/v1/sweeps":  "",
		"/v1/tick":    "",
		"/v1/items/itm_019e8b2f000070008000000000000000:complete": `{"worker_id":"w","attempt":1,"result":1}`,
	} {
		r, text := ask("POST", path, body)
		if r.StatusCode != 503 || !strings.Contains(text, `"code":"quarantined"`) || !strings.Contains(text, "`pawl adopt`") ||
			!strings.Contains(text, "`pawl adopt --as-copy`") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
	}
	if _, err := e.Adopt(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if r, _ := ask("GET", "/readyz", ""); r.Header.Get("Pawl-Quarantined") != "" {
		t.Error("readyz of the adopted database")
	}
	if r, text := ask("POST", "/v1/claims", `{"worker_id":"w"}`); r.StatusCode != 200 {
		t.Errorf("a claim of the adopted database: %d %s", r.StatusCode, text)
	}
}
