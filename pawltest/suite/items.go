package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var items = noun{"items", []promise{
	{"a new item is queued and has no worker", func(w *fixture) {
		t := w.oneItem()
		now := w.now()
		got := w.onlyItem(t.ID)
		got.BlockedBy = nil // there is no worker
		w.same(got, pawl.Item{
			ID: got.ID, TaskID: t.ID, Namespace: pawl.DefaultNamespace, Type: "a", Kind: pawl.KindWork, Position: got.Position,
			State: pawl.ItemQueued, Status: pawl.StatusPending, Stage: got.Stage, MaxAttempts: 3, Input: raw(`{"n":1}`),
			CreatedAt: now, UpdatedAt: now,
		}, "the item")
	}},
	{"a leased item shows its lease", func(w *fixture) {
		t := w.oneItem()
		w.advance(time.Minute)
		l := w.claim("w1")
		now := w.now()
		got := w.onlyItem(t.ID)
		w.same([]any{got.State, got.Status, got.Attempt, got.Failures, got.WorkerID, got.LastWorkerID, got.LeaseSeconds},
			[]any{pawl.ItemLeased, pawl.StatusInProgress, 1, 0, "w1", "w1", 300}, "the item")
		w.timeIs(got.LeaseAcquiredAt, now, "lease_acquired_at")
		w.timeIs(got.HeartbeatAt, now, "heartbeat_at")
		w.timeIs(got.StartedAt, now, "started_at")
		w.timeIs(got.LeaseExpiresAt, l.LeaseExpiresAt, "lease_expires_at")
		w.same(got.UpdatedAt, now, "updated_at")
	}},
	{"started_at is the first claim", func(w *fixture) {
		t := w.oneItem()
		started := w.now()
		w.release(w.claim("w1"))
		w.advance(time.Minute)
		w.claim("w2")
		got := w.onlyItem(t.ID)
		w.timeIs(got.StartedAt, started, "started_at")
		w.timeIs(got.LeaseAcquiredAt, w.now(), "lease_acquired_at")
		w.complete(pawl.Lease{ID: got.ID, WorkerID: "w2", Attempt: 2}, `1`)
		w.timeIs(w.onlyItem(t.ID).StartedAt, started, "started_at at the end")
	}},
	{"a completed item holds no lease and remembers its worker", func(w *fixture) {
		t := w.oneItem()
		started := w.now()
		l := w.claim("w1")
		w.heartbeat(l)
		w.advance(time.Minute)
		m := w.complete(l, `{"ok":true}`)
		got := w.onlyItem(t.ID)
		w.same(m, pawl.Moved{ID: got.ID, TaskID: t.ID, State: pawl.ItemCompleted, Attempt: 1}, "the answer")
		w.same([]any{got.State, got.Status, got.WorkerID, got.LastWorkerID, got.Attempt, string(got.Result)},
			[]any{pawl.ItemCompleted, pawl.StatusCompleted, "", "w1", 1, `{"ok":true}`}, "the item")
		if got.LeaseExpiresAt != nil || got.LeaseAcquiredAt != nil || got.HeartbeatAt != nil {
			w.Errorf("there is a lease left: %+v", got)
		}
		w.timeIs(got.StartedAt, started, "started_at")
		w.timeIs(got.CompletedAt, w.now(), "completed_at")
	}},
	{"the data of the last lease stays readable in every later state", func(w *fixture) {
		ends := map[string]func(l pawl.Lease){
			"released":  func(l pawl.Lease) { w.release(l) },
			"failed":    func(l pawl.Lease) { w.failPermanently(l, "no") },
			"requeued":  func(l pawl.Lease) { w.failNow(l, "no") },
			"expired":   func(l pawl.Lease) { w.expire(l) },
			"completed": func(l pawl.Lease) { w.complete(l, `1`) },
			"cancelled": func(l pawl.Lease) { w.cancel(l.TaskID) },
			"suspended": func(l pawl.Lease) {
				_, err := pawl.Suspend(w.ctx, w.svc, l.Fence(), w.now().Add(time.Hour))
				w.ok(err, "suspend")
			},
			"scheduled": func(l pawl.Lease) {
				_, err := first(w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}}}))
				w.ok(err, "fail")
			},
		}
		for name, end := range ends {
			t := w.create(pawl.NewTask{Type: name})
			started := w.now()
			end(w.claimItem("w-"+name, w.onlyItem(t.ID).ID))
			got := w.onlyItem(t.ID)
			w.same([]any{got.LastWorkerID, got.Attempt, got.WorkerID}, []any{"w-" + name, 1, ""}, name)
			w.timeIs(got.StartedAt, started, name+": started_at")
			if got.LeaseExpiresAt != nil {
				w.Errorf("%s: lease_expires_at is %v", name, got.LeaseExpiresAt)
			}
		}
	}},
	{"an unknown item is not found", func(w *fixture) {
		_, err := w.svc.GetItem(w.ctx, "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV")
		w.refused(err, pawl.CodeNotFound)
	}},
	{"an ended item never changes again", func(w *fixture) {
		for _, to := range []pawl.ItemState{pawl.ItemCompleted, pawl.ItemCancelled} {
			t := w.oneItem()
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			if to == pawl.ItemCompleted {
				w.complete(l, `1`)
			} else {
				w.cancel(t.ID)
			}
			before, task := w.onlyItem(t.ID), w.task(t.ID)
			w.advance(time.Hour)
			w.sweep()
			for _, v := range verbs {
				_ = v.call(w, l.Fence())
			}
			_, _ = first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
			_, _ = first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
			_, _ = first(w.svc.BuryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
			w.same(w.onlyItem(t.ID), before, "the item")
			w.same(w.task(t.ID), task, "the task")
		}
	}},
}}
