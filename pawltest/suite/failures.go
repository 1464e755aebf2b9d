package suite

import (
	"errors"
	"time"

	"github.com/pawl-work/pawl"
)

// failWithBackoff fails an attempt; the item runs again after the policy's back-off.
func (w *fixture) failWithBackoff(l pawl.Lease) pawl.Moved {
	w.Helper()
	m, err := pawl.Fail(w.ctx, w.svc, l.Fence(), errors.New("no"))
	w.ok(err, "fail")
	return m
}

var failures = noun{"failures", []promise{
	{"a failure waits for its back-off, then runs again", func(w *fixture) {
		t := w.oneItem()
		m := w.failWithBackoff(w.claim("w1"))
		w.same([]any{m.TaskID, m.State, m.Attempt, m.Failures}, []any{t.ID, pawl.ItemScheduled, 1, 1}, "the answer")
		i := w.onlyItem(t.ID)
		w.same(
			[]any{i.State, i.Status, i.Failures, i.Error},
			[]any{pawl.ItemScheduled, pawl.StatusPending, 1, &pawl.Failure{Message: "no"}},
			"the item",
		)
		if m.RunAt == nil {
			w.Fatal("the answer has no run_at")
		}
		w.timeIs(i.RunAt, *m.RunAt, "run_at")
		w.advance(m.RunAt.Sub(w.now()) - time.Microsecond)
		w.sweep()
		w.noneClaimable()
		w.advance(time.Microsecond)
		w.sweep()
		l := w.claim("w2")
		w.same([]any{l.ID, l.Attempt, l.Failures}, []any{i.ID, 2, 1}, "the second attempt")
	}},
	{"the back-off is a minute, give or take a fifth, and doubles up to an hour", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", MaxAttempts: 12})
		for n := range 11 {
			m := w.failWithBackoff(w.claim("w1"))
			mid := min(time.Hour, time.Minute<<n)
			if d := m.RunAt.Sub(w.now()); d < mid*2/3 || d > mid*4/3 {
				w.Errorf("after %d failures it waits %v, want %v ± a third", n+1, d, mid)
			}
			w.advance(m.RunAt.Sub(w.now()))
			w.sweep()
		}
		w.same(w.onlyItem(t.ID).Failures, 11, "failures")
	}},
	{"back-offs have jitter", func(w *fixture) {
		w.manyItems(20)
		seen := map[time.Time]bool{}
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 20}) {
			seen[*w.failWithBackoff(l).RunAt] = true
		}
		if len(seen) < 10 {
			w.Errorf("20 failures come back at %d different times", len(seen))
		}
	}},
	{"retry_after decides instead of the back-off", func(w *fixture) {
		w.oneItem()
		m, err := first(
			w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: w.claim("w1").Fence(), Error: pawl.Failure{Message: "no"}, RetryAfterMS: ptr(int64(1500))}}),
		)
		w.ok(err, "fail")
		w.timeIs(m.RunAt, w.now().Add(1500*time.Millisecond), "run_at")
	}},
	{"retry_after 0 runs the item again at once", func(w *fixture) {
		w.oneItem()
		m := w.failNow(w.claim("w1"), "no")
		w.same([]any{m.State, m.RunAt}, []any{pawl.ItemQueued, (*time.Time)(nil)}, "the answer")
		w.same(w.claim("w1").Attempt, 2, "attempt")
	}},
	{"three attempts are three executions", func(w *fixture) {
		t := w.oneItem()
		for n := 1; n <= 3; n++ {
			l := w.claim("w1")
			w.same([]any{l.Attempt, l.Failures}, []any{n, n - 1}, "attempt, failures")
			m := w.failNow(l, "no")
			want := pawl.ItemQueued
			if n == 3 {
				want = pawl.ItemFailed
			}
			w.same([]any{m.State, m.Failures}, []any{want, n}, "the answer")
		}
		w.noneClaimable()
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Status, i.Failures}, []any{pawl.ItemFailed, pawl.StatusFailed, 3}, "the item")
		w.timeIs(i.CompletedAt, w.now(), "completed_at")
		w.timeIs(w.task(t.ID).CompletedAt, w.now(), "the task's completed_at")
	}},
	{"the budget may be one", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", MaxAttempts: 1})
		w.failNow(w.claim("w1"), "no")
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"a permanent failure is not retried", func(w *fixture) {
		t := w.oneItem()
		m := w.failPermanently(w.claim("w1"), "no such file")
		w.same([]any{m.State, m.Failures}, []any{pawl.ItemFailed, 1}, "the answer")
		w.same(w.onlyItem(t.ID).Error, &pawl.Failure{Message: "no such file"}, "error")
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"the last error stays readable until the item has completed", func(w *fixture) {
		t := w.oneItem()
		says := func(want string) {
			w.Helper()
			i := w.onlyItem(t.ID)
			if i.Error == nil || i.Error.Message != want {
				w.Fatalf("%s: error is %v, want %q", i.State, i.Error, want)
			}
		}
		w.failNow(w.claim("w1"), "first")
		says("first")
		l := w.claim("w1")
		says("first")
		w.heartbeat(l)
		says("first")
		w.failNow(l, "second")
		says("second")
		l = w.claim("w1")
		says("second")
		w.complete(l, `1`)
		w.same([]any{w.onlyItem(t.ID).Error, w.task(t.ID).Error}, []any{(*pawl.Failure)(nil), (*pawl.Failure)(nil)}, "error of what completed")
	}},
	{"an error has a code, a message and a detail", func(w *fixture) {
		t := w.oneItem()
		f := pawl.Failure{Code: "oom", Message: "out of memory", Detail: raw(`{"rss": 12345678901234567890}`)}
		_, err := first(w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: w.claim("w1").Fence(), Error: f, Retryable: ptr(false)}}))
		w.ok(err, "fail")
		got := w.onlyItem(t.ID).Error
		if got == nil {
			w.Fatal("no error")
		}
		w.same([]any{got.Code, got.Message, canonical(got.Detail)}, []any{"oom", "out of memory", canonical(f.Detail)}, "error")
	}},
	{"a fail leaves an error_boundary", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.IterationStart, `1`)
		w.failNow(l, "no")
		list, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskID: t.ID})
		w.ok(err, "list checkpoints")
		w.same(len(list.Items), 2, "checkpoints")
		c := list.Items[1]
		w.same([]any{c.Type, c.Sequence, c.ItemID, c.Attempt}, []any{pawl.ErrorBoundary, int64(2), l.ID, 1}, "the boundary")
		snap := objectOf(w, c.Snapshot)
		w.same([]any{snap["failures"], snap["max_attempts"], snap["expired_lease"]}, []any{1.0, 3.0, nil}, "the snapshot")
	}},
	{"its event is failed, whatever the next state is", func(w *fixture) {
		t := w.oneItem()
		w.failNow(w.claim("w1"), "no")
		m := w.failWithBackoff(w.claim("w1"))
		w.advance(m.RunAt.Sub(w.now()))
		w.sweep()
		w.failNow(w.claim("w1"), "no")
		var got []any
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "failed"}) {
			got = append(got, e.FromState+">"+e.ToState, e.TaskFrom+">"+e.TaskTo, e.Attempt, e.ActorType, e.ActorID)
		}
		w.same(got, []any{
			"leased>queued", ">", 1, "worker", "w1",
			"leased>scheduled", ">", 2, "worker", "w1",
			"leased>failed", "open>failed", 3, "worker", "w1",
		}, "events")
	}},
	{"a delay out of bounds is invalid", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for _, ms := range []int64{-1, 1<<63 - 1, (292 * 365 * 24 * time.Hour).Milliseconds()} {
			_, err := first(w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}, RetryAfterMS: &ms}}))
			w.invalid(err, "/retry_after_ms")
		}
		w.heartbeat(l)
	}},
}}

