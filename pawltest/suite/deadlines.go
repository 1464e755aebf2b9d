package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

// claimOf claims an item of a type.
func (w *fixture) claimOf(typ string) pawl.Lease {
	w.Helper()
	got := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}})
	if len(got) != 1 {
		w.Fatalf("%d items of type %s were claimed", len(got), typ)
	}
	return got[0]
}

// failedBy checks that a task and its only item failed with a code.
func (w *fixture) failedBy(t pawl.Task, code string, failures int) {
	w.Helper()
	got, it := w.task(t.ID), w.onlyItem(t.ID)
	w.same([]any{got.State, got.RetryCount, got.ItemsOpen}, []any{pawl.TaskFailed, failures, 0}, t.Type)
	w.same([]any{it.State, it.Failures, it.BlockedBy == nil, it.CompletedAt != nil}, []any{pawl.ItemFailed, failures, true, true}, t.Type)
	if got.Error == nil || it.Error == nil || got.Error.Code != code || it.Error.Code != code {
		w.Errorf("%s: the errors are %+v and %+v, not of code %s", t.Type, got.Error, it.Error, code)
	}
}

var deadlines = noun{"deadlines", []promise{
	{"an item without a result by its deadline fails, whatever its state", func(w *fixture) {
		at, later := w.now().Add(time.Minute), w.now().Add(time.Hour)
		tasks := []pawl.Task{
			w.create(pawl.NewTask{Type: "queued", Deadline: &at}), w.create(pawl.NewTask{Type: "scheduled", Deadline: &at, RunAt: &later}),
			w.create(pawl.NewTask{Type: "leased", Deadline: &at}), w.create(pawl.NewTask{Type: "started", Deadline: &at}),
			w.create(pawl.NewTask{Type: "waiting", Deadline: &at}),
		}
		w.timeIs(tasks[0].Deadline, at, "deadline in the answer")
		w.timeIs(w.task(tasks[0].ID).Deadline, at, "deadline of the task")
		w.timeIs(w.onlyItem(tasks[0].ID).Deadline, at, "deadline of its item")
		held, beating := w.claimOf("leased"), w.claimOf("started")
		w.heartbeat(beating)
		w.suspendFor(w.claimOf("waiting"), "never", "")
		w.advance(time.Minute - time.Microsecond)
		w.sweep()
		for _, t := range tasks {
			w.same(w.task(t.ID).Status == pawl.StatusFailed, false, "failed too early: "+t.Type)
		}
		w.advance(time.Microsecond)
		w.same(w.sweep().GivenUp, int64(5), "given up")
		for _, t := range tasks {
			w.failedBy(t, "deadline", 0)
		}
		_, err := first(w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: held.Fence(), Result: raw(`1`)}}))
		w.leaseLost(err, pawl.ReasonExpired, "failed", "w", 1)
		_, err = first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: beating.Fence()}}))
		w.leaseLost(err, pawl.ReasonExpired, "failed", "w", 1)
		w.same(w.sweep().GivenUp, int64(0), "given up by the next pass")
	}},
	{"what has a result by its deadline keeps it", func(w *fixture) {
		at := w.now().Add(time.Minute)
		t := w.create(pawl.NewTask{Type: "done", Deadline: &at})
		w.complete(w.claimOf("done"), `1`)
		w.advance(time.Hour)
		w.same(w.sweep().GivenUp, int64(0), "given up")
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"the earlier deadline of a task and its item counts, also for items that are added", func(w *fixture) {
		soon, at := w.now().Add(time.Minute), w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "many", Deadline: &at, Items: []pawl.NewItem{{Key: "a", Deadline: &soon}, {Key: "b"},
			{Key: "c", After: []string{"a"}}}})
		far := at.Add(time.Hour)
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Key: "d", Deadline: &far}}}}))
		w.ok(err, "add items")
		byKey := func() map[string]pawl.Item {
			out := map[string]pawl.Item{}
			for _, it := range w.items(t.ID) {
				out[it.Key] = it
			}
			return out
		}
		w.timeIs(byKey()["a"].Deadline, soon, "deadline of a")
		w.timeIs(byKey()["d"].Deadline, at, "deadline of d")
		w.advance(time.Minute)
		w.sweep()
		got := byKey()
		w.same([]any{got["a"].State, got["b"].State, got["c"].State, got["d"].State},
			[]any{pawl.ItemFailed, pawl.ItemQueued, pawl.ItemFailed, pawl.ItemQueued}, "after the first deadline")
		w.same(got["c"].Error.Code, "dependency_failed", "what depends on it")
		w.advance(time.Hour)
		w.sweep()
		w.same([]any{byKey()["b"].State, byKey()["d"].State, w.task(t.ID).State},
			[]any{pawl.ItemFailed, pawl.ItemFailed, pawl.TaskFailed}, "after the second deadline")
	}},
	{"a deadline counts once: what is retried or added after it has none", func(w *fixture) {
		at := w.now().Add(time.Minute)
		t := w.create(pawl.NewTask{Type: "again", Deadline: &at})
		w.advance(time.Minute)
		w.sweep()
		w.failedBy(t, "deadline", 0)
		w.retry(t.ID)
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{}}}}))
		w.ok(err, "add items")
		w.advance(time.Hour)
		w.same(w.sweep().GivenUp, int64(0), "given up")
		w.complete(w.claimOf("again"), `1`)
		w.complete(w.claimOf("again"), `2`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"a clone has the timeouts and not the deadline", func(w *fixture) {
		at := w.now().Add(time.Minute)
		t := w.create(pawl.NewTask{Type: "cloned", Deadline: &at, StartToCloseSeconds: 30, ScheduleToStartSeconds: 40})
		c := w.clone(pawl.TaskClone{TaskID: t.ID})
		w.same([]any{c.Deadline == nil, c.StartToCloseSeconds, c.ScheduleToStartSeconds}, []any{true, 30, 40}, "the clone")
		w.same(w.onlyItem(c.ID).Deadline == nil, true, "the clone's item")
	}},
	{"deadlines that passed and absurd times are refused", func(w *fixture) {
		past, now, far := w.now().Add(-time.Second), w.now(), w.now().Add(11*365*24*time.Hour)
		for pointer, t := range map[string]pawl.NewTask{
			"/deadline":                  {Type: "a", Deadline: &past},
			"/items/0/deadline":          {Type: "a", Items: []pawl.NewItem{{Deadline: &now}}},
			"/items/1/deadline":          {Type: "a", Items: []pawl.NewItem{{}, {Deadline: &far}}},
			"/start_to_close_seconds":    {Type: "a", StartToCloseSeconds: -1},
			"/schedule_to_start_seconds": {Type: "a", ScheduleToStartSeconds: 1 << 40},
		} {
			_, err := pawl.Create(w.ctx, w.svc, t)
			w.invalid(err, pointer)
		}
	}},
}}

