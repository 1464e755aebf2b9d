//go:build unix

package engine_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Processes that carry out a bulk call are killed in the middle of it. The call goes on in the next
// one, changes all tasks, and leaves one event for each.
func TestABulkCallOutlivesTheProcessesThatCarryItOut(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			n, kills := times(3000, 30_000), times(2, 8)
			createMany(t, p, "many", n)
			bulk := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
			killed := 0
			for range kills {
				victim := start(t, p, "bulk")
				changed := bulkChanged(t, p, bulk.ID)
				for before := changed; changed == before; changed = bulkChanged(t, p, bulk.ID) {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(rand.N(50 * time.Millisecond))
				_ = victim.Process.Kill()
				for more := true; more; {
					_, more = victim.read(t)
				}
				_ = victim.Wait()
				if need[pawl.Task](t)(p.Engine.GetTask(t.Context(), bulk.ID)).State == pawl.TaskCompleted {
					break
				}
				killed++
				ok(t, p.Exec("UPDATE pawl.leases SET lease_expires_at = 1")) // those of the dead
			}
			if killed == 0 {
				t.Fatal("no process was killed in the middle")
			}
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			ok(t, p.Engine.RunBulks(t.Context()))
			if r := bulkResult(t, p, bulk.ID); r.Failed != 0 || r.Changed+r.Skipped != r.Matched || r.Changed > int64(n) {
				t.Errorf("%+v", r)
			}
			if it := need[pawl.Item](t)(p.Engine.GetItem(t.Context(), onlyItemOf(t, p, bulk.ID))); it.Attempt <= killed {
				t.Errorf("%d attempts after %d kills", it.Attempt, killed)
			}
			events := map[string]int{}
			for f := (pawl.EventFilter{Event: "cancelled", Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
				page := need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(t.Context(), f))
				for _, e := range page.Items {
					events[e.TaskID]++
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			for id, times := range events {
				if times != 1 {
					t.Errorf("task %s has %d events", id, times)
				}
			}
			if len(events) != n {
				t.Errorf("%d of %d tasks have an event", len(events), n)
			}
		})
	}
}

func onlyItemOf(t *testing.T, p *pawltest.Pawl, taskID string) string {
	t.Helper()
	list := need[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(), pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: 1}}))
	return list.Items[0].ID
}

func bulkChanged(t *testing.T, p *pawltest.Pawl, id string) int64 {
	t.Helper()
	var state struct{ Changed, Skipped int64 }
	got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), id))
	if err := json.Unmarshal(got.Metadata, &state); err != nil {
		t.Fatal(err)
	}
	if got.State == pawl.TaskCompleted {
		return -1
	}
	return state.Changed + state.Skipped
}

// bulkUntilKilled expires the leases of dead processes, and carries out bulk calls.
func bulkUntilKilled(e *engine.Engine) error {
	for {
		if _, err := e.Sweep(context.Background()); err != nil {
			return err
		}
	}
}
