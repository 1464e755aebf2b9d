package dashboard_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/pawltest"
)

// address finds the addresses in a page.
var address = regexp.MustCompile(`(?:href|action|formaction|src|data-stream|data-approve|data-reject)="([^"]*)"`)

// A program serves the dashboard inside its own site: each link, form, cookie and redirect stays below the prefix.
func TestTheDashboardUnderAPrefix(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Namespace: pawl.AnyNamespace,
		Roles: []string{"operator", "approver", "submitter", "reader"}})
	must(nil, err)
	must(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "report", Title: "quarterly"}))
	must(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "daily", Cron: "@daily", Task: pawl.NewTask{Type: "report"}}))
	must(p.Service.PutBudget(t.Context(), "llm", pawl.NewBudget{Unit: "tokens", Limit: 1}))
	h := openWith(t, p, true, dashboard.Options{Prefix: "admin/pawl/"})

	if got := h.get("/admin/pawl/ui/tasks"); !strings.Contains(got.text, `action="/admin/pawl/ui/login"`) {
		t.Errorf("who is not logged in gets\n%s", got.text)
	}
	if got := h.get("/ui/tasks"); strings.Contains(got.text, "<html") {
		t.Errorf("outside of the prefix it answers %s", got.Status)
	}
	after := h.post("/admin/pawl/ui/login", "key", token, "next", "/ui/tasks")
	if at := after.Request.URL.Path; after.StatusCode != http.StatusOK || at != "/admin/pawl/ui/tasks" {
		t.Fatalf("logged in, the browser is at %s: %s", at, after.Status)
	}
	seen := map[string]bool{"/admin/pawl": true}
	for queue := []string{"/admin/pawl/ui"}; len(queue) > 0; queue = queue[1:] {
		got := h.get(queue[0])
		if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Request.URL.Path, "/admin/pawl/ui/") {
			t.Errorf("%s answers %s at %s", queue[0], got.Status, got.Request.URL)
		}
		for _, m := range address.FindAllStringSubmatch(got.text, -1) {
			to, _, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			switch {
			case !strings.HasPrefix(to, "/"), strings.Contains(m[0], "action="), seen[to]:
			default:
				queue, seen[to] = append(queue, to), true
			}
			if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/admin/pawl/ui/") {
				t.Errorf("%s has %s", queue[0], m[0])
			}
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d pages were found", len(seen))
	}
	if out := h.post("/admin/pawl/ui/logout"); !strings.Contains(out.text, `action="/admin/pawl/ui/login"`) {
		t.Errorf("logged out, it answers %s\n%s", out.Status, out.text)
	}
}
