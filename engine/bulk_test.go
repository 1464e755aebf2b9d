package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

func bulkOf(typ, verb string) pawl.BulkCall {
	return pawl.BulkCall{Verb: verb, Filter: pawl.BulkFilter{Type: pawl.Texts{typ}}}
}

func bulkResult(t *testing.T, p *pawltest.Pawl, id string) (out pawl.BulkResult) {
	t.Helper()
	r := need[pawl.TaskResult](t)(p.Engine.TaskResult(t.Context(), id))
	if err := json.Unmarshal(r.Payload, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func createMany(t *testing.T, p *pawltest.Pawl, typ string, n int) {
	t.Helper()
	for n > 0 {
		some := make([]pawl.NewTask, min(n, 1000))
		for i := range some {
			some[i].Type = typ
		}
		need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(), some))
		n -= len(some)
	}
}

// A bulk call over many tasks leaves room for others: calls of others go on beside it, and
// none of them takes long.
func TestABulkCallLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		n := 3000
		if os.Getenv("PAWL_TORTURE") != "" {
			n = 20_000
		}
		createMany(t, p, "many", n)
		createMany(t, p, "other", 500)
		task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		var longest time.Duration
		calls := 0
		others.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				leases, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"other"}, Limit: 1})
				if err == nil && len(leases) == 1 {
					_, err = p.Engine.Release(t.Context(), []pawl.ReleaseCall{{Fence: leases[0].Fence()}})
				}
				if err != nil {
					t.Error(err)
					return
				}
				longest, calls = max(longest, time.Since(began)), calls+1
			}
		})
		began := time.Now()
		if err := p.Engine.RunBulks(t.Context()); err != nil {
			t.Error(err)
		}
		took := time.Since(began)
		stop()
		others.Wait()
		r := bulkResult(t, p, task.ID)
		if r.Matched != int64(n) || r.Changed != int64(n) {
			t.Errorf("%+v", r)
		}
		t.Logf("%d tasks in %s; %d claims and releases beside it, the longest %s", n, took, calls, longest)
		if longest > 5*time.Second || calls < 10 {
			t.Errorf("%d claims, the longest took %s", calls, longest)
		}
	})
}

// A cancel of the bulk task stops it between two steps, and what it has done stays.
func TestABulkCallStopsWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 3000
		createMany(t, p, "many", n)
		task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
		var run sync.WaitGroup
		run.Go(func() {
			if err := p.Engine.RunBulks(t.Context()); err != nil {
				t.Error(err)
			}
		})
		cancelled := func() int64 {
			return need[int64](t)(p.Engine.CountBulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{
				Type: pawl.Texts{"many"}, State: pawl.Texts{"cancelled"}}}))
		}
		for cancelled() == 0 {
			time.Sleep(time.Millisecond)
		}
		rs := need[[]pawl.Result[pawl.Task]](t)(p.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}}))
		if rs[0].Err != nil {
			t.Fatal(rs[0].Err)
		}
		run.Wait()
		after := cancelled()
		if after == 0 || after == n {
			t.Errorf("%d of %d tasks are cancelled", after, n)
		}
		if err := p.Engine.RunBulks(t.Context()); err != nil || cancelled() != after {
			t.Errorf("%d more were cancelled later, %v", cancelled()-after, err)
		}
		var state struct{ Changed int64 }
		got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), task.ID))
		if err := json.Unmarshal(got.Metadata, &state); err != nil || got.State != pawl.TaskCancelled || state.Changed > after {
			t.Errorf("%s %s, %v", got.State, got.Metadata, err)
		}
	})
}

// A bulk call whose engine stops in the middle is released and goes on in another engine.
func TestABulkCallGoesOnInAnotherEngine(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 2000
		createMany(t, p, "many", n)
		task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Engine.RunBulks(ctx) })
		for {
			got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), task.ID))
			var state struct{ Changed int64 }
			if err := json.Unmarshal(got.Metadata, &state); err != nil || got.State == pawl.TaskCompleted {
				t.Fatal(err, got.State)
			}
			if state.Changed > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		stop()
		run.Wait()
		if err := p.Engine.RunBulks(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := bulkResult(t, p, task.ID)
		if r.Matched < n || r.Matched > n+pawl.BulkStep || r.Changed+r.Skipped != r.Matched || r.Failed != 0 {
			t.Errorf("%+v", r)
		}
		events := need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID, Asc: true}))
		attempts := map[int]bool{}
		for _, e := range events.Items {
			attempts[e.Attempt] = true
		}
		if !attempts[2] {
			t.Errorf("there was no second attempt: %d events", len(events.Items))
		}
	})
}
