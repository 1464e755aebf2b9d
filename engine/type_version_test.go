package engine_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A task keeps its version of a type: its back-off counts also when no type is registered any more.
func TestTheBackoffOfARemovedTypeStays(t *testing.T) {
	withType(t, `{"name":"report","backoff":{"base_seconds":1000}}`, pawl.Hooks{}, func(o typeFixture) {
		_, ls := o.task(1)
		o.OK(second(first(o.Engine.RemoveTypes(o.Context(), []string{"report"}))))
		m := need[pawl.Moved](o.T)(first(o.Engine.Fail(o.Context(), []pawl.FailCall{{Fence: ls[0].Fence(), Error: pawl.Failure{Message: "no"}}})))
		if it := o.item(m.ID, pawl.ItemScheduled); it.RunAt == nil || it.RunAt.Before(o.Now().Add(5*time.Minute)) {
			o.Errorf("it is tried again at %v", it.RunAt)
		}
	})
}

// A task keeps the lease seconds of a type that is removed, with those of its plan.
func TestTheLeaseOfARemovedTypeStays(t *testing.T) {
	withType(t, `{"name":"report","lease_seconds":3600,"plan":{"mode":"item","lease_seconds":1800}}`, pawl.Hooks{}, func(o typeFixture) {
		need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Payload: []byte(`{}`)}))
		o.OK(second(first(o.Engine.RemoveTypes(o.Context(), []string{"report"}))))
		plan := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"report.plan"}}, 1)[0]
		need[pawl.Moved](o.T)(first(o.Engine.Complete(o.Context(), []pawl.CompleteCall{{Fence: plan.Fence(), Result: []byte(`[{"input":1}]`)}})))
		item := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		if plan.LeaseSeconds != 1800 || item.LeaseSeconds != 3600 {
			o.Errorf("leases of %d and %d seconds", plan.LeaseSeconds, item.LeaseSeconds)
		}
	})
}

// A claim that names no lease gives each item that of the version that its task has: by type, from a queue with limits, and
// by task.
func TestAnItemHasTheLeaseOfItsVersion(t *testing.T) {
	withType(t, `{"name":"report","lease_seconds":3600,"plan":{"mode":"item","lease_seconds":1800}}`, pawl.Hooks{}, func(o typeFixture) {
		ctx, n := o.Context(), pawl.NewTask{Type: "report", Payload: []byte(`{}`), StartToCloseSeconds: 3000}
		older := o.Create(n)
		newer := pawl.Type{Name: "report", LeaseSeconds: 60, Plan: pawl.Plan{Mode: pawl.PlanItem}}
		need[pawl.TypeRef](o.T)(first(o.Engine.PutTypes(ctx, []pawl.Type{newer})))
		o.Create(n)
		claim := func(n int, req pawl.ClaimRequest, seconds int) []pawl.Lease {
			o.Helper()
			req.WorkerID = "w"
			ls := leases(o.T, o.Engine, req, n)
			for _, l := range ls {
				want := 60
				if l.TaskID == older.ID {
					want = seconds
				}
				took, it := l.LeaseExpiresAt.Sub(l.ServerTime), o.Item(l.ID)
				if l.LeaseSeconds != want || took != time.Duration(min(want, 3000))*time.Second {
					o.Errorf("a lease of %d seconds, which ends after %v; want %d", l.LeaseSeconds, took, want)
				}
				if it.LeaseSeconds != l.LeaseSeconds || !it.LeaseExpiresAt.Equal(l.LeaseExpiresAt) {
					o.Errorf("the lease of the item: %d seconds, until %v", it.LeaseSeconds, it.LeaseExpiresAt)
				}
			}
			return ls
		}
		release := func(ls []pawl.Lease) {
			for _, l := range ls {
				need[pawl.Moved](o.T)(pawl.Release(ctx, o.Engine, l.Fence()))
			}
		}
		for _, plan := range claim(2, pawl.ClaimRequest{Types: []string{"report.plan"}}, 1800) {
			o.Complete(plan, `[{"input":1},{"input":2},{"input":3}]`)
		}
		release(claim(6, pawl.ClaimRequest{}, 3600))
		release(claim(3, pawl.ClaimRequest{TaskID: older.ID}, 3600))
		need[pawl.Queue](o.T)(o.Engine.SetQueue(ctx, "report", pawl.QueuePatch(`{"concurrency":6}`)))
		release(claim(6, pawl.ClaimRequest{}, 3600))
		if l := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 7}, 1)[0]; l.LeaseSeconds != 7 {
			o.Errorf("the lease that the claim names: %d seconds", l.LeaseSeconds)
		}
	})
}

// A server that knew of no types cancels what a type says that was registered since.
func TestAServerThatKnewNoTypesCancelsTheRest(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, b := t.Context(), p.Another(engine.Options{})
		need[pawl.Task](t)(pawl.Create(ctx, b, pawl.NewTask{Type: "other"}))
		need[pawl.TypeRef](t)(first(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "a", OnItemFailure: pawl.FailureCancel, MaxAttempts: 1}})))
		task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Items: items(2)}))
		leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, LeaseSeconds: 60}, 1)
		p.Advance(2 * time.Minute)
		until(t, "the task has not failed", func() bool { // b learns of the type within a second
			need[pawl.SweepStats](t)(b.Sweep(ctx))
			return need[pawl.Task](t)(b.GetTask(ctx, task.ID)).State == pawl.TaskFailed
		})
	})
}
