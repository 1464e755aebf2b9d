package suite

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

func (w *fixture) listCheckpoints(f pawl.CheckpointFilter) []pawl.Checkpoint {
	w.Helper()
	if f.Limit == 0 {
		f.Limit = 1000
	}
	list, err := w.svc.ListCheckpoints(w.ctx, f)
	w.ok(err, "list checkpoints")
	return list.Items
}

// sequencesTo checks that a task's checkpoints have the numbers 1…n.
func (w *fixture) sequencesTo(taskID string, n int) {
	w.Helper()
	all := w.listCheckpoints(pawl.CheckpointFilter{TaskID: taskID})
	w.same(len(all), n, "checkpoints")
	for k, c := range all {
		w.same(c.Sequence, int64(k+1), "sequence")
	}
}

var checkpoints = noun{"checkpoints", []promise{
	{"a checkpoint reads back as it was saved", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.advance(time.Second)
		ref, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{
			Type: pawl.ToolExecuted, Name: "fetch", ArgsHash: "abc", Snapshot: raw(`{"b": 1, "a":12345678901234567890}`), Metadata: raw(`{"ms":12}`),
		})
		w.ok(err, "checkpoint")
		w.same([]any{ref.Sequence, strings.HasPrefix(ref.ID, "ckp_")}, []any{int64(1), true}, "the answer")
		w.same(w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID}), []pawl.Checkpoint{{
			ID: ref.ID, TaskID: t.ID, ItemID: l.ID, Attempt: 1, Sequence: 1, Type: pawl.ToolExecuted, Name: "fetch", ArgsHash: "abc",
			Snapshot: raw(`{"b": 1, "a":12345678901234567890}`), Metadata: raw(`{"ms":12}`), CreatedAt: w.now(),
		}}, "the checkpoint")
	}},
	{"sequence numbers have no gaps over all items of a task", func(w *fixture) {
		t, other := w.manyItems(3), w.manyItems(2)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 5})
		w.checkpoint(ls[4], pawl.CustomCheckpoint, `1`)
		for n := range 9 {
			w.same(w.checkpoint(ls[n%3], pawl.IterationStart, fmt.Sprint(n)).Sequence, int64(n+1), "sequence")
		}
		w.sequencesTo(t.ID, 9)
		w.sequencesTo(other.ID, 1)
	}},
	{"sequence numbers continue over attempts", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.IterationStart, `1`)
		w.release(l)
		l = w.claim("w2")
		w.same(w.checkpoint(l, pawl.IterationStart, `2`).Sequence, int64(2), "sequence")
		w.failNow(l, "no")
		w.expire(w.claim("w3"))
		w.sequencesTo(t.ID, 4)
	}},
	{"a batch is numbered without gaps, and refused checkpoints get no number", func(w *fixture) {
		t := w.manyItems(3)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 3})
		stale := ls[1].Fence()
		stale.Attempt = 2
		var calls []pawl.CheckpointCall
		for _, f := range []pawl.Fence{ls[0].Fence(), stale, ls[2].Fence()} {
			calls = append(calls, pawl.CheckpointCall{Fence: f, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`)}})
		}
		rs, err := w.svc.Checkpoint(w.ctx, calls)
		w.ok(err, "checkpoint")
		w.ok(rs[0].Err, "first")
		w.refused(rs[1].Err, pawl.CodeLeaseLost)
		w.ok(rs[2].Err, "third")
		w.sequencesTo(t.ID, 2)
	}},
	{"several of one item in a batch are numbered in order", func(w *fixture) {
		t := w.oneItem()
		f := w.claim("w1").Fence()
		var calls []pawl.CheckpointCall
		for n := range 5 {
			calls = append(
				calls,
				pawl.CheckpointCall{Fence: f, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(fmt.Sprint(n))}},
			)
		}
		rs, err := w.svc.Checkpoint(w.ctx, calls)
		w.ok(err, "checkpoint")
		for n, r := range rs {
			w.ok(r.Err, "checkpoint")
			w.same(r.Value.Sequence, int64(n+1), "sequence")
		}
		for n, c := range w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID}) {
			w.same(string(c.Snapshot), fmt.Sprint(n), "snapshot")
		}
	}},
	{"concurrent checkpoints are numbered without gaps", func(w *fixture) {
		t := w.manyItems(8)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 8})
		var wg sync.WaitGroup
		for _, l := range ls {
			wg.Go(func() {
				for n := range 10 {
					if _, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(),
						pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(fmt.Sprint(n))}); err != nil {
						w.Errorf("checkpoint: %v", err)
					}
				}
			})
		}
		wg.Wait()
		w.sequencesTo(t.ID, 80)
	}},
	{"every listed type is allowed, and no other", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for _, typ := range []string{
			"iteration_start", "iteration_end", "tool_executed", "llm_response", "approval_point",
			"state_transition", "manual_checkpoint", "error_boundary", "custom",
		} {
			w.checkpoint(l, typ, `1`)
		}
		for _, typ := range []string{"", "iteration", "Custom"} {
			_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: typ, Snapshot: raw(`1`)})
			w.invalid(err, "/type")
		}
	}},
	{"a task has checkpoints of certain types, without a lease", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(2)} {
			for n, typ := range []string{pawl.ManualCheckpoint, pawl.ApprovalPoint, pawl.StateTransition, pawl.CustomCheckpoint} {
				ref, err := first(
					w.svc.CheckpointTasks(w.ctx, []pawl.TaskCheckpoint{{TaskID: t.ID, NewCheckpoint: pawl.NewCheckpoint{Type: typ, Snapshot: raw(`1`)}}}),
				)
				w.ok(err, "checkpoint")
				w.same(ref.Sequence, int64(n+1), "sequence")
			}
			for _, typ := range []string{pawl.IterationStart, pawl.IterationEnd, pawl.ToolExecuted, pawl.LLMResponse, pawl.ErrorBoundary, "x"} {
				_, err := first(
					w.svc.CheckpointTasks(w.ctx, []pawl.TaskCheckpoint{{TaskID: t.ID, NewCheckpoint: pawl.NewCheckpoint{Type: typ, Snapshot: raw(`1`)}}}),
				)
				w.invalid(err, "/type")
			}
			l := w.claimItem("w1", w.items(t.ID)[0].ID)
			w.same(w.checkpoint(l, pawl.IterationStart, `1`).Sequence, int64(5), "the item's goes on from there")
			w.sequencesTo(t.ID, 5)
			w.same(w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID})[0].ItemID, "", "item of the task's own")
			w.same(w.task(t.ID).Version, 0, "version")
			w.cancel(t.ID)
		}
		_, err := first(
			w.svc.CheckpointTasks(
				w.ctx,
				[]pawl.TaskCheckpoint{{TaskID: "tsk_nope", NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`)}}},
			),
		)
		w.refused(err, pawl.CodeNotFound)
	}},
	{"the first call moves the item to in_progress", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.CustomCheckpoint, `1`)
		w.same(w.item(l.ID).State, pawl.ItemInProgress, "state")
		w.same(w.allEvents(pawl.EventFilter{TaskID: t.ID})[2].Event, "in_progress", "event")
	}},
	{"only manual and approval checkpoints leave an event", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		var want []string
		for _, typ := range pawl.CheckpointTypes {
			ref := w.checkpoint(l, typ, `1`)
			if typ == pawl.ManualCheckpoint || typ == pawl.ApprovalPoint {
				want = append(want, fmt.Sprint(typ, " ", ref.Sequence))
			}
		}
		_, err := first(
			w.svc.CheckpointTasks(
				w.ctx,
				[]pawl.TaskCheckpoint{{TaskID: t.ID, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: raw(`1`)}}},
			),
		)
		w.ok(err, "checkpoint")
		want = append(want, "manual_checkpoint 10")
		var got []string
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "checkpointed"}) {
			d := objectOf(w, e.Data)
			got = append(got, fmt.Sprint(d["type"], " ", d["sequence"]))
			w.same([]any{e.FromState, e.ToState}, []any{"", ""}, "states")
		}
		w.same(got, want, "events")
	}},
	{"they are listed in order, newest first, by type, name, metadata and item", func(w *fixture) {
		t := w.manyItems(2)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 2})
		for n, c := range []pawl.NewCheckpoint{
			{Type: pawl.IterationStart}, {Type: pawl.ToolExecuted, Name: "x"}, {Type: pawl.IterationEnd}, {Type: pawl.IterationStart},
			{Type: pawl.ToolExecuted, Name: "y"}, {Type: pawl.ToolExecuted, Name: "x"},
		} {
			c.Snapshot = raw(fmt.Sprint(n + 1))
			c.Metadata = raw(fmt.Sprintf(`{"half":%d,"by":"n%d"}`, n/3, n))
			_, err := pawl.SaveCheckpoint(w.ctx, w.svc, ls[n%2].Fence(), c)
			w.ok(err, "checkpoint")
		}
		for want, f := range map[string]pawl.CheckpointFilter{
			"1 2 3 4 5 6": {TaskID: t.ID},
			"6 5 4 3 2 1": {TaskID: t.ID, Desc: true},
			"6":           {TaskID: t.ID, Desc: true, Page: pawl.Page{Limit: 1}},
			"4":           {TaskID: t.ID, Types: []string{pawl.IterationStart}, Desc: true, Page: pawl.Page{Limit: 1}},
			"1 3 4":       {TaskID: t.ID, Types: []string{pawl.IterationStart, pawl.IterationEnd}},
			"2 6":         {TaskID: t.ID, Names: []string{"x", "none"}},
			"6 2":         {TaskID: t.ID, NamePrefix: "x", Desc: true},
			"":            {TaskID: t.ID, Metadata: map[string]string{"no": "such"}},
			"4 5 6":       {TaskID: t.ID, Metadata: map[string]string{"half": "1"}},
			"5":           {Metadata: map[string]string{"half": "1", "by": "n4"}},
			"1 3 5":       {TaskID: t.ID, ItemID: ls[0].ID},
			"2 4 6":       {ItemID: ls[1].ID},
		} {
			var got []string
			for _, c := range w.listCheckpoints(f) {
				got = append(got, string(c.Snapshot))
			}
			w.same(strings.Join(got, " "), want, "snapshots")
		}
	}},
	{"they are counted by type", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		for _, typ := range []string{pawl.IterationStart, pawl.LLMResponse, pawl.IterationStart} {
			w.checkpoint(l, typ, `1`)
		}
		w.failNow(l, "no")
		got, err := w.svc.CountCheckpoints(w.ctx, t.ID)
		w.ok(err, "count")
		w.same(got, map[string]int64{pawl.IterationStart: 2, pawl.LLMResponse: 1, pawl.ErrorBoundary: 1}, "counts")
	}},
}}

