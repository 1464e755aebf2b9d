package mcp_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// An agent records a call to the outside before it makes it, another one decides, and nothing is called twice.
func TestEffectsOverMCP(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "pays"}); err != nil {
			t.Fatal(err)
		}
		l, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(l) != 1 {
			t.Fatal(l, err)
		}
		srv := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}).HTTP())
		defer srv.Close()
		c := rpc{T: t, url: srv.URL}
		held := args{"item_id": l[0].ID, "worker_id": "w", "attempt": 1}
		open := func(name string, more ...any) map[string]any {
			_, out := c.result("work_effect_open", with(with(held, "name", name, "request_hash", "h"), more...))
			return out
		}
		effect := func(tool string, in args) map[string]any {
			t.Helper()
			text, out := c.result(tool, in)
			f, ok := out["effect"].(map[string]any)
			if !ok {
				t.Fatalf("%s: %s", tool, text)
			}
			return f
		}
		refused := func(what, code string, tool string, in args) map[string]any {
			t.Helper()
			text, out := c.result(tool, in)
			problem, _ := out["problem"].(map[string]any)
			if problem == nil || problem["code"] != code {
				t.Errorf("%s: %s", what, text)
			}
			return problem
		}

		charge := open("charge")
		if charge["send"] != true || open("charge")["send"] != false {
			t.Fatalf("opened: %v", charge)
		}
		report := with(held, "effect_id", charge["id"])
		refused("failed without an error", "invalid", "work_effect_report", with(report, "state", "failed"))
		refused("an answer of unknown", "invalid", "work_effect_report", with(report, "state", "unknown", "answer", 1))
		refused("an error of done", "invalid", "work_effect_report", with(report, "state", "done", "error", "x"))
		refused("another state", "invalid", "work_effect_report", with(report, "state", "open"))
		if f := effect("work_effect_report", with(report, "state", "done", "answer", args{"n": 1})); f["state"] != "done" {
			t.Errorf("done: %v", f)
		}
		if again := open("charge"); again["send"] != false || again["answer"].(map[string]any)["n"] != 1.0 {
			t.Errorf("again: %v", again)
		}
		if f := effect("work_effect_report", with(held, "effect_id", open("no")["id"], "state", "failed", "error", "x")); f["state"] != "failed" {
			t.Errorf("failed: %v", f)
		}
		mail := open("mail")["id"]
		effect("work_effect_report", with(held, "effect_id", mail, "state", "unknown"))
		problem := refused("unknown", "effect_unknown", "work_effect_open", with(held, "name", "mail", "request_hash", "h"))
		if problem["effect_id"] != mail {
			t.Errorf("the refusal names %v", problem)
		}
		text, _ := c.result("work_effect_open", with(held, "name", "mail", "request_hash", "h"))
		if !strings.Contains(text, "work_effect_resolve") {
			t.Errorf("the advice is %s", text)
		}
		if _, list := c.result("work_effects", args{"states": []string{"unknown"}}); len(list["items"].([]any)) != 1 {
			t.Errorf("unknown: %v", list)
		}
		if _, list := c.result("work_effects", args{"effect_id": mail, "states": []string{"done"}}); len(list["items"].([]any)) != 0 {
			t.Errorf("done, of one that is unknown: %v", list)
		}
		refused("no decision", "invalid", "work_effect_resolve", args{"effect_id": mail, "decision": "perhaps"})
		refused("an answer of what did not happen", "invalid", "work_effect_resolve",
			args{"effect_id": mail, "decision": "did_not_happen", "answer": 1})
		if f := effect("work_effect_resolve", args{"effect_id": mail, "decision": "happened", "answer": 7}); f["answer"] != 7.0 {
			t.Errorf("resolved: %v", f)
		}
		for decision, state := range map[string]string{"approve": "waiting", "reject": "failed"} {
			id := open(decision, "approve", true)["id"]
			if f := effect("work_effect_resolve", args{"effect_id": id, "decision": decision}); f["state"] != state {
				t.Errorf("%s: %v", decision, f)
			}
		}
		if sends := open("approve", "approve", true)["send"]; sends != true {
			t.Errorf("approved, it is sent: %v", sends)
		}
	})
}

// The refusal of a budget says what the worker does then.
func TestAnExhaustedBudgetSaysWhatToDo(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		_, lease := a.checkout("w", a.ok("work_propose", args{"type": "e"}).Task.ID)
		_, err := a.p.Service.PutBudget(a.Context(), "b", pawl.NewBudget{Unit: "x", Limit: 1, OnExhausted: pawl.ExhaustedAsk})
		a.must(err)
		got, refused := a.call("work_effect_open", with(lease, "name", "pay", "request_hash", "h", "budget", "b", "amount", 5))
		for _, member := range []string{`"on_exhausted":"ask"`, `"signal_key":"`, `"task_id":"tsk_`, `"limit":1`} {
			if !refused || !strings.Contains(got.raw, member) {
				a.Errorf("no %s in %s", member, got.raw)
			}
		}
	})
}
