package suite

import (
	"errors"
	"time"

	"github.com/pawl-work/pawl"
)

// repeatable is a verb that ends a lease, with a body and with other bodies. Each is called with the
// fence of a claimed item of its type.
type repeatable struct {
	name   string
	typ    pawl.Type
	state  pawl.ItemState // in which the verb leaves the item
	call   func(w *fixture, f pawl.Fence) (pawl.Moved, error)
	others []func(w *fixture, f pawl.Fence) (pawl.Moved, error)
}

type anyFence = func(w *fixture, f pawl.Fence) (pawl.Moved, error)

func completeWith(result string) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) { return pawl.Complete(w.ctx, w.svc, f, raw(result)) }
}

func failWith(c pawl.FailCall) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) {
		c := c // of this call alone: two may be in progress
		c.Fence = f
		return first(w.svc.Fail(w.ctx, []pawl.FailCall{c}))
	}
}

func releaseFor(seconds int) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) {
		return first(w.svc.Release(w.ctx, []pawl.ReleaseCall{{Fence: f, DelaySeconds: seconds}}))
	}
}

func suspendWith(signal, key, since string, after time.Duration) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) {
		c := pawl.SuspendCall{Fence: f, Signal: signal, Key: key, Since: since}
		if after > 0 {
			c.Until = ptr(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(after))
		}
		return first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{c}))
	}
}

func submitWith(result, evidence, notes string) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) {
		c := pawl.SubmitCall{Fence: f, Result: raw(result), Notes: notes}
		if evidence != "" {
			c.Evidence = raw(evidence)
		}
		return first(w.svc.Submit(w.ctx, []pawl.SubmitCall{c}))
	}
}

func finalizeWith(mode, notes string) anyFence {
	return func(w *fixture, f pawl.Fence) (pawl.Moved, error) {
		return first(w.svc.Finalize(w.ctx, []pawl.FinalizeCall{{Fence: f, Mode: mode, Notes: notes}}))
	}
}

// oneAlbum is album for results of which only the title is required.
var oneAlbum = pawl.Type{Name: "one-album", Parts: []pawl.PartRule{{Key: "title", Schema: raw(`{"type":"string"}`)}},
	Approval: pawl.Approval{Mode: pawl.ApprovalManual}}

var (
	plainType  = pawl.Type{Name: "plain"}
	brokenCall = pawl.FailCall{Error: pawl.Failure{Code: "x", Message: "broken", Detail: raw(`{"a":1}`)}}
)

var repeatables = []repeatable{
	{"complete", plainType, pawl.ItemCompleted, completeWith(`{"a": [1, "b  c"]}`),
		[]anyFence{completeWith(`{"a": [1, "b c"]}`), completeWith(`{"a": [1.0, "b  c"]}`), completeWith(`null`), failWith(brokenCall),
			releaseFor(0)}},
	{"complete without a result", plainType, pawl.ItemCompleted, completeWith(``), []anyFence{completeWith(`0`), completeWith(`{}`)}},
	{"fail", plainType, pawl.ItemScheduled, failWith(brokenCall), []anyFence{
		failWith(pawl.FailCall{Error: pawl.Failure{Code: "x", Message: "broken"}}),
		failWith(pawl.FailCall{Error: pawl.Failure{Code: "x", Message: "broken!", Detail: raw(`{"a":1}`)}}),
		failWith(pawl.FailCall{Error: brokenCall.Error, Retryable: ptr(false)}),
		failWith(pawl.FailCall{Error: brokenCall.Error, RetryAfterMS: ptr(int64(0))}), completeWith(`1`)}},
	{"fail for good", plainType, pawl.ItemFailed, failWith(pawl.FailCall{Error: brokenCall.Error, Retryable: ptr(false)}),
		[]anyFence{failWith(brokenCall)}},
	{"fail and run again at once", plainType, pawl.ItemQueued, failWith(pawl.FailCall{Error: brokenCall.Error, RetryAfterMS: ptr(int64(0))}),
		[]anyFence{failWith(brokenCall)}},
	{"release", plainType, pawl.ItemQueued, releaseFor(0), []anyFence{releaseFor(1), completeWith(`1`)}},
	{"release for a time", plainType, pawl.ItemScheduled, releaseFor(60), []anyFence{releaseFor(0), releaseFor(61)}},
	{"suspend for a signal", plainType, pawl.ItemWaiting, suspendWith("go", "k", "", 0), []anyFence{
		suspendWith("go", "", "", 0), suspendWith("gone", "k", "", 0), suspendWith("go", "k", pawl.SinceEver, 0),
		suspendWith("go", "k", "", time.Hour)}},
	{"suspend until a time", plainType, pawl.ItemWaiting, suspendWith("", "", "", time.Hour),
		[]anyFence{suspendWith("", "", "", time.Hour+time.Microsecond), releaseFor(0)}},
	{"submit", essay, pawl.ItemSubmitted, submitWith(`{"title":"a"}`, `{"e":1}`, "n"), []anyFence{
		submitWith(`{"title":"b"}`, `{"e":1}`, "n"), submitWith(`{"title":"a"}`, ``, "n"), submitWith(`{"title":"a"}`, `{"e":1}`, ""),
		finalizeWith("", ""), completeWith(`{"title":"a"}`)}},
	{"finalize", oneAlbum, pawl.ItemSubmitted, finalizeWith("", "n"), []anyFence{
		finalizeWith(pawl.FinalizeBestEffort, "n"), finalizeWith("", "m"), submitWith(`{}`, ``, "n")}},
}

