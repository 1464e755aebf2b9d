package engine_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A life of a task of one in batches of 100 allocates little memory: the ids, values and
// answers, but nothing else for each row. The test is not parallel, because it counts the
// allocations of the process.
func TestAllocationsOfALife(t *testing.T) {
	const batch, rounds = 100, 20
	// Without the race detector they are 13 and 90; SQLite has a statement for each row.
	for which, limit := range map[pawltest.Database]float64{pawltest.Postgres: 30, pawltest.SQLite: 130} {
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.Open(t, which)
			tasks := make([]pawl.NewTask, batch)
			for i := range tasks {
				tasks[i] = pawl.NewTask{Type: "count", Payload: []byte(`{"n":1}`)}
			}
			life := func() {
				need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(), tasks))
				got := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: batch}, batch)
				calls := make([]pawl.CompleteCall, batch)
				for i, l := range got {
					calls[i] = pawl.CompleteCall{Fence: l.Fence(), Result: []byte(`"ok"`)}
				}
				need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Complete(t.Context(), calls))
			}
			life() // connections and prepared statements
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				life()
			}
			runtime.ReadMemStats(&after)
			n := float64(after.Mallocs-before.Mallocs) / (batch * rounds)
			t.Logf("%.1f allocations and %d bytes a life", n, (after.TotalAlloc-before.TotalAlloc)/(batch*rounds))
			if n > limit {
				t.Errorf("%.1f allocations a life, at most %.0f wanted", n, limit)
			}
		})
	}
}

// The retention of tasks of one allocates little memory besides their archives: each segment is read into the memory of
// the one before. The test is not parallel, because it counts the allocations of the process.
func TestAllocationsOfARetirement(t *testing.T) {
	const n, limit = 3000, 15 << 10 // bytes a task; they are 11.3 KiB, and 19 or more if each segment has memory of its own
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			sweeps := pawl.DefaultSweepOptions()
			sweeps.RetainTasks = time.Microsecond
			p := pawltest.OpenReal(t, which, engine.Options{Sweep: &sweeps})
			payload := []byte(`{"to":"` + strings.Repeat("x", 191) + `"}`)
			for range n / 500 {
				tasks := make([]pawl.NewTask, 500)
				for i := range tasks {
					tasks[i] = pawl.NewTask{Type: "a", Payload: payload}
				}
				need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(), tasks))
				ends := make([]pawl.CompleteCall, 500)
				for i, l := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 500}, 500) {
					ends[i] = pawl.CompleteCall{Fence: l.Fence(), Result: []byte(`"ok"`)}
				}
				need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Complete(t.Context(), ends))
			}
			if err := p.Engine.Log(t.Context()); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for pruned := int64(0); pruned < n; {
				s := need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				if s.TasksPruned == 0 {
					t.Fatal("nothing is due")
				}
				pruned += s.TasksPruned
			}
			runtime.ReadMemStats(&after)
			bytes := (after.TotalAlloc - before.TotalAlloc) / n
			t.Logf("%d bytes and %.1f allocations a task", bytes, float64(after.Mallocs-before.Mallocs)/n)
			if bytes > limit {
				t.Errorf("%d bytes a task, at most %d wanted", bytes, limit)
			}
		})
	}
}
