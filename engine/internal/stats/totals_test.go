package stats_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Statistics by the totals are those by counting rows: before anything has counted events, after
// that, with events that have no position yet, and after an upgrade.
func TestStatisticsByTotalsAreExact(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, svc := t.Context(), p.Engine
		inEveryState(t, p)
		stats := func() pawl.Stats {
			s := need[pawl.Stats](t)(svc.Stats(ctx))
			s.Sweeps = pawl.SweepTotals{}
			return s
		}
		same := func(when string, want pawl.Stats) {
			t.Helper()
			if got := stats(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%+v, want\n%+v", when, got, want)
			}
		}
		counted := stats()
		for _, state := range []pawl.TaskState{"queued", "checked_out", "in_progress", "completed", "failed", "cancelled"} {
			if counted.TasksByState[state] == 0 {
				t.Errorf("no task is %s: %+v", state, counted.TasksByState)
			}
		}
		if counted.TasksPending.Scheduled < 2 || counted.TasksPending.Waiting == 0 || counted.TasksPending.Queued == 0 {
			t.Errorf("the queued tasks are %+v", counted.TasksPending)
		}
		ok(t, svc.Feed().Log(ctx))
		same("by the totals", counted)

		gone := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a"}))
		if got := stats(); got.ItemsByState["queued"] != counted.ItemsByState["queued"]+1 || got.Events != counted.Events+1 {
			t.Errorf("with an event without a position: %+v", got)
		}
		need[string](t)(first(svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: gone.ID, Force: true}})))
		counted.Events++ // deleted
		same("after the deletion of a task that was not counted", counted)
		ok(t, svc.Feed().Log(ctx))
		same("after the deletion was counted", counted)
		gone = need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a"}))
		ok(t, svc.Feed().Log(ctx))
		need[string](t)(first(svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: gone.ID, Force: true}})))
		counted.Events++
		same("after the deletion of a task that was counted", counted)
		ok(t, svc.Feed().Log(ctx))
		same("after that was counted", counted)
		gone = need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a"}))
		ok(t, svc.Feed().Log(ctx))
		need[string](t)(first(svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: gone.ID, Force: true}})))
		ok(t, p.Exec("UPDATE pawl.log_removals SET counts = NULL WHERE leaf IS NULL"))
		counted.Events++
		same("after a deletion by an older program", counted)
		ok(t, svc.Feed().Log(ctx))
		ok(t, svc.Feed().CountOld(ctx, math.MaxInt))
		same("after all was counted anew", counted)

		ok(t, p.Exec("UPDATE pawl.totals SET events = events + 1 WHERE type = 'queued'"))
		if got := need[[]engine.Breach](t)(svc.Check(ctx)); len(got) == 0 || got[0].Rule != "totals" {
			t.Errorf("of wrong totals the doctor finds %+v", got)
		}

		ok(t, p.Exec(`UPDATE pawl.relay_cursors SET detail = replace(detail, '"counting"', '"was"') WHERE sink = 'feed'`))
		same("counted row by row, as before an upgrade", counted)
		need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "later"}))
		ok(t, svc.Feed().Log(ctx))
		counted = stats()
		ok(t, svc.Feed().CountOld(ctx, math.MaxInt))
		same("after the old events were counted", counted)
	})
}

// While the feed is far behind, the totals are those of its newest position: that is no breach.
func TestDoctorWaitsForTheTotals(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenNew(t, which, engine.Options{})
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
			ok(t, p.Engine.Feed().Log(t.Context()))
			for range 3 {
				need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a",
					Items: slices.Repeat([]pawl.NewItem{{Input: json.RawMessage(`1`)}}, 7000)}))
			}
			if got := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(got) > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// inEveryState makes tasks and items in many states.
func inEveryState(t *testing.T, p *pawltest.Pawl) {
	ctx, svc := t.Context(), p.Engine
	create := func(n pawl.NewTask) pawl.Task { return need[pawl.Task](t)(pawl.Create(ctx, svc, n)) }
	claim := func(typ string) pawl.Fence {
		return leases(t, svc, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, LeaseSeconds: 3600}, 1)[0].Fence()
	}
	later := p.Now().Add(time.Hour)
	items := []pawl.NewItem{{Key: "a", Input: json.RawMessage(`1`)}, {Key: "b", Input: json.RawMessage(`2`), After: []string{"a"}}}
	create(pawl.NewTask{Type: "queued"})
	create(pawl.NewTask{Type: "scheduled", RunAt: &later})
	create(pawl.NewTask{Type: "scheduled many", Items: []pawl.NewItem{
		{RunAt: &later, Input: json.RawMessage(`1`)}, {RunAt: &later, Input: json.RawMessage(`2`)}}})
	create(pawl.NewTask{Type: "many", Items: items})
	create(pawl.NewTask{Type: "begun", Items: items})
	create(pawl.NewTask{Type: "out", Items: items})
	for _, typ := range []string{"one", "working", "done", "failed", "retried", "waiting"} {
		create(pawl.NewTask{Type: typ})
	}
	need[pawl.Moved](t)(pawl.Complete(ctx, svc, claim("begun"), nil))
	claim("out")
	claim("one")
	need[pawl.Beat](t)(first(svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: claim("working")}})))
	need[pawl.Moved](t)(pawl.Complete(ctx, svc, claim("done"), nil))
	need[pawl.Moved](t)(pawl.Fail(ctx, svc, claim("failed"), pawl.Permanent(errors.New("no"))))
	need[pawl.Moved](t)(pawl.Fail(ctx, svc, claim("retried"), errors.New("again")))
	need[pawl.Moved](t)(first(svc.Suspend(ctx, []pawl.SuspendCall{{Fence: claim("waiting"), Signal: "paid"}})))
	cancelled := create(pawl.NewTask{Type: "cancelled"})
	need[pawl.Task](t)(first(svc.CancelTasks(ctx, []pawl.TaskCall{{TaskID: cancelled.ID}})))
}

// Numbers that belong to no event are not waited for: a transaction that failed has drawn them, and
// another one that runs keeps them in a gap.
func TestStatisticsCountEventsBesideALargeGap(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if !p.Engine.DB().Dialect().ParallelWrites {
			return // SQLite gives numbers in the order of commit: it has no gaps
		}
		ctx, svc := t.Context(), p.Engine
		begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
				_, err := tx.Exec(ctx, "SELECT nextval('pawl.task_events_id_seq')")
				close(begun)
				<-end
				return err
			})
		}()
		<-begun
		ok(t, p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "SELECT setval('pawl.task_events_id_seq', nextval('pawl.task_events_id_seq') + 30000)")
			return err
		}))
		ok(t, svc.Feed().Log(ctx))
		need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a"}))
		_, err := svc.Feed().Head(ctx)
		ok(t, err)
		need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a"}))
		if s := need[pawl.Stats](t)(svc.Stats(ctx)); s.ItemsByState["queued"] != 2 || s.Events != 2 {
			t.Errorf("%d items are queued, %d events; want 2 and 2", s.ItemsByState["queued"], s.Events)
		}
		close(end)
		ok(t, <-ended)
	})
}
