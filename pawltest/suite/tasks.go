package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// asCreated returns a task as create returns it: without the fields that are computed from the
// workers.
func asCreated(t pawl.Task) pawl.Task {
	t.BlockedBy, t.ItemsPending = nil, nil
	return t
}

var tasks = noun{"tasks", []promise{
	{"a task without items has one, whose input is the payload", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Payload: raw(`{"file":"x.pdf"}`)})
		i := w.onlyItem(t.ID)
		w.same(string(i.Input), `{"file":"x.pdf"}`, "input")
		w.same(i.Type, "a", "type")
		w.same(i.Kind, pawl.KindWork, "kind")
	}},
	{"a new task reads back as it was asked for", func(w *fixture) {
		asked := pawl.NewTask{
			Type: "pdf.parse", Title: "Parse é 文", Priority: -7, Payload: raw(`{"a":1}`),
			Metadata: raw(`{"repo":"x"}`), RequestedBy: &pawl.Requester{Type: "agent", ID: "planner"},
		}
		made := w.create(asked)
		got := asCreated(w.task(made.ID))
		w.same(got, made, "the task read back")
		now := w.now()
		w.same(got, pawl.Task{
			ID: made.ID, Namespace: pawl.DefaultNamespace, Type: "pdf.parse", State: pawl.TaskQueued, Status: pawl.StatusPending,
			Title: "Parse é 文", Stage: got.Stage, Priority: -7, Payload: raw(`{"a":1}`), Metadata: raw(`{"repo":"x"}`),
			RequestedBy: asked.RequestedBy, Items: 1, ItemsOpen: 1,
			CreatedAt: now, UpdatedAt: now, LastTransitionedAt: now,
		}, "the task")
	}},
	{"ids are a prefix and a ULID", func(w *fixture) {
		t := w.oneItem()
		i := w.onlyItem(t.ID)
		for id, prefix := range map[string]string{t.ID: "tsk_", i.ID: "itm_"} {
			rest, found := strings.CutPrefix(id, prefix)
			if !found || len(rest) != 26 || strings.ToUpper(rest) != rest {
				w.Errorf("%q is not %s and a ULID", id, prefix)
			}
		}
	}},
	{"payloads are kept byte for byte", func(w *fixture) {
		for _, payload := range []string{
			`{"b": 1,  "a": [ 12345678901234567890, 1.10, 1e400 ]}`, `null`, `"é 😀"`, `[]`, `0`, `{"a":1,"a":2}`, `"\\u0000"`,
		} {
			t := w.create(pawl.NewTask{Type: "a", Payload: raw(payload)})
			w.same(string(w.task(t.ID).Payload), payload, "payload")
			w.same(string(w.onlyItem(t.ID).Input), payload, "input")
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			w.same(string(l.Input), payload, "claimed input")
			w.complete(l, payload)
			w.same(string(w.onlyItem(t.ID).Result), payload, "result")
		}
	}},
	{"no payload is null, no metadata is an empty object", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a"})
		w.same(string(w.task(t.ID).Payload), "null", "payload")
		w.same(string(w.onlyItem(t.ID).Input), "null", "input")
		w.same(string(t.Metadata), "{}", "metadata")
		t = w.create(pawl.NewTask{Type: "a", Metadata: raw("null")})
		w.same(string(t.Metadata), "{}", "metadata")
		_, err := first(w.svc.UpdateTasks(w.ctx, []pawl.TaskUpdate{{TaskID: t.ID, Metadata: raw("null")}}))
		w.refused(err, pawl.CodeInvalid)
	}},
	{"items take the task's type, priority and budget unless they have their own", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Priority: 5, MaxAttempts: 7, Items: []pawl.NewItem{
			{Input: raw(`1`)},
			{Input: raw(`2`), Type: "b", Priority: ptr(-3), MaxAttempts: 2, Key: "second"},
			{Input: raw(`3`), Priority: ptr(0)},
		}})
		w.same(t.Items, 3, "items")
		w.same(t.ItemsOpen, 3, "open items")
		var got []any
		for n, i := range w.items(t.ID) {
			got = append(got, string(i.Input), i.Type, i.Priority, i.MaxAttempts, i.Key, i.TaskID == t.ID, i.Position-w.items(t.ID)[0].Position == n)
		}
		w.same(got, []any{
			"1", "a", 5, 7, "", true, true,
			"2", "b", -3, 2, "second", true, true,
			"3", "a", 0, 7, "", true, true,
		}, "items")
	}},
	{"the budget is three attempts by default", func(w *fixture) {
		w.same(w.onlyItem(w.oneItem().ID).MaxAttempts, pawl.DefaultMaxAttempts, "max_attempts")
	}},
	{"each call of a batch is answered on its own, in order", func(w *fixture) {
		rs, err := w.svc.CreateTasks(w.ctx, []pawl.NewTask{{Type: "a"}, {Type: ""}, {Type: "b"}, {Type: "c", Payload: raw(`{`)}, {Type: "d"}})
		w.ok(err, "create")
		w.same(len(rs), 5, "answers")
		w.ok(rs[0].Err, "first")
		w.invalid(rs[1].Err, "/type")
		w.ok(rs[2].Err, "third")
		w.invalid(rs[3].Err, "/payload")
		w.ok(rs[4].Err, "fifth")
		w.same([]string{rs[0].Value.Type, rs[2].Value.Type, rs[4].Value.Type}, []string{"a", "b", "d"}, "types")
		list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{})
		w.ok(err, "list")
		w.same(len(list.Items), 3, "tasks made")
	}},
	{"an empty batch is answered with nothing", func(w *fixture) {
		rs, err := w.svc.CreateTasks(w.ctx, nil)
		w.ok(err, "create")
		w.same(len(rs), 0, "answers")
	}},
	{"an unknown task is not found", func(w *fixture) {
		_, err := w.svc.GetTask(w.ctx, "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV")
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.TaskResult(w.ctx, "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV")
		w.refused(err, pawl.CodeNotFound)
	}},
	{"an item's id is not a task's id", func(w *fixture) {
		t := w.oneItem()
		_, err := w.svc.GetTask(w.ctx, w.onlyItem(t.ID).ID)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.GetItem(w.ctx, t.ID)
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a task of a thousand items is one call", func(w *fixture) {
		t := w.manyItems(1000)
		w.same(w.task(t.ID).Items, 1000, "items")
		got := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 1000})
		w.same(len(got), 1000, "claimed")
		calls := make([]pawl.CompleteCall, len(got))
		for n, l := range got {
			calls[n] = pawl.CompleteCall{Fence: l.Fence()}
		}
		rs, err := w.svc.Complete(w.ctx, calls)
		w.ok(err, "complete")
		for _, r := range rs {
			w.ok(r.Err, "complete")
		}
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
}}

