package sweep_test

import (
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl"
)

// Tasks that an older version left failed when their last failed item was cancelled
// are settled by a sweep, with an event; their input hash is taken or released.
func TestSweepSettlesWhatAnOlderVersionLeft(t *testing.T) {
	each(t, func(h *fixture) {
		h.OK(h.put(pawl.Type{Name: "judged", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}}))
		stuck := func(typ, hash string, finish func(l pawl.Lease)) string {
			h.Helper()
			task := h.Create(pawl.NewTask{Type: typ, Payload: json.RawMessage(`1`), InputHash: hash,
				Items: []pawl.NewItem{{Input: json.RawMessage(`1`)}, {Input: json.RawMessage(`2`)}}})
			ls := h.claim(2)
			finish(ls[0])
			h.fail(ls[1])
			rs, err := h.Engine.CancelTasks(h.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{ls[1].ID}}})
			h.OK(err)
			h.OK(rs[0].Err)
			return task.ID
		}
		done := stuck("a", "one", func(l pawl.Lease) {
			_, err := pawl.Complete(h.Context(), h.Service, l.Fence(), json.RawMessage(`1`))
			h.OK(err)
		})
		handedIn := stuck("judged", "two", func(l pawl.Lease) {
			rs, err := h.Engine.Submit(h.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: json.RawMessage(`1`)}})
			h.OK(err)
			h.OK(rs[0].Err)
		})
		gone := stuck("a", "three", func(l pawl.Lease) {
			h.fail(l)
			rs, err := h.Engine.CancelTasks(h.Context(), []pawl.TaskCall{{TaskID: l.TaskID, ItemIDs: []string{l.ID}}})
			h.OK(err)
			h.OK(rs[0].Err)
		})
		// As the older version left them: the counters right, the state not, and no event.
		h.exec("INSERT INTO pawl.retention_gate (reason) VALUES ('test')")
		h.exec("DELETE FROM pawl.task_events WHERE move IN (SELECT code FROM pawl.moves WHERE class = 'task' AND " +
			"(from_state = 'failed' OR event = 'ready_for_approval'))")
		h.exec("DELETE FROM pawl.retention_gate")
		h.exec("UPDATE pawl.task_counters SET state = 'failed', version = version - 1, todo = 0, ready_for_approval = 0, decide_by = NULL WHERE "+
			"task_id IN ($1, $2)", done, handedIn)
		h.exec("UPDATE pawl.task_counters SET state = 'failed', version = version - 1 WHERE task_id = $1", gone)
		h.exec("UPDATE pawl.tasks SET dedupes = 1 WHERE id = $1", gone)
		real := h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`),
			Items: []pawl.NewItem{{Input: json.RawMessage(`1`)}, {Input: json.RawMessage(`2`)}}})
		for _, l := range h.claim(2) {
			h.fail(l)
		}
		for range 2 { // the second pass finds nothing
			h.pass()
			h.same([]any{h.state(done), h.state(handedIn), h.state(gone), h.state(real.ID)},
				[]any{"completed", "submitted", "cancelled", "failed"}, "states")
		}
		for id, to := range map[string]string{done: "completed", handedIn: "submitted", gone: "cancelled"} {
			list, err := h.Service.ListEvents(h.Context(), pawl.EventFilter{TaskID: id, Event: to})
			h.OK(err)
			e := list.Items[0]
			h.same([]any{e.FromState, e.ToState, e.ActorType, e.Message},
				[]any{"failed", to, "system", "its last failed item was cancelled; the others decide"}, "the event")
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks WHERE dedupes = 1"), 2, "tasks that hold their input hash")
		_, err := h.Engine.Sweep(h.Context()) // what was handed in is checked
		h.OK(err)
		task, err := h.Service.GetTask(h.Context(), handedIn)
		h.OK(err)
		h.same(task.ReadyForApproval, true, "ready for approval")
		found, err := h.Engine.Check(h.Context())
		h.OK(err)
		h.same(found, []any(nil), "breaches")
	})
}
