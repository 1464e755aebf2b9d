package engine_test

import (
	"runtime"
	"testing"

	"github.com/pawl-work/pawl"
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
