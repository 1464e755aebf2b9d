package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
)

// A refusal about a name that is not there asks whether a near one is meant, if the caller may list such names.
func TestNamesThatMayBeMeant(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		p.Create(pawl.NewTask{Type: "report"})
		hidden := p.As(pawl.Caller{Namespace: "theirs"})
		hidden.Create(pawl.NewTask{Type: "repors"})
		if _, ok, err := p.Engine.TakeRelay(t.Context(), "hook", "webhook", "w", time.Minute); !ok || err != nil {
			t.Fatal(err)
		}
		_, all := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: pawl.AnyNamespace})
		_, blind := h.key(pawl.NewAPIKey{Roles: everything("reader"), Namespace: pawl.AnyNamespace})
		_, ours := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		for path, body := range map[string]string{
			"/v1/types/mail":        `{"name":"mail"}`,
			"/v1/budgets/llm":       `{"unit":"tokens","limit":10}`,
			"/v1/schedules/nightly": `{"name":"nightly","cron":"0 2 * * *","task":{"type":"report"}}`,
		} {
			if got := h.ask(all, "PUT", path, body); got.StatusCode != 201 {
				t.Fatal(path, got.text)
			}
		}
		for _, c := range []struct{ method, path, want string }{
			{"GET", "/v1/queues/repot", "no queue repot; did you mean report?"},
			{"GET", "/v1/types/mial", "no type mial; did you mean mail?"},
			{"DELETE", "/v1/types/mial", "no type mial; did you mean mail?"},
			{"GET", "/v1/budgets/llmm", "no budget llmm; did you mean llm?"},
			{"DELETE", "/v1/budgets/llmm", "no budget llmm; did you mean llm?"},
			{"POST", "/v1/schedules/nightl:pause", "no schedule nightl; did you mean nightly?"},
			{"GET", "/v1/schedules/nightl/firings", "no schedule nightl; did you mean nightly?"},
			{"DELETE", "/v1/relays/hok", "no relay hok; did you mean hook?"},
			{"GET", "/v1/budgets/other", "no budget other"},
			{"GET", "/v1/tasks/tsk_x", "no task tsk_x"},
		} {
			if got := h.ask(all, c.method, c.path, ""); got.StatusCode != 404 || got.str("detail") != c.want {
				t.Errorf("%s %s: %s, want %s", c.method, c.path, got.text, c.want)
			}
			if strings.Contains(c.path, "relays") {
				continue // they are of all namespaces, and their list is an operator's
			}
			if got := h.ask(all, c.method, c.path, "", "Pawl-Namespace", "elsewhere"); strings.Contains(got.text, "did you mean") {
				t.Errorf("in another namespace, %s %s: %s", c.method, c.path, got.text)
			}
			if got := h.ask(blind, c.method, c.path, ""); strings.Contains(got.text, "did you mean") {
				t.Errorf("without the role reader, %s %s: %s", c.method, c.path, got.text)
			}
		}
		every := h.ask(all, "GET", "/v1/tasks", "", "Pawl-Namespace", "*")
		if every.StatusCode != 400 || !strings.Contains(every.text, "name one namespace") {
			t.Errorf("in all namespaces: %s", every.text)
		}
		if got := h.ask(ours, "DELETE", "/v1/relays/hok", ""); strings.Contains(got.text, "hook") {
			t.Errorf("a key of one namespace learns of relays: %s", got.text)
		}
	})
}