// claimedOf creates a task of n items of a type and claims the first. If its result has parts, it
// has the title.
func (w *fixture) claimedOf(t pawl.Type, n int) (pawl.Task, pawl.Lease) {
	w.Helper()
	w.putType(t)
	task := w.create(pawl.NewTask{Type: t.Name, Items: make([]pawl.NewItem, n)})
	l := w.claimOf(t.Name)
	if len(t.Parts) > 0 {
		w.ok(w.tryPart(l, "title", nil, `"a"`), "part")
	}
	return task, l
}

// endTask cancels a task unless it has ended.
func (w *fixture) endTask(id string) {
	w.Helper()
	if w.task(id).State != pawl.TaskCompleted {
		w.cancel(id)
	}
}

// repeatedAs checks that a call is answered as an earlier one was, and that it changes nothing.
func (w *fixture) repeatedAs(want pawl.Moved, taskID, what string, call func() (pawl.Moved, error)) {
	w.Helper()
	before := w.taskData(taskID)
	got, err := call()
	w.ok(err, what)
	want.Repeated = true
	if want.RunAt != nil && got.RunAt != nil {
		w.timeIs(got.RunAt, *want.RunAt, "run_at")
		got.RunAt = want.RunAt
	}
	w.same(got, want, what+", the answer")
	w.same(w.taskData(taskID), before, what+" left something behind")
}

