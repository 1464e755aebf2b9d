package suite

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var bulkCalls = noun{"bulk", []promise{
	{"a bulk call changes the tasks that its filter selects", func(w *fixture) {
		a1, a2 := w.create(pawl.NewTask{Type: "a"}), w.create(pawl.NewTask{Type: "a", Priority: 3})
		b := w.create(pawl.NewTask{Type: "b"})
		call := pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{"a"}}, Reason: "no more"}
		n, err := w.svc.CountBulk(w.ctx, call)
		w.ok(err, "count")
		w.same(n, int64(2), "count")
		t := w.bulk(call)
		w.same([]any{t.Type, t.State}, []any{pawl.TypeBulk, pawl.TaskQueued}, "task")
		w.same(w.bulkDone(t), pawl.BulkResult{Matched: 2, Changed: 2}, "result")
		for _, id := range []string{a1.ID, a2.ID} {
			w.same(w.task(id).State, pawl.TaskCancelled, "state")
			events, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: id, Event: "cancelled"})
			w.ok(err, "events")
			w.same(len(events.Items), 1, "events")
			w.same([]any{string(events.Items[0].Data), events.Items[0].Message}, []any{`{"bulk":"` + t.ID + `"}`, "no more"}, "event")
		}
		w.same(w.task(b.ID).State, pawl.TaskQueued, "another type")
	}},
	{"each verb of a bulk call", func(w *fixture) {
		id := w.create(pawl.NewTask{Type: "a", MaxAttempts: 1}).ID
		l, no := w.claim("w"), false
		rs, err := w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "broken"}, Retryable: &no}})
		w.ok(err, "fail")
		w.ok(rs[0].Err, "fail")
		only := pawl.BulkFilter{ID: pawl.Texts{id}}
		title, high := "again", 7
		for _, s := range []struct {
			call pawl.BulkCall
			to   pawl.TaskState
		}{
			{pawl.BulkCall{Verb: pawl.BulkBury, Filter: pawl.BulkFilter{State: pawl.Texts{"failed"}}}, pawl.TaskDeadLettered},
			{pawl.BulkCall{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{State: pawl.Texts{"failed", "dead_lettered"}}}, pawl.TaskQueued},
			{pawl.BulkCall{Verb: pawl.BulkUpdate, Filter: only, Update: &pawl.BulkPatch{Title: &title, Priority: &high,
				Metadata: raw(`{"x":1}`)}}, pawl.TaskQueued},
		} {
			w.same(w.bulkDone(w.bulk(s.call)), pawl.BulkResult{Matched: 1, Changed: 1}, s.call.Verb)
			w.same(w.task(id).State, s.to, s.call.Verb)
		}
		t := w.task(id)
		w.same([]any{t.Title, t.Priority, string(t.Metadata)}, []any{title, high, `{"x":1}`}, "updated")
		same := pawl.BulkCall{Verb: pawl.BulkUpdate, Filter: pawl.BulkFilter{Metadata: pawl.MemberValues{"x": "1"}},
			Update: &pawl.BulkPatch{Title: &title}}
		w.same(w.bulkDone(w.bulk(same)), pawl.BulkResult{Matched: 1, Skipped: 1}, "the same again")
		gone := pawl.BulkCall{Verb: pawl.BulkDelete, Filter: only}
		w.same(w.bulkDone(w.bulk(gone)), pawl.BulkResult{Matched: 1, Skipped: 1}, "delete of a task that has not ended")
		gone.Force = true
		w.same(w.bulkDone(w.bulk(gone)), pawl.BulkResult{Matched: 1, Changed: 1}, "delete with force")
		_, err = w.svc.GetTask(w.ctx, id)
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a bulk call leaves later tasks and other bulk calls alone", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a"})
		all := pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{MinPriority: new(int)}}
		first, second := w.bulk(all), w.bulk(all)
		w.advance(time.Millisecond)
		later := w.create(pawl.NewTask{Type: "a"})
		r1, r2 := w.bulkDone(first), w.bulkDone(second)
		w.same([]any{r1.Changed + r2.Changed, r1.Failed + r2.Failed}, []any{int64(1), int64(0)}, "changed by both")
		w.same(w.task(later.ID).State, pawl.TaskQueued, "the later task")
		w.same(w.task(first.ID).State, pawl.TaskCompleted, "the first call")
	}},
	{"no worker can claim a bulk call, and its types are reserved", func(w *fixture) {
		t := w.bulk(pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{"a"}}})
		for _, req := range []pawl.ClaimRequest{{}, {Types: []string{pawl.TypeBulk}}, {TaskID: t.ID},
			{TaskID: t.ID, Types: []string{pawl.TypeBulk}}} {
			req.WorkerID, req.Limit = "w", 10
			leases, err := w.svc.Claim(w.ctx, req)
			w.ok(err, "claim")
			w.same(len(leases), 0, "leases")
		}
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "pawl.mine"})
		w.refused(err, pawl.CodeInvalid)
		_, err = pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Type: pawl.TypeBulk}}})
		w.refused(err, pawl.CodeInvalid)
		rs, err := w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "pawl.mine"}})
		w.ok(err, "types")
		w.refused(rs[0].Err, pawl.CodeInvalid)
		_, err = w.svc.SetQueue(w.ctx, pawl.TypeBulk, pawl.QueuePatch(`{"concurrency":1}`))
		w.refused(err, pawl.CodeInvalid)
	}},
	{"a bulk call that is cancelled does nothing more", func(w *fixture) {
		a := w.create(pawl.NewTask{Type: "a"})
		t := w.bulk(pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{"a"}}})
		rs, err := w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}})
		w.ok(err, "cancel")
		w.ok(rs[0].Err, "cancel")
		w.sweep()
		w.same(w.task(a.ID).State, pawl.TaskQueued, "state")
	}},
	{"a paused namespace stops no bulk call", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a"})
		w.ok(w.svc.PauseNamespace(w.ctx), "pause")
		t := w.bulk(pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{"a"}}})
		w.same(w.bulkDone(t), pawl.BulkResult{Matched: 1, Changed: 1}, "result")
	}},
	{"bulk calls that make no sense are refused", func(w *fixture) {
		of := pawl.BulkFilter{Type: pawl.Texts{"a"}}
		for _, call := range []pawl.BulkCall{
			{Verb: pawl.BulkCancel},
			{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{}}},
			{Verb: "complete", Filter: of},
			{Verb: pawl.BulkUpdate, Filter: of},
			{Verb: pawl.BulkUpdate, Filter: of, Update: &pawl.BulkPatch{}},
			{Verb: pawl.BulkRetry, Filter: of, Update: &pawl.BulkPatch{Metadata: raw(`{"a":1}`)}},
			{Verb: pawl.BulkRetry, Filter: of, Force: true},
			{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{State: pawl.Texts{"asleep"}}},
			{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{Type: pawl.Texts{"a", ""}}},
			{Verb: pawl.BulkRetry, Filter: of, Reason: strings.Repeat("x", pawl.MaxReasonLen+1)},
		} {
			_, err := w.svc.Bulk(w.ctx, call)
			w.refused(err, pawl.CodeInvalid)
			_, err = w.svc.CountBulk(w.ctx, call)
			w.refused(err, pawl.CodeInvalid)
		}
	}},
}}

func (w *fixture) bulk(call pawl.BulkCall) pawl.Task {
	t, err := w.svc.Bulk(w.ctx, call)
	w.ok(err, "bulk")
	return t
}

// bulkDone carries bulk calls out and returns the result of one.
func (w *fixture) bulkDone(t pawl.Task) (out pawl.BulkResult) {
	w.sweep()
	r, err := w.svc.TaskResult(w.ctx, t.ID)
	w.ok(err, "result of the bulk call")
	w.ok(json.Unmarshal(r.Payload, &out), "result")
	return out
}
