package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// failed creates failed tasks: a task of one item, a task of many items with one submitted, and a
// dead-lettered task.
func failed(h *fixture) (one, many, dead pawl.Task) {
	h.Helper()
	h.OK(h.put(pawl.Type{Name: "judged", Acceptance: true}))
	one = h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`), InputHash: "one"})
	dead = h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`2`)})
	for _, l := range h.claim(2) {
		h.fail(l)
	}
	h.bury(dead.ID)
	many = h.Create(pawl.NewTask{Type: "judged", Payload: json.RawMessage(`{}`),
		Items: []pawl.NewItem{{Input: json.RawMessage(`1`)}, {Input: json.RawMessage(`2`)}}})
	ls := h.claim(2)
	rs, err := h.Engine.Submit(h.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: json.RawMessage(`1`)}})
	h.OK(err)
	h.OK(rs[0].Err)
	h.save(ls[1], pawl.ManualCheckpoint, "before the end")
	h.fail(ls[1])
	return one, many, dead
}

func (h *fixture) put(t pawl.Type) error {
	h.Helper()
	rs, err := h.Engine.PutTypes(h.Context(), []pawl.Type{t})
	h.OK(err)
	return rs[0].Err
}

func (h *fixture) bury(taskID string) {
	h.Helper()
	rs, err := h.Engine.BuryTasks(h.Context(), []pawl.TaskCall{{TaskID: taskID}})
	h.OK(err)
	h.OK(rs[0].Err)
}

func TestRetentionOfFailedTasks(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.BuryAfter = 0
		h.Options.RetainDead = 10 * day
		one, many, dead := failed(h)
		before := map[string][]string{}
		for _, task := range []pawl.Task{one, many, dead} {
			before[task.ID] = h.dump(task.ID)
		}
		h.Advance(10 * day)
		h.same(h.pass().TasksPruned, 0, "pruned at the end of the shorter age")
		h.Advance(time.Second)
		h.same(h.pass().TasksPruned, 1, "dead-lettered tasks pruned")
		h.OK(h.Restore(h.Context(), "default", dead.ID))
		_, err := pawl.Retry(h.Context(), h.Service, one.ID) // changes: its age begins anew when it fails again
		h.OK(err)
		h.Advance(day)
		h.fail(h.claim(1)[0])
		h.Advance(79*day + time.Second)
		h.same(h.pass().TasksPruned, 2, "pruned 90 days after the first failure: the one of many, and the dead one again")
		h.same([]any{h.state(one.ID)}, []any{"failed"}, "what failed again")
		h.Advance(11 * day)
		h.same(h.pass().TasksPruned, 1, "pruned 90 days after the second failure")
		for _, id := range []string{many.ID, dead.ID} {
			h.same(h.unpack(id), before[id], "what is in the archive")
			h.OK(h.Restore(h.Context(), "default", id))
			h.same(h.dump(id), before[id], "what came back")
			_, err := pawl.Retry(h.Context(), h.Service, id)
			h.OK(err)
		}
		h.claim(2)
		h.same([]any{h.state(many.ID), h.state(dead.ID)}, []any{"in_progress", "checked_out"}, "states after a retry")
		found, err := h.Engine.Check(h.Context())
		h.OK(err)
		h.same(found, []any(nil), "breaches")
	})
}

// A restored task that is retried is kept for its time from its new end, not from the restore.
func TestARestoredTaskThatGoesOnIsKeptFromItsEnd(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.BuryAfter = 0
		h.Options.RetainFailed = day
		id := h.solos(1, 1)[0]
		h.fail(h.claim(1)...)
		h.Advance(day + time.Second)
		h.same(h.pass().TasksPruned, 1, "pruned after the failure")
		h.OK(h.Restore(h.Context(), "default", id))
		_, err := pawl.Retry(h.Context(), h.Service, id)
		h.OK(err)
		h.Advance(31 * day)
		h.complete(h.claim(1)...)
		h.same(h.pass().TasksPruned, 0, "pruned at its end")
		h.Advance(30*day - time.Minute)
		h.same(h.pass().TasksPruned, 0, "pruned less than 30 days after its end")
		h.Advance(time.Minute + time.Second)
		h.same(h.pass().TasksPruned, 1, "pruned more than 30 days after its end")
	})
}

func TestTypesSayHowLongFailedTasksAreKept(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.BuryAfter = 0
		h.Options.RetainFailed = 0 // for ever
		h.OK(h.put(pawl.Type{Name: "brief", Retention: pawl.Retention{TaskSeconds: 60, FailedSeconds: 3600, DeadSeconds: 7200}}))
		var ids []string
		for _, typ := range []string{"brief", "brief", "other"} {
			ids = append(ids, h.Create(pawl.NewTask{Type: typ, Payload: json.RawMessage(`1`)}).ID)
			h.fail(h.claim(1)...)
		}
		h.bury(ids[1])
		for _, step := range []struct {
			after  time.Duration
			pruned int
		}{{3600 * time.Second, 0}, {time.Second, 1}, {3599 * time.Second, 0}, {time.Second, 1}, {1000 * day, 0}} {
			h.Advance(step.after)
			h.same(h.pass().TasksPruned, step.pruned, "pruned after another "+step.after.String())
		}
		h.same(h.state(ids[2]), "failed", "another type's")
		err := h.put(pawl.Type{Name: "x", Retention: pawl.Retention{FailedSeconds: 59}})
		var e *pawl.Error
		if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Pointer != "/retention/failed_seconds" {
			t.Errorf("59 seconds: %v", err)
		}
	})
}

// A task that is retried while it is retired is kept or removed as a whole: there is never an item
// without its task.
func TestARetryWhileATaskIsRetired(t *testing.T) {
	each(t, func(h *fixture) {
		for first := range 3 {
			one, many, dead := failed(h)
			for _, task := range []pawl.Task{one, many, dead} {
				retried := false
				db := &crashingDB{DB: h.DB, left: first, then: func() {
					_, err := pawl.Retry(h.Context(), h.Service, task.ID)
					retried = err == nil
				}}
				err := h.server(db).Retire(h.Context(), task.ID)
				there := h.count("SELECT COUNT(*) FROM pawl.tasks WHERE id = $1", task.ID) == 1
				if retried != there || there != (err != nil) {
					t.Errorf("before transaction %d: retried %v, there %v, %v", first, retried, there, err)
				}
			}
			h.same(h.count("SELECT COUNT(*) FROM pawl.ready r WHERE NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = r.task_id)"), 0,
				"items without a task")
			h.exec("UPDATE pawl.tasks SET dedupes = 0, input_hash = NULL")
			for { // what was retried is taken away from the next round
				ls, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 10})
				h.OK(err)
				if len(ls) == 0 {
					break
				}
			}
		}
	})
}

// slowDB is a database whose first write transaction waits, after its statements, for a function.
type slowDB struct {
	store.DB
	before func()
}

func (s *slowDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		err := fn(ctx, tx)
		if s.before != nil && err == nil {
			before := s.before
			s.before = nil
			before()
		}
		return err
	})
}

// PostgreSQL: a retry that begins while the task's rows are removed waits for the removal and
// finds no task.
func TestARetryWaitsForTheRemoval(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database != pawltest.Postgres {
			return // SQLite has one writer at a time
		}
		one, many, dead := failed(h)
		for _, task := range []pawl.Task{one, many, dead} {
			done := make(chan error, 1)
			db := &slowDB{DB: h.DB, before: func() {
				go func() {
					_, err := pawl.Retry(h.Context(), h.Service, task.ID)
					done <- err
				}()
				for h.count("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = "+
					"current_setting('application_name')") == 0 {
					time.Sleep(time.Millisecond)
				}
			}}
			h.OK(h.server(db).Retire(h.Context(), task.ID))
			if err := <-done; pawl.CodeOf(err) != pawl.CodeNotFound && pawl.CodeOf(err) != pawl.CodeConflict {
				t.Errorf("a retry while the task goes: %v", err)
			}
		}
		for _, table := range append(hangingTables, "ready", "parked_items") {
			h.same(h.count("SELECT COUNT(*) FROM pawl."+table), 0, "rows left in "+table)
		}
	})
}

// A task that was not planned is planned again when it was archived and restored.
func TestARestoredTaskCanBePlanned(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.BuryAfter = 0
		h.Options.RetainFailed = day
		h.OK(h.put(pawl.Type{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem, MaxAttempts: 1}}))
		id := h.Create(pawl.NewTask{Type: "planned", Payload: json.RawMessage(`1`)}).ID
		plan := func() pawl.Lease {
			return h.ClaimN(1, pawl.ClaimRequest{WorkerID: "p", Types: []string{"planned.plan"}})[0]
		}
		h.fail(plan())
		h.Advance(day + time.Second)
		h.same(h.pass().TasksPruned, 1, "pruned")
		h.OK(h.Restore(h.Context(), "default", id))
		found, err := h.Engine.Check(h.Context())
		h.OK(err)
		h.same(found, []any(nil), "breaches")
		_, err = pawl.Retry(h.Context(), h.Service, id)
		h.OK(err)
		more := pawl.AddItems{TaskID: id, Items: []pawl.NewItem{{Input: json.RawMessage(`2`)}}}
		_, err = pawltest.First(h.Service.AddItems(h.Context(), []pawl.AddItems{more}))
		h.same(pawl.CodeOf(err), pawl.CodeConflict, "items are added before it is planned")
		_, err = pawl.Complete(h.Context(), h.Service, plan().Fence(), json.RawMessage(`{"items":[{"input":1}]}`))
		h.OK(err)
		h.complete(h.claim(1)...)
		h.same(h.state(id), pawl.TaskCompleted, "the task")
	})
}
