package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A fork whose rows are written in parts, and one of an archive, are in the round of their checkpoint too.
func TestALargeForkIsInTheRoundOfItsCheckpoint(t *testing.T) {
	withType(t, strictReport, pawl.Hooks{}, func(o typeFixture) {
		task, ls := o.task(2)
		l, why := ls[0], []pawl.Complaint{{Code: "thin", Message: "thin"}}
		o.submit(ls[1], `{"title":"b"}`)
		submit := func() {
			saved(t, o.Engine, l, "a", []byte(`1`))
			o.submit(l, `{"title":"a"}`)
			need[pawl.SweepStats](t)(o.Engine.Sweep(o.Context()))
		}
		reject := func(again bool) {
			need[pawl.Task](t)(first(o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{{TaskID: task.ID, Errors: why, AllowRework: again,
				ItemIDs: map[bool][]string{true: {l.ID}}[again]}})))
		}
		submit()
		reject(true)
		for done := 0; done < 2*store.CopyStep; done += 1000 {
			c := pawl.CheckpointAppend{TaskID: task.ID, Checkpoints: make([]pawl.AppendedCheckpoint, 1000)}
			for i := range c.Checkpoints {
				c.Checkpoints[i].NewCheckpoint = pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: fmt.Sprint(done + i), Snapshot: []byte(`1`)}
			}
			need[pawl.CheckpointsAppended](t)(first(o.Engine.AppendCheckpoints(o.Context(), []pawl.CheckpointAppend{c})))
		}
		l = leases(t, o.Engine, pawl.ClaimRequest{WorkerID: "w", ItemID: l.ID}, 1)[0]
		submit()
		newest := int64(2*store.CopyStep + 2)
		check := func(at int64, rework ...int) {
			t.Helper()
			fork := need[pawl.Task](t)(forked(o.Context(), o.Engine, task.ID, at))
			for i, l := range leases(t, o.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: fork.ID, Limit: 2}, 2) {
				if l.Rework != rework[i] || len(l.Reasons) != rework[i] {
					t.Errorf("item %d of a fork at %d: rework %d, reasons %v", i, at, l.Rework, l.Reasons)
				}
			}
		}
		check(newest, 1, 0)
		check(newest-1, 1, 0)
		reject(false)
		o.Advance(pawl.DefaultRetainTasks + time.Hour)
		for range 3 {
			need[pawl.SweepStats](t)(o.Engine.Sweep(o.Context()))
		}
		if _, err := o.Engine.GetTask(o.Context(), task.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Fatalf("the task is not archived: %v", err)
		}
		check(newest, 1, 0)
		check(0, 0, 0)
	})
}
