package engine_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// The order of creation holds from the call that sets it: for items that are there already, and
// for one that a process creates that does not know the order yet.
func TestOrderHoldsFromItsStart(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			ctx, other := t.Context(), p.Another(engine.Options{})
			const keys = 3
			items := times(400, 1200)
			tasks := make([]pawl.NewTask, items)
			for i := range tasks {
				tasks[i] = limitedTask("o", i%keys)
				tasks[i].Priority = i % 5 // newer items have better ranks
			}
			for part := range items / 100 {
				need[[]pawl.Result[pawl.Task]](t)(other.CreateTasks(ctx, tasks[part*100:][:100]))
			}
			last := map[string]string{}
			claim := func() (n int) {
				got := need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"o"}, Limit: keys}))
				for _, l := range got {
					key := string(need[pawl.Task](t)(p.Engine.GetTask(ctx, l.TaskID)).Payload)
					if l.ID < last[key] {
						t.Errorf("key %s: %s was claimed after %s", key, l.ID, last[key])
					}
					last[key] = l.ID
					need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, l.Fence(), nil))
				}
				return len(got)
			}
			need[pawl.Task](t)(pawl.Create(ctx, other, limitedTask("o", 0))) // what it knows now is fresh
			var set sync.WaitGroup
			set.Go(func() {
				need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "o", pawl.QueuePatch(`{"per_key":{"pointer":"/t","order":"created"}}`)))
			})
			for q := (pawl.Queue{}); q.PerKey == nil; {
				q = need[pawl.Queue](t)(p.Engine.GetQueue(ctx, "o"))
			}
			need[pawl.Task](t)(pawl.Create(ctx, other, limitedTask("o", 7)))
			need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask("o", 7)))
			n := 0
			for tries := 0; n < items+3 && tries < items; tries++ {
				n += claim()
			}
			set.Wait()
			if n != items+3 {
				t.Errorf("%d of %d items were claimed", n, items+3)
			}
		})
	}
}

// A claim that names a task takes its items in claim order, whether their queues have limits or not.
func TestAClaimOfATaskKeepsPrioritiesAmongItsQueues(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		for _, typ := range []string{"a", "b", "c"} {
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, typ, pawl.QueuePatch(`{"concurrency":100}`)))
		}
		order := []string{"c", "free", "a", "b"}
		task := pawl.NewTask{Type: "free"}
		for i, typ := range order {
			task.Items = append(task.Items, pawl.NewItem{Type: typ, Priority: new(len(order) - i)})
		}
		for range 8 { // limited queues had a random order
			made := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, task))
			var got []string
			for range order {
				got = append(got, leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: made.ID}, 1)[0].Type)
			}
			if !slices.Equal(got, order) {
				t.Fatalf("claimed %v, want %v", got, order)
			}
		}
	})
}
