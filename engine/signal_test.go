package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// A signal wakes the items that wait for it, and none that waits for another one by the time it is
// found. The sender waits for a row that another transaction locks.
func TestASignalLeavesItemsThatWaitForAnother(t *testing.T) {
	p, svc := onPostgres(t)
	ctx := t.Context()
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Items: items(2)}))
	suspend := func(l pawl.Lease, signal string, until *time.Time) {
		t.Helper()
		need[pawl.Moved](t)(first(svc[1].Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: signal, Until: until}})))
	}
	ls := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 2)
	slices.SortFunc(ls, func(a, b pawl.Lease) int { return strings.Compare(a.ID, b.ID) })
	soon := p.Now().Add(time.Minute)
	suspend(ls[0], "go", nil)
	suspend(ls[1], "go", &soon)
	g := newGate(t, p)
	g.close("SELECT FROM waiting WHERE item_id = id($1) FOR UPDATE", ls[0].ID)
	sent := started(func() error { _, err := pawl.Signal(ctx, p.Engine, "go", "", nil); return err })
	g.waiting(1)
	p.Advance(2 * time.Minute)
	need[pawl.SweepStats](t)(svc[1].(*engine.Engine).Sweep(ctx))
	suspend(leases(t, svc[1], pawl.ClaimRequest{WorkerID: "w", ItemID: ls[1].ID}, 1)[0], "other", nil)
	g.open()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for i, want := range []pawl.ItemState{pawl.ItemQueued, pawl.ItemWaiting} {
		if it := need[pawl.Item](t)(p.Engine.GetItem(ctx, ls[i].ID)); it.State != want {
			t.Errorf("item %d is %s, not %s", i, it.State, want)
		}
	}
}