var snoozes = noun{"snoozes", []promise{
	{"a release with a delay schedules the item and counts nothing", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "poll"})
		l := w.claimOf("poll")
		m, err := first(w.svc.Release(pawl.WithItem(w.ctx), []pawl.ReleaseCall{{Fence: l.Fence(), DelaySeconds: 60}}))
		w.ok(err, "release")
		w.same([]any{m.State, m.Failures, m.Attempt}, []any{pawl.ItemScheduled, 0, 1}, "the answer")
		it := w.onlyItem(t.ID)
		w.timeIs(it.RunAt, w.now().Add(time.Minute), "run_at")
		w.same([]any{it.State, it.Failures, *it.BlockedBy}, []any{pawl.ItemScheduled, 0,
			pawl.Blocked{Reason: pawl.BlockedByTime, Detail: "released with a delay", Until: it.RunAt}}, "item")
		_, err = first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
		w.leaseLost(err, pawl.ReasonReleased, "scheduled", "w", 1)
		w.advance(59 * time.Second)
		w.sweep()
		w.noneClaimable()
		w.advance(time.Second)
		w.sweep()
		again := w.claimOf("poll")
		w.same([]any{again.ID, again.Attempt, again.Failures}, []any{l.ID, 2, 0}, "the next claim")
		w.complete(again, `1`)
	}},
	{"also when work has begun, in tasks of one item and of many", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a"})
		w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {}}})
		for _, l := range w.takes("a", 3, 3) {
			_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(7)}}))
			w.ok(err, "progress")
			m, err := first(w.svc.Release(w.ctx, []pawl.ReleaseCall{{Fence: l.Fence(), DelaySeconds: 60}}))
			w.ok(err, "release")
			w.same([]any{m.State, m.Failures}, []any{pawl.ItemScheduled, 0}, "the answer")
		}
	}},
	{"a batch releases with different delays", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "polls", Items: []pawl.NewItem{{}, {}, {}}})
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w", Limit: 3})
		rs, err := w.svc.Release(w.ctx, []pawl.ReleaseCall{{Fence: ls[0].Fence()}, {Fence: ls[1].Fence(), DelaySeconds: 5},
			{Fence: ls[2].Fence(), DelaySeconds: -1}})
		w.ok(err, "release")
		w.same([]any{rs[0].Value.State, rs[1].Value.State}, []any{pawl.ItemQueued, pawl.ItemScheduled}, "states")
		w.invalid(rs[2].Err, "/delay_seconds")
		w.same([]any{w.item(ls[0].ID).State, w.item(ls[2].ID).State, w.task(t.ID).RetryCount}, []any{pawl.ItemQueued, pawl.ItemLeased, 0},
			"items")
	}},
	{"absurd delays are refused", func(w *fixture) {
		w.create(pawl.NewTask{Type: "poll"})
		l := w.claimOf("poll")
		_, err := first(w.svc.Release(w.ctx, []pawl.ReleaseCall{{Fence: l.Fence(), DelaySeconds: 1 << 40}}))
		w.invalid(err, "/delay_seconds")
	}},
}}

