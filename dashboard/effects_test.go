package dashboard_test

import (
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// effects makes an effect of each state.
func (h *fixture) effects() map[string]string {
	h.Helper()
	ctx, svc := h.Context(), h.p.Service
	if _, err := pawl.Create(ctx, svc, pawl.NewTask{Type: "pays"}); err != nil {
		h.Fatal(err)
	}
	ls, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "payer", Types: []string{"pays"}})
	if err != nil || len(ls) != 1 {
		h.Fatal(ls, err)
	}
	l := ls[0]
	open := func(name string, approve bool) string {
		out, err := svc.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: name, RequestHash: "h",
			Approve: approve})
		if err != nil {
			h.Fatal(err)
		}
		return out.ID
	}
	out := map[string]string{"open": open("upload", false), "done": open("charge", false), "unknown": open("mail", false),
		"ask": open("publish", true), "no": open("print", true)}
	_, err = svc.EffectDone(ctx, out["done"], pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Answer: []byte(`{"secret":"paid 5"}`)})
	if err == nil {
		_, err = svc.EffectUnknown(ctx, out["unknown"], pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt})
	}
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// The page of effects has the unknown ones first, and a person decides there.
func TestEffects(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		h.has(h.get("/ui/effects"), 200, "There are none.", "pawl effect ls")
		ids := h.effects()
		list := h.get("/ui/effects")
		h.has(list, 200, "mail", "publish", "upload", "charge", "to approve", "pawl effect ls --state=unknown")
		if unknown, waiting, done := strings.Index(list.text, ids["unknown"]), strings.Index(list.text, ids["ask"]),
			strings.Index(list.text, ids["done"]); unknown < 0 || unknown > waiting || waiting > done {
			t.Errorf("the unknown one is at %d, the waiting one at %d, the done one at %d", unknown, waiting, done)
		}
		h.has(h.get("/ui/effects/"+ids["done"]), 200, "paid 5", "payer", "pawl effect receipt")
		h.has(h.get("/ui/effects/"+ids["unknown"]), 200, "it did not happen", "resolve", "pawl effect resolve")
		h.has(h.get("/ui/effects/eff_0"), 404)
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/resolve"), 400, "happened, did_not_happen or give_up")
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/resolve", "outcome", "happened", "answer", "{"), 400)
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/explode"), 404)
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/resolve", "outcome", "happened", "answer", `{"n":7}`, "comment", "seen it"), 200,
			"seen it", "digest of the answer")
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/resolve", "outcome", "did_not_happen"), 409)
		h.has(h.post("/ui/effects/"+ids["ask"]+"/approve", "comment", "good"), 200, "given")
		h.has(h.post("/ui/effects/"+ids["no"]+"/reject"), 200, "refused")
		for which, state := range map[string]pawl.EffectState{"unknown": pawl.EffectDone, "ask": pawl.EffectWaiting, "no": pawl.EffectFailed} {
			if f, err := p.Service.GetEffect(t.Context(), ids[which]); err != nil || f.State != state {
				t.Errorf("%s is %s, want %s (%v)", which, f.State, state, err)
			}
		}
	})
}

// Who may not approve reads effects, without payloads if the key has none, and decides nothing.
func TestEffectsAreDecidedByApprovers(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), true)
	ids := h.effects()
	h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
	h.has(h.get("/ui/effects"), 200, "mail", "does not have the role approver")
	got := h.get("/ui/effects/" + ids["done"])
	h.has(got, 200, "charge")
	h.hasNot(got, "paid 5")
	got = h.get("/ui/effects/" + ids["unknown"])
	h.has(got, 200, "does not have the role approver")
	h.hasNot(got, "<textarea", "/resolve")
	for _, verb := range []string{"approve", "reject", "resolve"} {
		h.has(h.post("/ui/effects/"+ids["unknown"]+"/"+verb, "outcome", "happened"), 403)
	}
	if f, err := h.p.Service.GetEffect(t.Context(), ids["unknown"]); err != nil || f.State != pawl.EffectUnknown {
		t.Errorf("it is %s (%v)", f.State, err)
	}
	h.login(pawl.NewAPIKey{Roles: []string{"reader", "approver"}})
	h.has(h.post("/ui/effects/"+ids["unknown"]+"/resolve", "outcome", "give_up"), 200, "give_up")
}
