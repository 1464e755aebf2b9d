package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var releases = noun{"release", []promise{
	{"a released item is claimable at once and no failure is counted", func(w *fixture) {
		t := w.oneItem()
		for n := range 5 {
			l := w.claim("w1")
			w.same([]any{l.Attempt, l.Failures}, []any{n + 1, 0}, "attempt, failures")
			m := w.release(l)
			w.same(m, pawl.Moved{ID: l.ID, TaskID: t.ID, State: pawl.ItemQueued, Attempt: n + 1}, "the answer")
		}
		w.same(w.onlyItem(t.ID).Error, (*pawl.Failure)(nil), "error")
	}},
	{"from in_progress too, with failures kept", func(w *fixture) {
		w.oneItem()
		w.failNow(w.claim("w1"), "no")
		l := w.claim("w1")
		w.heartbeat(l)
		w.same(w.release(l).Failures, 1, "failures")
		w.same(w.claim("w2").Failures, 1, "failures")
	}},
	{"its event is released", func(w *fixture) {
		t := w.oneItem()
		w.release(w.claim("w1"))
		l := w.claim("w1")
		w.heartbeat(l)
		w.release(l)
		var got []any
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "released"}) {
			got = append(got, e.FromState+">"+e.ToState, e.TaskTo, e.Attempt, e.ActorID)
		}
		w.same(got, []any{"leased>queued", "", 1, "w1", "in_progress>queued", "", 2, "w1"}, "events")
	}},
}}

var suspensions = noun{"suspend", []promise{
	{"until a time: then the item is queued and no failure is counted", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		until := w.now().Add(time.Hour)
		m, err := pawl.Suspend(w.ctx, w.svc, l.Fence(), until)
		w.ok(err, "suspend")
		w.same([]any{m.ID, m.TaskID, m.State, m.Attempt, m.Failures}, []any{l.ID, t.ID, pawl.ItemWaiting, 1, 0}, "the answer")
		w.timeIs(m.RunAt, until, "run_at")
		i := w.onlyItem(t.ID)
		w.same(
			[]any{i.State, i.Status, w.task(t.ID).State},
			[]any{pawl.ItemWaiting, pawl.StatusPending, pawl.TaskQueued},
			"the item and its task",
		)
		w.timeIs(i.RunAt, until, "run_at")
		w.advance(time.Hour - time.Microsecond)
		w.sweep()
		w.noneClaimable()
		w.advance(time.Microsecond)
		w.same(w.sweep().Due, int64(1), "due")
		l = w.claim("w2")
		w.same([]any{l.Attempt, l.Failures}, []any{2, 0}, "attempt, failures")
	}},
	{"a waiting item can be cancelled", func(w *fixture) {
		t := w.oneItem()
		_, err := pawl.Suspend(w.ctx, w.svc, w.claim("w1").Fence(), w.now().Add(time.Hour))
		w.ok(err, "suspend")
		w.cancel(t.ID)
		w.same(w.onlyItem(t.ID).State, pawl.ItemCancelled, "state")
		w.advance(time.Hour)
		w.same(w.sweep().Due, int64(0), "due")
		w.noneClaimable()
	}},
	{"until a signal or a time: the time queues the item", func(w *fixture) {
		w.oneItem()
		until := w.now().Add(time.Minute)
		_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: w.claim("w1").Fence(), Signal: "approved", Until: &until}}))
		w.ok(err, "suspend")
		w.advance(time.Minute)
		w.sweep()
		w.claim("w1")
	}},
	{"its events are suspended and ready", func(w *fixture) {
		t := w.oneItem()
		_, err := pawl.Suspend(w.ctx, w.svc, w.claim("w1").Fence(), w.now().Add(time.Minute))
		w.ok(err, "suspend")
		w.advance(time.Minute)
		w.sweep()
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID})
		w.same(len(got), 4, "events")
		var shown []any
		for _, e := range got[2:] {
			shown = append(shown, e.Event, e.FromState, e.ToState, e.ActorType)
		}
		w.same(shown, []any{"suspended", "leased", "waiting", "worker", "ready", "waiting", "queued", "system"}, "events")
	}},
	{"a time too far ahead is invalid", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		until := w.now().Add(292 * 365 * 24 * time.Hour)
		_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &until}}))
		w.invalid(err, "/until")
		w.heartbeat(l)
	}},
}}

var schedules = noun{"run_at", []promise{
	{"an item with a future run_at is scheduled and becomes due", func(w *fixture) {
		at := w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "a", RunAt: &at})
		w.same(t.State, pawl.TaskQueued, "the task")
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Status}, []any{pawl.ItemScheduled, pawl.StatusPending}, "the item")
		w.timeIs(i.RunAt, at, "run_at")
		w.noneClaimable()
		w.advance(time.Hour - time.Microsecond)
		w.sweep()
		w.noneClaimable()
		w.advance(time.Microsecond)
		w.same(w.sweep().Due, int64(1), "due")
		w.same(w.claim("w1").Attempt, 1, "attempt")
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID})
		w.same(
			[]any{got[0].ToState, got[1].Event, got[1].FromState, got[1].ToState, got[1].ActorType},
			[]any{"scheduled", "due", "scheduled", "queued", "system"},
			"events",
		)
	}},
	{"an item with a past run_at is queued at once", func(w *fixture) {
		for _, at := range []time.Time{w.now(), w.now().Add(-time.Hour), w.now().AddDate(-300, 0, 0), {}} {
			t := w.create(pawl.NewTask{Type: "a", RunAt: &at})
			w.same(w.onlyItem(t.ID).State, pawl.ItemQueued, "state")
		}
	}},
	{"each item may have its own", func(w *fixture) {
		soon, later := w.now().Add(time.Minute), w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "a", RunAt: &later, Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`), RunAt: &soon}}})
		w.advance(time.Minute)
		w.same(w.sweep().Due, int64(1), "due")
		w.same(string(w.claim("w1").Input), `2`, "input")
		w.noneClaimable()
		w.same(w.items(t.ID)[0].State, pawl.ItemScheduled, "state")
	}},
	{"a time in another zone is the same instant", func(w *fixture) {
		at := w.now().Add(time.Hour).In(time.FixedZone("x", 5*3600))
		t := w.create(pawl.NewTask{Type: "a", RunAt: &at})
		got := w.onlyItem(t.ID).RunAt
		w.timeIs(got, at, "run_at")
		w.same(got.Location().String(), "UTC", "location")
	}},
	{"a scheduled item does not block a lower priority", func(w *fixture) {
		at := w.now().Add(time.Hour)
		w.create(pawl.NewTask{Type: "a", Priority: 100, RunAt: &at})
		low := w.oneItem()
		w.same(w.claim("w1").TaskID, low.ID, "claimed")
	}},
	{"more than ten years ahead is invalid", func(w *fixture) {
		for _, d := range []time.Duration{5 * pawl.MaxDelay, 292 * 365 * 24 * time.Hour} {
			at := w.now().Add(d)
			_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", RunAt: &at})
			w.invalid(err, "/run_at")
			_, err = pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), RunAt: &at}}})
			w.invalid(err, "/items/0/run_at")
		}
		at := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", RunAt: &at})
		w.invalid(err, "/run_at")
	}},
}}
