package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// The tests use two engines, so that their suspends do not form one group.
func TestASignalSentWhileItemsAreSuspendedIsNotLost(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [3]pawl.Service{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		for n := range times(40, 1000) {
			typ := fmt.Sprint("wait", n)
			need[pawl.Task](t)(
				pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: typ, Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
			held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 2)
			var wg sync.WaitGroup
			for i, l := range held {
				wg.Go(func() {
					if _, err := first(svcs[i].Suspend(context.Background(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: typ}})); err != nil {
						t.Errorf("suspend %d: %v", i, err)
					}
				})
			}
			wg.Go(func() {
				if _, err := pawl.Signal(context.Background(), svcs[2], "go", typ, nil); err != nil {
					t.Errorf("signal: %v", err)
				}
			})
			wg.Wait()
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 2) // both were queued
		}
	})
}

func TestARefusedSuspendLeavesNoSignal(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(
			pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
		held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 2}, 2)
		ghost := held[0].Fence()
		ghost.Attempt = 7
		rs := need[[]pawl.Result[pawl.Moved]](t)(
			p.Engine.Suspend(t.Context(), []pawl.SuspendCall{{Fence: ghost, Signal: "refused"}, {Fence: held[1].Fence(), Signal: "held"}}))
		if rs[0].Err == nil || rs[1].Err != nil {
			t.Fatalf("%v, %v", rs[0].Err, rs[1].Err)
		}
		var names []string
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
			names, err = store.Strings(ctx, tx, "SELECT name FROM pawl.signals")
			return err
		})
		if err != nil || len(names) != 1 || names[0] != "held" {
			t.Errorf("signals: %v, %v", names, err)
		}
	})
}

// A signal that is sent again while the old ones are removed stays.
func TestASignalThatIsSentAgainMeanwhileStays(t *testing.T) {
	p, _ := onPostgres(t)
	ctx, again, sent := t.Context(), sync.Once{}, false
	need[pawl.Signalled](t)(pawl.Signal(ctx, p.Engine, "go", "", nil))
	p.Advance(31 * 24 * time.Hour)
	sweeper := p.Another(engine.Options{Statement: func(query string) {
		if strings.Contains(query, "SELECT sent_at") { // the lock of the signal, which was found to be old
			again.Do(func() {
				need[pawl.Signalled](t)(pawl.Signal(ctx, p.Engine, "go", "", nil))
				sent = true
			})
		}
	}})
	need[pawl.SweepStats](t)(sweeper.Sweep(ctx))
	if !sent {
		t.Fatal("it was not sent between the look for old ones and the lock")
	}
	need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
	m := need[pawl.Moved](t)(first(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go"}})))
	if it := need[pawl.Item](t)(p.Engine.GetItem(ctx, m.ID)); it.State != pawl.ItemQueued {
		t.Errorf("the signal is gone: the item is %s", it.State)
	}
}

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
