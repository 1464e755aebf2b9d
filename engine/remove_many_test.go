package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Retention removes many tasks in few transactions. What waits for its place in the log is taken
// away from the totals all the same, and large tasks are removed apart.
func TestRetentionOfManyTasks(t *testing.T) {
	const large = 3
	small := times(400, 1200)
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Engine
		ends := func(n, items int) {
			for done := 0; done < n; {
				some := make([]pawl.NewTask, min(n-done, 500))
				for i := range some {
					some[i] = pawl.NewTask{Type: "a", Payload: []byte(`{"n":1}`)}
					if items > 1 {
						some[i] = pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, items)}
					}
				}
				need[[]pawl.Result[pawl.Task]](t)(e.CreateTasks(t.Context(), some))
				done += len(some)
			}
			for {
				ls := need[[]pawl.Lease](t)(e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 500}))
				if len(ls) == 0 {
					return
				}
				calls := make([]pawl.CompleteCall, len(ls))
				for i, l := range ls {
					calls[i] = pawl.CompleteCall{Fence: l.Fence(), Result: []byte(`1`)}
				}
				for _, r := range need[[]pawl.Result[pawl.Moved]](t)(e.Complete(t.Context(), calls)) {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
		}
		ends(small/2, 1)
		ends(large, 800)
		ends(small/2, 1)
		kept := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}))
		p.Advance(pawl.DefaultRetainTasks + time.Hour)
		pruned := int64(0)
		for range 20 {
			pruned += need[pawl.SweepStats](t)(e.Sweep(t.Context())).TasksPruned
			if pruned >= int64(small+large) {
				break
			}
		}
		s := need[pawl.Stats](t)(e.Stats(t.Context()))
		if pruned != int64(small+large) || s.TasksByState[pawl.TaskCompleted] != 0 || s.TasksByState[pawl.TaskQueued] != 1 ||
			s.ItemsByState[pawl.ItemCompleted] != 0 {
			t.Errorf("%d tasks were removed; %+v", pruned, s)
		}
		archives := need[pawl.List[pawl.Archive]](t)(e.ListArchives(t.Context(), pawl.Page{Limit: 10}))
		for _, a := range archives.Items {
			need[pawl.Task](t)(e.RestoreArchive(t.Context(), a.TaskID))
			got := need[pawl.Task](t)(e.GetTask(t.Context(), a.TaskID))
			if got.State != pawl.TaskCompleted {
				t.Errorf("%s is %s", got.ID, got.State)
			}
		}
		listed := map[string]bool{}
		for page := (pawl.Page{Limit: pawl.MaxPage}); ; {
			l := need[pawl.List[pawl.Archive]](t)(e.ListArchives(t.Context(), page))
			for _, a := range l.Items {
				listed[a.TaskID] = true
			}
			if page.Cursor = l.Next; l.Next == "" {
				break
			}
		}
		if len(listed) != small+large || len(archives.Items) != 10 {
			t.Errorf("%d archives are listed, %d first", len(listed), len(archives.Items))
		}
		need[pawl.Task](t)(e.GetTask(t.Context(), kept.ID))
	})
}