var retries = noun{"retry", []promise{
	{"a retried task is open again, with no failures and the same attempts", func(w *fixture) {
		t := w.oneItem()
		w.failPermanently(w.claim("w1"), "no")
		w.advance(time.Minute)
		got := w.retry(t.ID)
		w.same(
			[]any{got.ID, got.State, got.RetryCount, got.Version, got.CompletedAt},
			[]any{t.ID, pawl.TaskQueued, 0, 2, (*time.Time)(nil)},
			"the task",
		)
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Failures, i.Attempt, i.CompletedAt}, []any{pawl.ItemQueued, 0, 1, (*time.Time)(nil)}, "the item")
		w.same(w.task(t.ID), got, "the answer is the task")
		for n := range 3 {
			l := w.claim("w2")
			w.same([]any{l.Attempt, l.Failures}, []any{n + 2, n}, "attempt, failures")
			w.failNow(l, "no")
		}
		got = w.task(t.ID)
		w.same([]any{got.State, got.Version}, []any{pawl.TaskFailed, 3}, "the task")
	}},
	{"only failed items run again", func(w *fixture) {
		t := w.manyItems(3)
		all := w.items(t.ID)
		w.moveTo(t.ID, all[0].ID, pawl.ItemCompleted)
		w.moveTo(t.ID, all[1].ID, pawl.ItemFailed)
		w.moveTo(t.ID, all[2].ID, pawl.ItemFailed)
		got := w.retry(t.ID)
		w.same([]any{got.State, got.ItemsOpen}, []any{pawl.TaskInProgress, 2}, "the task")
		w.same(w.item(all[0].ID).State, pawl.ItemCompleted, "the completed item")
		w.complete(w.claim("w1"), `1`)
		w.complete(w.claim("w1"), `1`)
		got = w.task(t.ID)
		w.same([]any{got.State, got.Version}, []any{pawl.TaskCompleted, 3}, "the task")
	}},
	{"single items can be retried", func(w *fixture) {
		t := w.manyItems(2)
		all := w.items(t.ID)
		w.moveTo(t.ID, all[0].ID, pawl.ItemFailed)
		w.moveTo(t.ID, all[1].ID, pawl.ItemFailed)
		got := w.retry(t.ID, all[1].ID)
		w.same([]any{got.State, got.ItemsOpen, w.item(all[0].ID).State, w.item(all[1].ID).State},
			[]any{pawl.TaskInProgress, 1, pawl.ItemFailed, pawl.ItemQueued}, "the task and its items")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskFailed, "the other is still failed")
	}},
	{"a failed item of an open task may be retried", func(w *fixture) {
		t := w.manyItems(2)
		all := w.items(t.ID)
		w.moveTo(t.ID, all[0].ID, pawl.ItemFailed)
		got := w.retry(t.ID, all[0].ID)
		w.same([]any{got.State, got.ItemsOpen, got.Version}, []any{pawl.TaskQueued, 2, 0}, "the task")
		w.complete(w.claim("w1"), `1`)
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"retried items are claimed before new ones", func(w *fixture) {
		t := w.oneItem()
		w.failPermanently(w.claim("w1"), "no")
		w.oneItem()
		w.retry(t.ID)
		w.same(w.claim("w1").TaskID, t.ID, "first")
	}},
	{"its event is retried, by a user", func(w *fixture) {
		t := w.oneItem()
		w.failPermanently(w.claim("w1"), "no")
		w.retry(t.ID)
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "retried"})
		w.same(len(got), 1, "events")
		e := got[0]
		w.same([]any{e.FromState, e.ToState, e.TaskFrom, e.TaskTo, e.ActorType, e.ItemID == w.onlyItem(t.ID).ID},
			[]any{"failed", "queued", "failed", "open", pawl.ActorUser, true}, "the event")
	}},
	{"an item that has not failed cannot be retried", func(w *fixture) {
		call := func(id string, items ...string) error {
			_, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: id, ItemIDs: items}}))
			return err
		}
		t := w.oneItem()
		w.conflict(call(t.ID), "queued", "cancel")
		l := w.claim("w1")
		w.conflict(call(t.ID), "checked_out", "cancel")
		w.heartbeat(l)
		w.conflict(call(t.ID), "in_progress", "cancel")
		w.complete(l, `1`)
		w.conflict(call(t.ID), "completed")
		c := w.oneItem()
		w.cancel(c.ID)
		w.conflict(call(c.ID), "cancelled")
		w.refused(call("tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), pawl.CodeNotFound)
		f := w.manyItems(2)
		w.moveTo(f.ID, w.items(f.ID)[0].ID, pawl.ItemFailed)
		w.moveTo(f.ID, w.items(f.ID)[1].ID, pawl.ItemCompleted)
		w.conflict(call(f.ID, w.items(f.ID)[1].ID), "completed")
		w.refused(call(f.ID, l.ID), pawl.CodeNotFound)
		w.same(w.task(f.ID).State, pawl.TaskFailed, "state")
	}},
}}