var repeatedCalls = noun{"repeated calls", []promise{
	{"a call that ended a lease is answered again, and its effects happen once", func(w *fixture) {
		for _, v := range repeatables {
			for _, items := range []int{1, 2} {
				task, l := w.claimedOf(v.typ, items)
				m, err := v.call(w, l.Fence())
				w.ok(err, v.name)
				w.same([]any{m.State, m.Repeated}, []any{v.state, false}, v.name+", the first answer")
				for range 2 {
					w.repeatedAs(m, task.ID, v.name+", repeated", func() (pawl.Moved, error) { return v.call(w, l.Fence()) })
				}
				w.endTask(task.ID)
			}
		}
	}},
	{"with another body, verb, worker or attempt it is refused", func(w *fixture) {
		for _, v := range repeatables {
			task, l := w.claimedOf(v.typ, 1)
			_, err := v.call(w, l.Fence())
			w.ok(err, v.name)
			before := w.taskData(task.ID)
			for n, other := range v.others {
				if _, err := other(w, l.Fence()); pawl.CodeOf(err) != pawl.CodeConflict && pawl.CodeOf(err) != pawl.CodeLeaseLost {
					w.Errorf("%s, other call %d: %v", v.name, n, err)
				}
			}
			worker, attempt := l.Fence(), l.Fence()
			worker.WorkerID, attempt.Attempt = "other", l.Attempt+1
			for _, f := range []pawl.Fence{worker, attempt} {
				_, err := v.call(w, f)
				w.refused(err, pawl.CodeLeaseLost)
			}
			w.same(w.taskData(task.ID), before, v.name+": a refusal left something behind")
			w.endTask(task.ID)
		}
	}},
	{"also when the item is at a later attempt, has ended or was cancelled since", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		released := w.release(l)
		again := w.claim("w2")
		repeat := func(what string) {
			w.Helper()
			w.repeatedAs(released, task.ID, what, func() (pawl.Moved, error) { return pawl.Release(w.ctx, w.svc, l.Fence()) })
		}
		repeat("while another worker holds it")
		w.heartbeat(again)
		done := w.complete(again, `1`)
		repeat("after it has completed")
		w.repeatedAs(done, task.ID, "complete", func() (pawl.Moved, error) { return pawl.Complete(w.ctx, w.svc, again.Fence(), raw(`1`)) })

		task = w.oneItem()
		l = w.claim("w1")
		failed := w.failPermanently(l, "broken")
		w.cancel(task.ID)
		w.repeatedAs(failed, task.ID, "after a cancel", func() (pawl.Moved, error) {
			return pawl.Fail(w.ctx, w.svc, l.Fence(), pawl.Permanent(errors.New("broken")))
		})
	}},
	{"a call that was not carried out is no repeated one", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		w.expire(l)
		_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`1`))
		w.leaseLost(err, pawl.ReasonExpired, "queued", "w1", 1)
		again := w.claim("w1")
		w.complete(again, `1`)
		_, err = pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`1`)) // the same worker and body, of an earlier attempt
		w.leaseLost(err, pawl.ReasonTaken, "completed", "w1", 2)
		w.same(w.task(task.ID).State, pawl.TaskCompleted, "the task")
	}},
	{"twice in one batch", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		c := pawl.CompleteCall{Fence: l.Fence(), Result: raw(`{"a":1}`)}
		rs, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{c, c, {Fence: l.Fence(), Result: raw(`2`)}, c})
		w.ok(err, "complete")
		w.same([]any{rs[0].Value.Repeated, rs[1].Value.Repeated, rs[3].Value.Repeated}, []any{false, true, true}, "repeated")
		w.refused(rs[2].Err, pawl.CodeConflict)
	}},
	{"by two callers at once, one of them is the repeated one", func(w *fixture) {
		for _, v := range repeatables {
			_, l := w.claimedOf(v.typ, 1)
			type outcome struct {
				m   pawl.Moved
				err error
			}
			done := make(chan outcome, 2)
			for range 2 {
				go func() {
					m, err := v.call(w, l.Fence())
					done <- outcome{m, err}
				}()
			}
			one, two := <-done, <-done
			w.ok(one.err, v.name)
			w.ok(two.err, v.name)
			w.same(one.m.Repeated != two.m.Repeated, true, v.name+": one of them is repeated")
			w.endTask(l.TaskID)
		}
	}},
	{"with provenance, which is kept once", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		c := pawl.CompleteCall{Fence: l.Fence(), Result: raw(`1`), Provenance: &pawl.Provenance{AgentName: "bot", IdempotencyKey: "k"}}
		for n := range 2 {
			m, err := first(w.svc.Complete(w.ctx, []pawl.CompleteCall{c}))
			w.ok(err, "complete")
			w.same(m.Repeated, n == 1, "repeated")
		}
		w.same(len(w.provenanceOf(task.ID)), 1, "records of provenance")
	}},
	{"of a plan item and of an apply item", func(w *fixture) {
		w.putType(pawl.Type{Name: "report", Plan: pawl.Plan{Mode: pawl.PlanItem}})
		task := w.create(pawl.NewTask{Type: "report"})
		l := w.claimOf("report.plan")
		m := w.complete(l, `{"items":[{"input":1},{"input":2}]}`)
		w.repeatedAs(m, task.ID, "complete of a plan", func() (pawl.Moved, error) {
			return pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`{"items":[{"input":1},{"input":2}]}`))
		})
		_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`{"items":[{"input":1}]}`))
		w.refused(err, pawl.CodeConflict)
	}},
	{"of a wait for children", func(w *fixture) {
		task, l := w.parent()
		ids := w.spawn(l, 2)
		call := func(c pawl.ChildWait) (pawl.Moved, error) {
			return first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Children: &c}}))
		}
		m, err := call(pawl.ChildWait{IDs: ids})
		w.ok(err, "suspend")
		w.repeatedAs(m, task.ID, "suspend", func() (pawl.Moved, error) {
			return call(pawl.ChildWait{IDs: []string{ids[1], ids[0]}, OnFailure: pawl.OnFailureFail})
		})
		_, err = call(pawl.ChildWait{IDs: ids[:1]})
		w.refused(err, pawl.CodeLeaseLost)
	}},
}}