var timeouts = noun{"timeouts", []promise{
	{"a worker that hangs but sends heartbeats loses its lease", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "hang", StartToCloseSeconds: 40, MaxAttempts: 2})
		w.same(t.StartToCloseSeconds, 40, "in the answer")
		w.same(w.task(t.ID).StartToCloseSeconds, 40, "of the task")
		for attempt, failures := 1, 1; attempt <= 2; attempt, failures = attempt+1, failures+1 {
			l := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"hang"}, LeaseSeconds: 30})[0]
			w.same(l.LeaseExpiresAt.Equal(w.now().Add(30*time.Second)), true, "the end of the lease")
			ends := w.now().Add(40 * time.Second)
			w.advance(20 * time.Second)
			b := w.heartbeat(l)
			w.same([]any{b.LeaseExpiresAt.Equal(ends), b.LeaseSeconds}, []any{true, 30}, "the end after a heartbeat")
			w.timeIs(w.onlyItem(t.ID).LeaseExpiresAt, ends, "of the item")
			b, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence(), LeaseSeconds: 600}}))
			w.ok(err, "heartbeat")
			w.same(b.LeaseExpiresAt.Equal(ends), true, "the end after a longer heartbeat")
			w.advance(20 * time.Second)
			w.sweep()
			it := w.onlyItem(t.ID)
			w.same([]any{it.Failures, it.Error.Code}, []any{failures, "start_to_close"}, "after the sweep")
			_, err = first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
			w.leaseLost(err, pawl.ReasonExpired, string(it.State), "w", attempt)
		}
		w.failedBy(t, "start_to_close", 2)
	}},
	{"an attempt that takes less keeps the end of its lease", func(w *fixture) {
		w.create(pawl.NewTask{Type: "short", StartToCloseSeconds: 600})
		l := w.claims(pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60})[0]
		w.advance(61 * time.Second)
		w.sweep()
		w.same(w.item(l.ID).Error.Code, "lease_expired", "code")
		w.advance(time.Hour)
		l = w.claims(pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 3600})[0]
		w.same(l.LeaseExpiresAt.Equal(w.now().Add(600*time.Second)), true, "the end of a long lease")
		w.complete(l, `1`)
	}},
	{"an item that no worker claims in time fails", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "slow", ScheduleToStartSeconds: 10, Items: []pawl.NewItem{{}, {}}})
		w.same([]any{t.ScheduleToStartSeconds, w.task(t.ID).ScheduleToStartSeconds}, []any{10, 10}, "of the task")
		w.advance(9 * time.Second)
		l := w.claimOf("slow")
		w.advance(time.Second)
		w.same(w.sweep().GivenUp, int64(1), "given up")
		w.release(l)
		w.advance(9 * time.Second)
		w.same(w.sweep().GivenUp, int64(0), "given up: the time counts from each entry to queued")
		w.advance(time.Second)
		w.same(w.sweep().GivenUp, int64(1), "given up")
		_, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
		w.leaseLost(err, pawl.ReasonExpired, "failed", "w", 1)
		for _, it := range w.items(t.ID) {
			w.same([]any{it.State, it.Failures, it.Error.Code}, []any{pawl.ItemFailed, 0, "schedule_to_start"}, "item")
		}
		w.same(w.task(t.ID).State, pawl.TaskFailed, "task")
		w.retry(t.ID)
		w.same(w.sweep().GivenUp, int64(0), "given up after a retry")
	}},
	{"the time in the queue begins when a scheduled item is due", func(w *fixture) {
		later := w.now().Add(time.Minute)
		t := w.create(pawl.NewTask{Type: "later", ScheduleToStartSeconds: 10, RunAt: &later})
		w.advance(time.Minute)
		w.sweep()
		w.update(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(7)})
		w.advance(9 * time.Second)
		w.sweep()
		w.same(w.task(t.ID).State, pawl.TaskQueued, "state")
		w.advance(time.Second)
		w.sweep()
		w.failedBy(t, "schedule_to_start", 0)
	}},
}}