var burials = noun{"bury", []promise{
	{"a failed task can be dead-lettered and then retried", func(w *fixture) {
		t := w.manyItems(2)
		all := w.items(t.ID)
		w.moveTo(t.ID, all[0].ID, pawl.ItemFailed)
		w.moveTo(t.ID, all[1].ID, pawl.ItemCompleted)
		got := w.bury(t.ID)
		w.same([]any{got.State, got.Status, got.Version}, []any{pawl.TaskDeadLettered, pawl.StatusFailed, 2}, "the task")
		i := w.item(all[0].ID)
		w.same([]any{i.State, i.Status, i.Failures}, []any{pawl.ItemDeadLettered, pawl.StatusFailed, 1}, "the item")
		w.same(w.item(all[1].ID).State, pawl.ItemCompleted, "the completed item")
		got = w.retry(t.ID)
		w.same([]any{got.State, got.ItemsOpen, got.Version}, []any{pawl.TaskInProgress, 1, 3}, "the task")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"a task of one item can be dead-lettered", func(w *fixture) {
		t := w.oneItem()
		w.failPermanently(w.claim("w1"), "no")
		w.same(w.bury(t.ID).State, pawl.TaskDeadLettered, "state")
		w.same(w.onlyItem(t.ID).State, pawl.ItemDeadLettered, "the item")
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "dead_lettered"})
		w.same(len(got), 1, "events")
		w.same([]any{got[0].FromState, got[0].ToState, got[0].TaskFrom, got[0].TaskTo, got[0].ActorType},
			[]any{"failed", "dead_lettered", "failed", "dead_lettered", pawl.ActorUser}, "the event")
		w.retry(t.ID)
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"the sweep dead-letters after 48 hours", func(w *fixture) {
		one, two := w.oneItem(), w.manyItems(2)
		w.failPermanently(w.claimItem("w1", w.onlyItem(one.ID).ID), "no")
		for _, i := range w.items(two.ID) {
			w.moveTo(two.ID, i.ID, pawl.ItemFailed)
		}
		w.advance(48*time.Hour - time.Second)
		w.same(w.sweep().Buried, int64(0), "buried a second early")
		w.advance(2 * time.Second)
		if w.sweep().Buried == 0 {
			w.Error("buried none")
		}
		for _, t := range []pawl.Task{one, two} {
			w.same(w.task(t.ID).State, pawl.TaskDeadLettered, "state")
			for _, i := range w.items(t.ID) {
				w.same(i.State, pawl.ItemDeadLettered, "item")
			}
			for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "dead_lettered"}) {
				w.same(e.ActorType, pawl.ActorSystem, "actor")
			}
		}
	}},
	{"an item that has not failed cannot be dead-lettered", func(w *fixture) {
		call := func(id string) error {
			_, err := first(w.svc.BuryTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
			return err
		}
		t := w.oneItem()
		w.conflict(call(t.ID), "queued", "cancel")
		w.failPermanently(w.claim("w1"), "no")
		w.bury(t.ID)
		w.conflict(call(t.ID), "dead_lettered", "retry", "cancel")
		w.cancel(t.ID)
		w.conflict(call(t.ID), "cancelled")
		w.refused(call("tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), pawl.CodeNotFound)
	}},
}}