// Statistics are exact while the removals of more than a thousand tasks wait for the log.
func TestManyRemovalsThatWait(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		tasks := make([]pawl.NewTask, 600)
		for i := range tasks {
			tasks[i] = pawl.NewTask{Type: "a"}
		}
		var ids []string
		for range 2 {
			for _, r := range need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(), tasks)) {
				ids = append(ids, r.Value.ID)
			}
		}
		if err := p.Engine.Log(t.Context()); err != nil { // the totals have counted their events
			t.Fatal(err)
		}
		for some := range slices.Chunk(ids, 100) {
			if err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				if _, err := store.LockTasksLast(ctx, tx, some); err != nil {
					return err
				}
				return store.RemoveTasks(ctx, tx, some, 2000)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if s := need[pawl.Stats](t)(p.Engine.Stats(t.Context())); s.TasksByState[pawl.TaskQueued] != 0 || s.ItemsByState[pawl.ItemQueued] != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A bulk delete removes ended tasks together, each with its tombstone, and the others as a delete
// does.
func TestBulkDeleteOfManyTasks(t *testing.T) {
	const n = 120
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Engine
		var ids []string
		for i := range n {
			task := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a", Title: fmt.Sprint("task ", i)}))
			ids = append(ids, task.ID)
		}
		parent := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}))
		child := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a", ParentID: parent.ID}))
		call := need[pawl.Task](t)(e.Bulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkDelete, Force: true, Reason: "tidy",
			Filter: pawl.BulkFilter{Type: pawl.Texts{"a"}}}))
		if err := e.RunBulks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := bulkResult(t, p, call.ID); r.Failed != 0 || r.Changed < n+1 {
			t.Errorf("%+v", r)
		}
		for _, id := range append(ids, parent.ID, child.ID) {
			if _, err := e.GetTask(t.Context(), id); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("%s: %v", id, err)
			}
		}
		if got := queried(t, p, "SELECT COUNT(*) FROM pawl.tombstones"); got != n+2 {
			t.Errorf("%d tombstones", got)
		}
		events := need[pawl.List[pawl.Event]](t)(e.ListEvents(t.Context(), pawl.EventFilter{Event: "deleted", Page: pawl.Page{Limit: 500}}))
		if len(events.Items) != n+2 {
			t.Errorf("%d events", len(events.Items))
		}
		for _, ev := range events.Items {
			if ev.Message != "tidy" {
				t.Errorf("%+v", ev)
			}
		}
	})
}

// The rows of queued items are found by their keys when they leave the queue or are removed, although the planner
// takes ready for empty: not by a walk over all that is queued.
func TestQueuedRowsAreLookedUpWithOldStatistics(t *testing.T) {
	for name, find := range map[string]func(ctx context.Context, tx store.Tx, ids []string) error{
		"removed": func(ctx context.Context, tx store.Tx, ids []string) error {
			return store.RemoveTasks(ctx, tx, ids, 2000)
		},
		"taken": func(ctx context.Context, tx store.Tx, ids []string) error {
			items := make([]string, len(ids))
			for i, id := range ids {
				items[i] = "itm_" + strings.TrimPrefix(id, "tsk_")
			}
			_, err := store.Take(ctx, tx, items, []string{string(pawl.ItemQueued)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenNew(t, pawltest.Postgres, engine.Options{})
			ctx := t.Context()
			createMany(t, p, "ended", 500)
			need[pawl.Task](t)(p.Engine.Bulk(ctx, bulkOf("ended", pawl.BulkCancel)))
			ok(t, p.Engine.RunBulks(ctx))
			first := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "first"}))
			for _, table := range []string{"tasks", "items", "ready", "scheduled", "waiting", "leases", "parked_items", "finished_items"} {
				ok(t, p.Exec("ALTER TABLE pawl."+table+" SET (autovacuum_enabled = false)"))
				ok(t, p.Exec("ANALYZE pawl."+table))
			}
			read := func(ids []string) int { // rows of the index of ready
				var before, after int
				undone := errors.New("undone")
				count := "SELECT pg_stat_get_xact_tuples_returned('pawl.ready_pkey'::regclass)" // of this connection, since its counts were sent
				err := p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
					if _, err := store.Row(ctx, tx, []any{&before}, count); err != nil {
						return err
					}
					if err := find(ctx, tx, ids); err != nil {
						return err
					}
					_, err := store.Row(ctx, tx, []any{&after}, count)
					return cmp.Or(err, undone)
				})
				if !errors.Is(err, undone) {
					t.Fatal(err)
				}
				return after - before
			}
			for range 10 { // then the plan stays
				read([]string{first.ID})
			}
			createMany(t, p, "many", 2000)
			var ids []string
			some := pawl.TaskFilter{Types: []string{"many"}, Page: pawl.Page{Limit: 100}}
			for _, task := range need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(ctx, some)).Items {
				ids = append(ids, task.ID)
			}
			if n := read(ids); n < len(ids) || n > 10*len(ids) {
				t.Errorf("%d rows of ready were read to find %d", n, len(ids))
			}
		})
	}
}
