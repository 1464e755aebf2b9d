package engine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Who waits for a limit is told who holds the lease. When that worker has gone, the advice is to end its
// lease, not to raise the limit.
func TestWhyNamesTheHolder(t *testing.T) {
	for name, patch := range map[string]string{
		"queue": `{"concurrency":2}`,
		"key":   `{"per_key":{"pointer":"/k","concurrency":2}}`,
		"order": `{"per_key":{"pointer":"/k","order":"created"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { holderOf(t, p, name, patch) })
		})
	}
}

func holderOf(t *testing.T, p *pawltest.Pawl, name, patch string) {
	ctx, svc := t.Context(), p.Engine
	need[pawl.Queue](t)(svc.SetQueue(ctx, "ocr", pawl.QueuePatch(patch)))
	create := func(key string) string {
		payload, _ := json.Marshal(map[string]string{"k": key})
		return need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "ocr", Payload: payload})).ID
	}
	ask := func(id string) pawl.Why { return need[pawl.Why](t)(svc.Why(ctx, id)) }
	claim := func(worker string, seconds int) pawl.Lease {
		t.Helper()
		return leases(t, svc, pawl.ClaimRequest{WorkerID: worker, Types: []string{"ocr"}, LeaseSeconds: seconds}, 1)[0]
	}
	if name != "queue" { // another key's dead worker is not the one that holds the slot
		create("b")
		claim("other", 100)
	}
	longest := "dead"
	if name != "order" {
		create("a")
		longest = "slow"
		claim(longest, 3600) // its heartbeats may be minutes apart
		p.Advance(10 * time.Second)
	}
	create("a")
	dead := claim("dead", 100)
	last := create("a")

	p.Advance(20 * time.Second)
	why := ask(last)
	if h := why.Holder; h == nil || h.WorkerID != longest || !strings.Contains(why.Detail, "Worker "+longest+" holds it") {
		t.Errorf("while the workers live: %+v, %+v", why, h)
	}
	advice := "If " + longest + " hangs, end its lease: `pawl item revoke-lease " + why.Holder.ItemID + "`."
	if name != "order" && !strings.HasSuffix(why.Detail, advice) {
		t.Errorf("while the workers live: %s, want %s", why.Detail, advice)
	}
	p.Advance(30 * time.Second)
	why = ask(last)
	if why.Holder == nil || *why.Holder != (pawl.Holder{WorkerID: "dead", ItemID: dead.ID, SilentSeconds: 50}) {
		t.Errorf("holder %+v, want dead, silent for 50 s", why.Holder)
	}
	if why.Command != "pawl item revoke-lease "+dead.ID+" --attempt 1" || strings.Contains(why.Detail, "limit lets") {
		t.Errorf("the advice is %s: %s", why.Command, why.Detail)
	}
	if own := ask(dead.ID).Holder; own == nil || *own != *why.Holder {
		t.Errorf("the held item's holder is %+v", own)
	}
	p.Advance(time.Minute)
	if why = ask(last); why.Command != "pawl sweep" {
		t.Errorf("when the lease is over, the advice is %s", why.Command)
	}
}

// An item that waits for a budget names who has reserved of it, and a stalled one is the cure.
func TestWhyNamesWhoHasReservedOfABudget(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: 100, OnExhausted: pawl.ExhaustedSuspend}))
		var held []pawl.Lease
		for _, worker := range []string{"dead", "alive", "waits"} {
			need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
			held = append(held, leases(t, p.Engine, pawl.ClaimRequest{WorkerID: worker, Types: []string{"a"}, LeaseSeconds: 3600}, 1)...)
		}
		for _, l := range held[:2] {
			need[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 40, "k")))
		}
		_, err := p.Engine.ReserveBudget(ctx, "b", reserveOf(held[2], 60, "k"))
		var refusal *pawl.Error
		if !errors.As(err, &refusal) || refusal.Exhausted == nil {
			t.Fatal(err)
		}
		need[pawl.Moved](t)(first(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: held[2].Fence(), Signal: pawl.BudgetSignal,
			Key: refusal.Exhausted.SignalKey}})))
		why := need[pawl.Why](t)(p.Engine.Why(ctx, held[2].ID))
		if why.Holder == nil || why.Holder.WorkerID != "dead" || !strings.Contains(why.Command, "budget set") {
			t.Errorf("while all work: %+v, %+v", why, why.Holder)
		}
		p.Advance(50 * time.Minute)
		need[pawl.Beat](t)(first(p.Engine.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: held[1].Fence()}})))
		why = need[pawl.Why](t)(p.Engine.Why(ctx, held[2].ID))
		want := pawl.Holder{WorkerID: "dead", ItemID: held[0].ID, SilentSeconds: 3000}
		if why.Holder == nil || *why.Holder != want || !strings.Contains(why.Command, "revoke-lease") ||
			!strings.Contains(why.Command, held[0].ID) || why.Reason != pawl.BlockedByBudget {
			t.Errorf("%+v, %+v, want %+v", why, why.Holder, want)
		}
		need[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: 101, OnExhausted: pawl.ExhaustedSuspend}))
		if why := need[pawl.Why](t)(p.Engine.Why(ctx, held[2].ID)); why.Holder != nil {
			t.Errorf("of a queued item: %+v", why)
		}
	})
}
