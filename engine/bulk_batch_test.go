package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// mixed creates tasks of a type that differ in what a verb has to do with them.
func (f *filling) mixed(typ string) (ids []string) {
	no := false
	fail := func(task pawl.Task, n int) {
		for _, l := range f.claim(task, n) {
			f.do(errOf(f.p.Service.Fail(f.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: "no", Message: "no"}, Retryable: &no}})))
		}
	}
	add := func(n int, change func(*pawl.NewTask)) pawl.Task {
		task := f.create(typ, n, change)
		ids = append(ids, task.ID)
		return task
	}
	for range 3 {
		add(0, nil)
		fail(add(0, nil), 1)
	}
	f.claim(add(0, nil), 1)
	fail(add(2, nil), 2)
	add(3, nil)
	done := f.claim(add(0, nil), 1)[0]
	f.do(errOf(f.p.Service.Complete(f.ctx, []pawl.CompleteCall{{Fence: done.Fence()}})))
	title := "changed"
	changed := add(0, nil)
	f.do(errOf(f.p.Service.UpdateTasks(f.ctx, []pawl.TaskUpdate{{TaskID: changed.ID, Title: &title}})))
	fail(changed, 1)
	hashed := add(0, func(t *pawl.NewTask) { t.Dedupe = pawl.Dedupe{All: true} })
	fail(hashed, 1)
	ahead := 7
	add(1, func(t *pawl.NewTask) { t.Items[0].Priority = &ahead })
	parent := add(0, nil)
	child := add(0, func(t *pawl.NewTask) { t.ParentID = parent.ID })
	fail(child, 1)
	speaks := f.claim(add(0, nil), 1)[0]
	need[pawl.Message](f)(first(f.p.Service.StartMessages(f.ctx, []pawl.StartCall{{Fence: speaks.Fence(), Role: "assistant", Model: "m"}})))
	return ids
}

// history returns what a task and its items are, and their events, without names and times.
func (f *filling) history(id string) string {
	task := need[pawl.Task](f)(f.p.Service.GetTask(f.ctx, id))
	out := fmt.Sprintln(task.State, task.Version, task.Title, task.Priority, string(task.Metadata), task.Items, task.RetryCount)
	for _, it := range need[pawl.List[pawl.Item]](f)(f.p.Service.ListItems(f.ctx, pawl.ItemFilter{TaskID: id})).Items {
		out += fmt.Sprintln(" ", it.State, it.Attempt, it.Failures, it.Priority, it.Stage)
	}
	for _, e := range need[pawl.List[pawl.Event]](f)(f.p.Service.ListEvents(f.ctx, pawl.EventFilter{TaskID: id, Asc: true})).Items {
		out += fmt.Sprintln("  ", e.Event, e.FromState, e.ToState, e.Attempt, e.ActorType, e.ActorID, e.Message, string(e.Diff))
	}
	return strings.ReplaceAll(out, "one", "all") // the title
}

// A bulk call leaves each task as a call of its verb for this task alone does, with the same
// events.
func TestABulkCallIsItsVerbOnEachTask(t *testing.T) {
	t.Parallel()
	title, priority := "new", 5
	for _, verb := range []string{pawl.BulkRetry, pawl.BulkCancel, pawl.BulkBury, pawl.BulkUpdate} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				f := &filling{t, p, pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})}
				one, all := f.mixed("one"), f.mixed("all")
				call := bulkOf("all", verb)
				if call.Reason = "because"; verb == pawl.BulkUpdate {
					call.Reason, call.Update = "", &pawl.BulkPatch{Title: &title, Priority: &priority, Metadata: json.RawMessage(`{"a":null,"b":2}`)}
				}
				task := need[pawl.Task](t)(p.Engine.Bulk(f.ctx, call))
				if err := p.Engine.RunBulks(t.Context()); err != nil {
					t.Fatal(err)
				}
				var want pawl.BulkResult
				for i := len(one) - 1; i >= 0; i-- { // children before their parents, as none is left for the parent's
					calls := []pawl.TaskCall{{TaskID: one[i], Reason: "because"}}
					var err error
					switch verb {
					case pawl.BulkRetry:
						err = errOf(p.Engine.RetryTasks(f.ctx, calls))
					case pawl.BulkCancel:
						err = errOf(p.Engine.CancelTasks(f.ctx, calls))
					case pawl.BulkBury:
						err = errOf(p.Engine.BuryTasks(f.ctx, calls))
					default:
						err = errOf(p.Engine.UpdateTasks(f.ctx, []pawl.TaskUpdate{call.Update.Call(one[i])}))
					}
					if want.Matched++; err == nil {
						want.Changed++
					} else if want.Skipped++; pawl.CodeOf(err) != pawl.CodeConflict {
						t.Error(err)
					}
				}
				got := bulkResult(t, p, task.ID)
				if got.Matched != want.Matched || got.Changed != want.Changed || got.Skipped != want.Skipped || want.Changed < 5 {
					t.Errorf("%+v, want %+v", got, want)
				}
				for i := range one {
					if a, b := f.history(one[i]), f.history(all[i]); a != b {
						t.Errorf("%d: alone\n%s\nin bulk\n%s", i, a, b)
					}
				}
				sound(t, p.Engine)
			})
		})
	}
}

// A bulk call that was interrupted between a task and the save of its progress does not change
// this task again.
func TestABulkCallChangesNoTaskTwice(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		f := &filling{t, p, t.Context()}
		ids := f.mixed("many")
		failed := ids[1]
		call := pawl.BulkCall{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{ID: pawl.Texts{failed}}}
		task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), call))
		state := `{"total":1,"cursor":"` + failed + `","apart":[{"id":"` + failed + `","version":1}]}`
		f.do(p.Exec("UPDATE pawl.tasks SET metadata = $1 WHERE id = $2", state, task.ID),
			p.Exec("INSERT INTO pawl.task_events (namespace, task_id, move, actor, data, created_at) VALUES ('default', $1, "+
				"(SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'stale'), 0, $2, 1)", failed, `{"bulk":"`+task.ID+`"}`))
		f.do(p.Engine.RunBulks(t.Context()))
		if r := bulkResult(t, p, task.ID); r.Matched != 1 || r.Changed != 1 {
			t.Errorf("%+v", r)
		}
		if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), failed)); got.State != pawl.TaskFailed {
			t.Errorf("it is %s: retried again", got.State)
		}
		cancelled := ids[0]
		task = need[pawl.Task](t)(p.Engine.Bulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkDelete, Force: true,
			Filter: pawl.BulkFilter{ID: pawl.Texts{cancelled}}}))
		state = strings.ReplaceAll(state, failed, cancelled)
		f.do(p.Exec("UPDATE pawl.tasks SET metadata = $1 WHERE id = $2", state, task.ID),
			p.Exec("INSERT INTO pawl.task_events (namespace, task_id, move, actor, data, created_at) VALUES ('default', $1, "+
				"(SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'stale'), 0, $2, 1)", cancelled, `{"bulk":"`+task.ID+`"}`))
		f.do(p.Engine.RunBulks(t.Context()))
		if _, err := p.Engine.GetTask(t.Context(), cancelled); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("a delete that had cancelled the task when it was interrupted left it: %v", err)
		}
	})
}
