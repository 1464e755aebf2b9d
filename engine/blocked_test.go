package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// waits returns what a task and one of its items wait for. It reads them alone and in
// lists, which must agree.
func waits(ctx context.Context, t *testing.T, svc pawl.Service, task, item string) (ofTask, ofItem string) {
	t.Helper()
	write := func(b *pawl.Blocked) string {
		if b == nil {
			return "nothing"
		}
		out := b.Reason + ": " + b.Detail
		if b.Until != nil {
			out += " until " + b.Until.Format(time.TimeOnly)
		}
		return out
	}
	one := need[pawl.Task](t)(svc.GetTask(ctx, task))
	listed := need[pawl.List[pawl.Task]](t)(svc.ListTasks(ctx, pawl.TaskFilter{IDs: []string{task}})).Items[0]
	it := need[pawl.Item](t)(svc.GetItem(ctx, item))
	items := need[pawl.List[pawl.Item]](t)(svc.ListItems(ctx, pawl.ItemFilter{IDs: []string{item}})).Items[0]
	ofTask, ofItem = write(one.BlockedBy), write(it.BlockedBy)
	if write(listed.BlockedBy) != ofTask || write(items.BlockedBy) != ofItem {
		t.Errorf("read alone: %s, %s; in a list: %s, %s", ofTask, ofItem, write(listed.BlockedBy), write(items.BlockedBy))
	}
	return ofTask, ofItem
}

func TestBlockedBy(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, svc := t.Context(), p.Engine
		itemsOf := func(task string) []pawl.Item {
			return need[pawl.List[pawl.Item]](t)(svc.ListItems(ctx, pawl.ItemFilter{TaskID: task})).Items
		}
		want := func(when, task, item, ofTask, ofItem string) {
			t.Helper()
			if a, b := waits(ctx, t, svc, task, item); a != ofTask || b != ofItem {
				t.Errorf("%s: the task waits for %q, its item for %q; want %q and %q", when, a, b, ofTask, ofItem)
			}
		}
		live := func(types ...string) {
			t.Helper()
			if err := svc.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: "w", Types: types}); err != nil {
				t.Fatal(err)
			}
		}
		at := func(d time.Duration) string { return p.Now().Add(d).Format(time.TimeOnly) }

		alone := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "ocr"}))
		only := itemsOf(alone.ID)[0].ID
		want("without any worker", alone.ID, only, "no_worker: no live worker takes ocr", "no_worker: no live worker takes ocr")
		live("mail")
		want("with a worker of another type", alone.ID, only, "no_worker: no live worker takes ocr", "no_worker: no live worker takes ocr")
		live("mail", "ocr")
		want("with a worker", alone.ID, only, "nothing", "nothing")
		p.Advance(3 * time.Minute)
		want("after the worker went away", alone.ID, only, "no_worker: no live worker takes ocr", "no_worker: no live worker takes ocr")
		live()
		want("with a worker of any type", alone.ID, only, "nothing", "nothing")

		l := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 3600}, 1)[0]
		want("claimed", alone.ID, only, "nothing", "nothing")
		p.Advance(10 * time.Minute)
		second := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "ocr"}))
		want("a worker that holds a lease is live", second.ID, itemsOf(second.ID)[0].ID, "nothing", "nothing")

		until := p.Now().Add(5 * time.Minute)
		need[pawl.Moved](t)(first(svc.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "paid", Key: "order-7", Until: &until}})))
		paid := "signal: paid, key order-7 until " + at(5*time.Minute)
		want("suspended for a signal", alone.ID, only, paid, paid)

		runAt := p.Now().Add(time.Hour)
		later := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "ocr", RunAt: &runAt}))
		if later.BlockedBy == nil || later.BlockedBy.Reason != pawl.BlockedByTime {
			t.Errorf("the answer of a create for later says that it waits for %+v", later.BlockedBy)
		}
		want("scheduled", later.ID, itemsOf(later.ID)[0].ID, "scheduled: run_at until "+at(time.Hour), "scheduled: run_at until "+at(time.Hour))

		live()
		many := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "ocr", Priority: 5, Items: []pawl.NewItem{
			{Key: "a", Input: json.RawMessage(`1`)}, {Key: "b", Input: json.RawMessage(`2`)},
			{Key: "c", Input: json.RawMessage(`3`), After: []string{"a", "b"}, Type: "rare"}}}))
		its := itemsOf(many.ID)
		want("of many", many.ID, its[2].ID, "nothing", fmt.Sprintf("dependency: a (%s) and 1 more", its[0].ID))
		if got := need[pawl.Task](t)(svc.GetTask(ctx, many.ID)).ItemsPending; got == nil || *got != (pawl.Pending{Queued: 2, Waiting: 1}) {
			t.Errorf("of three items, two queued, it counts %+v", got)
		}
		held := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID, Limit: 2}, 2)
		want("of many, at work", many.ID, its[2].ID, "nothing", fmt.Sprintf("dependency: a (%s) and 1 more", its[0].ID))
		need[pawl.Moved](t)(first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: held[0].Fence()}})))
		need[pawl.Moved](t)(first(svc.Fail(ctx, []pawl.FailCall{{Fence: held[1].Fence(), Error: pawl.Failure{Message: "no"}}})))
		b := need[pawl.Item](t)(svc.GetItem(ctx, its[1].ID))
		backoff := "scheduled: back-off after failure 1 until " + b.RunAt.Format(time.TimeOnly)
		if a, ofItem := waits(ctx, t, svc, many.ID, b.ID); a != "scheduled: "+b.ID+backoff[len("scheduled"):] || ofItem != backoff {
			t.Errorf("in back-off the task waits for %q, the item for %q", a, ofItem)
		}
		want("of many, one done", many.ID, its[2].ID, "scheduled: "+b.ID+backoff[len("scheduled"):], fmt.Sprintf("dependency: b (%s)", b.ID))
		p.Advance(5 * time.Minute)
		need[pawl.SweepStats](t)(svc.Sweep(ctx))
		live("ocr")
		want("due again", many.ID, b.ID, "nothing", "nothing")

		st := need[pawl.Stats](t)(svc.Stats(ctx))
		if st.TasksPending != (pawl.Pending{Queued: 2, Scheduled: 1}) || st.TasksByState[pawl.TaskQueued] != 3 {
			t.Errorf("the queued tasks are counted as %+v of %d", st.TasksPending, st.TasksByState[pawl.TaskQueued])
		}
	})
}

// A task whose plan or apply item is not claimed says so.
func TestBlockedAside(t *testing.T) {
	for _, c := range []struct{ kind, def string }{
		{pawl.KindPlan, `{"name":"report","plan":{"mode":"item"}}`},
		{pawl.KindApply, `{"name":"report","acceptance":true,"apply":{"mode":"item"}}`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			withType(t, c.def, pawl.Hooks{}, func(o typeFixture) {
				ctx := o.Context()
				task := need[pawl.Task](o.T)(pawl.Create(ctx, o.Engine, pawl.NewTask{Type: "report", Payload: []byte(`1`)}))
				if c.kind == pawl.KindApply {
					o.submit(leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0], `1`)
				}
				for _, live := range []bool{false, true} {
					types := []string{"report"}
					if live {
						types = append(types, "report."+c.kind)
					}
					o.OK(o.Engine.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: "w", Types: types}))
					got := need[pawl.Task](o.T)(o.Engine.GetTask(ctx, task.ID)).BlockedBy
					if live != (got == nil) || got != nil && got.Detail != "no live worker takes report."+c.kind {
						o.Errorf("with a worker of %v the task waits for %+v", types, got)
					}
				}
			})
		})
	}
}
