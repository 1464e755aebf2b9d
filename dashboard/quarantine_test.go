package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
)

// Each page of a copy says that nothing acts, and names both commands.
func TestACopySaysThatItIsQuarantined(t *testing.T) {
	dir := t.TempDir()
	page := func(file, path string) string {
		e, err := engine.OpenWith(t.Context(), "sqlite:"+filepath.Join(dir, file), engine.Options{Identity: "check"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Identity(t.Context()); err != nil { // it waits until that is known
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		dashboard.New(e, dashboard.Options{})(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s of %s answers %d", path, file, w.Code)
		}
		return w.Body.String()
	}
	if strings.Contains(page("a.db", "/ui/"), "quarantined") {
		t.Error("the original says that it is quarantined")
	}
	b, err := os.ReadFile(filepath.Join(dir, "a.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "b.db"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/", "/ui/tasks", "/ui/queues"} {
		text := page("b.db", path)
		for _, want := range []string{"This database is quarantined", "pawl adopt --db URL", "pawl adopt --as-copy --db URL"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s of a copy does not say %q", path, want)
			}
		}
	}
}