var resumes = noun{"resume", []promise{
	{"an item that has saved nothing resumes from nothing", func(w *fixture) {
		t := w.oneItem()
		got, err := w.svc.Resume(w.ctx, w.onlyItem(t.ID).ID)
		w.ok(err, "resume")
		w.same(got, pawl.ResumeState{ItemID: w.onlyItem(t.ID).ID, TaskID: t.ID}, "the state")
		_, err = w.svc.Resume(w.ctx, "itm_nope")
		w.refused(err, pawl.CodeNotFound)
	}},
	{"the next attempt reads what earlier ones saved in one call", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		step := func(name, snapshot string) {
			_, err := pawl.SaveCheckpoint(
				w.ctx,
				w.svc,
				l.Fence(),
				pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: name, ArgsHash: "h-" + name, Snapshot: raw(snapshot)},
			)
			w.ok(err, "checkpoint")
		}
		w.checkpoint(l, pawl.IterationStart, `{"i":1}`)
		step("fetch", `"old"`)
		w.checkpoint(l, pawl.IterationEnd, `{"i":1}`)
		w.checkpoint(l, pawl.IterationStart, `{"i":2}`)
		step("parse", `"parsed"`)
		step("fetch", `"new"`)
		w.expire(l)
		l = w.claim("w2")
		got, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same([]any{got.ItemID, got.TaskID, got.Attempt}, []any{l.ID, t.ID, 2}, "whose")
		w.same([]any{
			string(got.IterationStart.Snapshot), got.IterationStart.Sequence, string(got.IterationEnd.Snapshot), got.IterationEnd.Sequence,
			got.ErrorBoundary.Sequence, got.Newest.Sequence, got.Newest.Type,
		}, []any{`{"i":2}`, int64(4), `{"i":1}`, int64(3), int64(7), int64(7), pawl.ErrorBoundary}, "the points")
		w.same(len(got.Steps), 2, "steps")
		w.same(
			[]any{string(got.Steps["fetch"].Snapshot), got.Steps["fetch"].ArgsHash, string(got.Steps["parse"].Snapshot)},
			[]any{`"new"`, "h-fetch", `"parsed"`},
			"steps",
		)
		w.checkpoint(l, pawl.CustomCheckpoint, `"here"`)
		got, err = w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same([]any{string(got.Newest.Snapshot), got.ErrorBoundary.Sequence}, []any{`"here"`, int64(7)}, "the newest")
	}},
	{"a small state is one page, and a malformed cursor is refused", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.IterationStart, `1`)
		whole, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		page, err := w.svc.ResumePage(w.ctx, l.ID, "")
		w.ok(err, "resume page")
		w.same(page, whole, "the page")
		w.same(page.Next, "", "next")
		for _, cursor := range []string{"x", "step", "step:", "step:x", "step:-1", ":1"} {
			_, err := w.svc.ResumePage(w.ctx, l.ID, cursor)
			w.refused(err, pawl.CodeInvalid)
		}
	}},
	{"the steps of one item are not another's", func(w *fixture) {
		w.manyItems(2)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 2})
		_, err := pawl.SaveCheckpoint(w.ctx, w.svc, ls[0].Fence(), pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "fetch", Snapshot: raw(`1`)})
		w.ok(err, "checkpoint")
		got, err := w.svc.Resume(w.ctx, ls[1].ID)
		w.ok(err, "resume")
		w.same(len(got.Steps), 0, "steps")
	}},
	{"an error does not hide the steps", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.LLMResponse, Name: "ask", Snapshot: raw(`"answer"`)})
		w.ok(err, "checkpoint")
		_, err = pawl.Fail(w.ctx, w.svc, l.Fence(), pawl.RetryAfter(0, errors.New("boom")))
		w.ok(err, "fail")
		got, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(string(got.Steps["ask"].Snapshot), `"answer"`, "the step")
		if got.ErrorBoundary == nil || !strings.Contains(string(got.ErrorBoundary.Snapshot), "boom") {
			w.Errorf("error_boundary is %v", got.ErrorBoundary)
		}
	}},
}}