var derived = noun{"what an open task reads as", []promise{
	{"nothing claimed is queued, pending", func(w *fixture) {
		t := w.task(w.manyItems(2).ID)
		w.same([]any{t.State, t.Status}, []any{pawl.TaskQueued, pawl.StatusPending}, "state")
	}},
	{"an item leased is checked_out, in progress", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(2)} {
			w.claimItem("w1", w.items(t.ID)[0].ID)
			t = w.task(t.ID)
			w.same([]any{t.State, t.Status}, []any{pawl.TaskCheckedOut, pawl.StatusInProgress}, "state")
		}
	}},
	{"an item in progress is in_progress, whatever the others are", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(3)} {
			w.heartbeat(w.claimItem("w1", w.items(t.ID)[0].ID))
			t = w.task(t.ID)
			w.same([]any{t.State, t.Status}, []any{pawl.TaskInProgress, pawl.StatusInProgress}, "state")
		}
	}},
	{"an item past its work while others are not is in_progress", func(w *fixture) {
		t := w.manyItems(3)
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "one done, the others queued")
		w.claim("w1")
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "one done, one leased")
	}},
	{"released, failed with a retry left and expired items are queued again", func(w *fixture) {
		t := w.manyItems(2)
		w.release(w.claim("w1"))
		w.same(w.task(t.ID).State, pawl.TaskQueued, "released")
		w.failNow(w.claim("w1"), "no")
		w.same(w.task(t.ID).State, pawl.TaskQueued, "failed")
		w.expire(w.claim("w1"))
		w.same(w.task(t.ID).State, pawl.TaskQueued, "expired")
	}},
	{"scheduled and waiting items leave a task queued", func(w *fixture) {
		at := w.now().Add(time.Hour)
		t := w.create(
			pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: "x", RunAt: &at}, {Input: raw(`2`), After: []string{"x"}}}},
		)
		w.same(w.task(t.ID).State, pawl.TaskQueued, "state")
	}},
	{"claims, heartbeats and progress do not change a task's version", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(2)} {
			l := w.claimItem("w1", w.items(t.ID)[0].ID)
			w.heartbeat(l)
			_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(50), Stage: ptr("half")}}))
			w.ok(err, "progress")
			w.release(l)
			w.same(w.task(t.ID).Version, 0, "version")
		}
	}},
	{"a task of many shows the items out of work as its progress", func(w *fixture) {
		t := w.manyItems(3)
		w.same(w.task(t.ID).Progress, 0, "progress")
		w.complete(w.claim("w1"), `1`)
		got := w.task(t.ID)
		w.same([]any{got.Progress, got.ItemsOpen}, []any{33, 2}, "a third")
		w.failPermanently(w.claim("w1"), "no")
		got = w.task(t.ID)
		w.same([]any{got.Progress, got.ItemsOpen}, []any{66, 1}, "two thirds")
		w.complete(w.claim("w1"), `1`)
		got = w.task(t.ID)
		w.same(got.ItemsOpen, 0, "open")
		if got.Progress == 100 {
			w.Errorf("a failed task shows 100 %%: %v", got)
		}
	}},
	{"updated_at moves with the newest event of a task", func(w *fixture) {
		t := w.manyItems(2)
		w.advance(time.Minute)
		l := w.claim("w1")
		claimed := w.now()
		w.same(w.task(t.ID).UpdatedAt, claimed, "updated_at")
		w.same(w.task(t.ID).LastTransitionedAt, claimed, "last_transitioned_at")
		w.advance(time.Minute)
		w.complete(l, `1`)
		w.same(w.task(t.ID).UpdatedAt, w.now(), "updated_at")
		w.same(w.task(t.ID).CreatedAt, w.now().Add(-2*time.Minute), "created_at")
	}},
}}
