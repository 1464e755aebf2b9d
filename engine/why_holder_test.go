package engine_test

import (
	"encoding/json"
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
