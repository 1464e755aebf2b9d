package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A create that runs while another call reads the registry waits for that read. It does
// not go on without the rules of its type.
func TestCreatesAtOnceHaveTheRulesOfTheirType(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.TypeRef](t)(first(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "a", Acceptance: true}})))
		for n := range times(10, 200) {
			e := p.Another(engine.Options{})
			var begin, done sync.WaitGroup
			begin.Add(1)
			for range 8 {
				done.Go(func() {
					begin.Wait()
					task, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"})
					if err != nil || task.TypeVersion != 1 {
						t.Errorf("engine %d: the task has version %d of its type, %v", n, task.TypeVersion, err)
					}
				})
			}
			begin.Done()
			done.Wait()
			if err := e.Close(); err != nil {
				t.Error(fmt.Errorf("close: %w", err))
			}
		}
	})
}

func TestRegisteredTypesOnly(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		older := need[pawl.Task](t)(
			pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "other", Items: []pawl.NewItem{{Key: "a"}, {Key: "b"}}}))
		e := p.Another(engine.Options{RegisteredTypesOnly: true, Types: []pawl.Type{{Name: "a"}, {Name: "b"}}})
		for _, c := range []struct {
			task    pawl.NewTask
			refused string
		}{
			{pawl.NewTask{Type: "a"}, ""},
			{pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Type: "a"}, {Type: "b"}, {}}}, ""},
			{pawl.NewTask{Type: "other"}, "/type"},
			{pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {Type: "other"}}}, "/items/1/type"},
		} {
			_, err := pawl.Create(t.Context(), e, c.task)
			checkRefused(t, err, c.refused)
		}
		for _, item := range []pawl.NewItem{{}, {Type: "other"}, {Type: "b"}} { // an older task still takes items
			_, err := first(e.AddItems(t.Context(), []pawl.AddItems{{TaskID: older.ID, Items: []pawl.NewItem{item}}}))
			checkRefused(t, err, "")
		}
		_, err := first(e.AddItems(t.Context(), []pawl.AddItems{{TaskID: older.ID, Items: []pawl.NewItem{{Type: "new"}}}}))
		checkRefused(t, err, "/items/0/type")
		_, err = first(e.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: older.ID}}))
		checkRefused(t, err, "/type")
	})
}

// checkRefused checks that the error is about one field, or that there is none.
func checkRefused(t *testing.T, err error, pointer string) {
	t.Helper()
	var e *pawl.Error
	if errors.As(err, &e) && len(e.Fields) == 1 && e.Fields[0].Pointer == pointer {
		return
	}
	if err != nil || pointer != "" {
		t.Errorf("%v, want a refusal of %q", err, pointer)
	}
}

// A change of the registry that commits during a read of it in the same process is not hidden by
// what the read has found.
func TestATypeIsRegisteredWhileTheRegistryIsRead(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.TypeRef](t)(first(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "other"}})))
		var e *engine.Engine
		var put atomic.Bool
		e = p.Another(engine.Options{Statement: func(query string) {
			if strings.Contains(query, "MAX(t.version)") && put.CompareAndSwap(true, false) { // the snapshot of the read has begun
				need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "strict", PayloadSchema: []byte(`{"type":"object"}`)}})))
			}
		}})
		put.Store(true)
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
		if put.Load() {
			t.Fatal("the registry was not read")
		}
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "strict", Payload: []byte(`1`)}); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("a payload that the schema refuses: %v", err)
		}
	})
}

// A version that a database has lost and that was registered anew is the new one, also where the lost one was used.
func TestALostVersionOfATypeIsForgotten(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		put := func(schema string) {
			rs := need[[]pawl.Result[pawl.TypeRef]](t)(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "a", InputSchema: json.RawMessage(schema)}}))
			ok(t, rs[0].Err)
		}
		create := func() error {
			_, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`)})
			return err
		}
		put(`{"type":"integer"}`)
		ok(t, create())
		ok(t, p.Exec("DELETE FROM pawl.types"))
		p.Advance(time.Second)
		put(`{"type":"string"}`)
		if err := create(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("it has the rules of the version that was lost: %v", err)
		}
	})
}

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
		b.AgeTypes()
		need[pawl.SweepStats](t)(b.Sweep(ctx))
		if got := need[pawl.Task](t)(b.GetTask(ctx, task.ID)); got.State != pawl.TaskFailed {
			t.Errorf("the task is %s", got.State)
		}
	})
}
