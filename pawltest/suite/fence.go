package suite

import (
	"errors"
	"math"
	"time"

	"github.com/pawl-work/pawl"
)

// verb is one of the verbs with which a worker writes, in its shortest form.
type verb struct {
	name string
	call func(w *fixture, f pawl.Fence) error
}

// verbs lists all of them: every write of a worker is fenced.
var verbs = []verb{
	{"heartbeat", func(w *fixture, f pawl.Fence) error {
		_, err := pawl.Heartbeat(w.ctx, w.svc, f)
		return err
	}},
	{"progress", func(w *fixture, f pawl.Fence) error {
		_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: f, Progress: ptr(7), Stage: ptr("stale")}}))
		return err
	}},
	{"checkpoint", func(w *fixture, f pawl.Fence) error {
		_, err := pawl.SaveCheckpoint(w.ctx, w.svc, f, pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: raw(`"stale"`)})
		return err
	}},
	{"complete", func(w *fixture, f pawl.Fence) error {
		_, err := pawl.Complete(w.ctx, w.svc, f, raw(`"stale"`))
		return err
	}},
	{"fail", func(w *fixture, f pawl.Fence) error {
		_, err := pawl.Fail(w.ctx, w.svc, f, pawl.RetryAfter(0, errors.New("stale")))
		return err
	}},
	{"release", func(w *fixture, f pawl.Fence) error {
		_, err := first(w.svc.Release(w.ctx, []pawl.ReleaseCall{{Fence: f, DelaySeconds: 7}})) // no call of the tests has this delay
		return err
	}},
	{"suspend", func(w *fixture, f pawl.Fence) error {
		_, err := pawl.Suspend(w.ctx, w.svc, f, w.now().Add(time.Minute))
		return err
	}},
}

// taskData is all data of a task, for comparison.
type taskData struct {
	Task        pawl.Task
	Items       []pawl.Item
	Events      []pawl.Event
	Checkpoints []pawl.Checkpoint
}

func (w *fixture) taskData(taskID string) taskData {
	w.Helper()
	s := taskData{Task: w.task(taskID), Items: w.items(taskID), Events: w.allEvents(pawl.EventFilter{TaskID: taskID})}
	list, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskID: taskID, Page: pawl.Page{Limit: 1000}})
	w.ok(err, "list checkpoints")
	s.Checkpoints = list.Items
	return s
}

// refuseAll calls every verb with a fence, passes each error to want and checks that no call
// changed anything.
func (w *fixture) refuseAll(f pawl.Fence, taskID string, want func(verb string, err error)) {
	w.Helper()
	for _, v := range verbs {
		before := w.taskData(taskID)
		err := v.call(w, f)
		if err == nil {
			w.Fatalf("%s of a stale claim went through", v.name)
		}
		want(v.name, err)
		w.same(w.taskData(taskID), before, v.name+" left something behind")
	}
}

var fence = noun{"the fence", []promise{
	{"an unknown item is not found", func(w *fixture) {
		for _, v := range verbs {
			w.refused(v.call(w, pawl.Fence{ItemID: "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV", WorkerID: "w1", Attempt: 1}), pawl.CodeNotFound)
		}
	}},
	{"for an older attempt the reason is taken", func(w *fixture) {
		t := w.oneItem()
		w.release(w.claim("w1"))
		l := w.claim("w1")
		for _, attempt := range []int{1, 3, 1 << 30, 1 << 31, math.MaxInt64} {
			f := l.Fence()
			f.Attempt = attempt
			w.refuseAll(f, t.ID, func(_ string, err error) {
				w.leaseLost(err, pawl.ReasonTaken, "leased", "w1", 2)
				if !errors.Is(err, pawl.ErrLeaseTaken) || errors.Is(err, pawl.ErrLeaseExpired) {
					w.Errorf("%v matches the wrong sentinel", err)
				}
			})
		}
	}},
	{"for another worker's claim the reason is taken", func(w *fixture) {
		t := w.oneItem()
		f := w.claim("w1").Fence()
		f.WorkerID = "w2"
		w.refuseAll(f, t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "leased", "w1", 1) })
	}},
	{"for an item that was never claimed the reason is taken", func(w *fixture) {
		t := w.oneItem()
		f := pawl.Fence{ItemID: w.onlyItem(t.ID).ID, WorkerID: "w1", Attempt: 1}
		w.refuseAll(f, t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "queued", "", 0) })
	}},
	{"for an expired lease the reason is expired, also before the sweep", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.advance(300 * time.Second)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) {
			w.leaseLost(err, pawl.ReasonExpired, "leased", "w1", 1)
			if !errors.Is(err, pawl.ErrLeaseExpired) || errors.Is(err, pawl.ErrLeaseTaken) {
				w.Errorf("%v matches the wrong sentinel", err)
			}
		})
	}},
	{"a lease is valid until the microsecond at which it ends", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.advance(300*time.Second - time.Microsecond)
		l.LeaseExpiresAt = w.heartbeat(l).LeaseExpiresAt
		w.same(l.LeaseExpiresAt, w.now().Add(300*time.Second), "lease_expires_at")
		w.advance(300*time.Second - time.Microsecond)
		w.same(w.item(l.ID).Status, pawl.StatusInProgress, "status")
		w.advance(time.Microsecond)
		w.same(w.item(l.ID).Status, pawl.StatusExpired, "status")
		_, err := pawl.Heartbeat(w.ctx, w.svc, l.Fence())
		w.leaseLost(err, pawl.ReasonExpired, "in_progress", "w1", 1)
	}},
	{"after the sweep the reason is expired until another worker claims", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.expire(l)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonExpired, "queued", "w1", 1) })
	}},
	{"after the sweep failed the item permanently the reason is expired", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", MaxAttempts: 1})
		l := w.claim("w1")
		w.expire(l)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonExpired, "failed", "w1", 1) })
	}},
	{"the reason taken comes before expired", func(w *fixture) {
		t := w.oneItem()
		old := w.claim("w1")
		w.expire(old)
		w.claim("w2")
		w.refuseAll(old.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "leased", "w2", 2) })
		w.advance(time.Hour)
		w.refuseAll(old.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "leased", "w2", 2) })
	}},
	{"an old claim of the worker that holds the item is refused too", func(w *fixture) {
		t := w.oneItem()
		old := w.claim("w1")
		w.expire(old)
		w.claim("w1")
		w.refuseAll(old.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "leased", "w1", 2) })
	}},
	{"for a released lease the reason is released", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.release(l)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonReleased, "queued", "w1", 1) })
	}},
	{"for a suspended item the reason is released", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		_, err := pawl.Suspend(w.ctx, w.svc, l.Fence(), w.now().Add(time.Hour))
		w.ok(err, "suspend")
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonReleased, "waiting", "w1", 1) })
		w.advance(time.Hour)
		w.sweep()
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonReleased, "queued", "w1", 1) })
	}},
	{"the state of an item that its worker failed forbids every verb", func(w *fixture) {
		for state, fail := range map[string]func(l pawl.Lease){
			"queued": func(l pawl.Lease) { w.failNow(l, "no") },
			"failed": func(l pawl.Lease) { w.failPermanently(l, "no") },
		} {
			t := w.oneItem()
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			fail(l)
			allowed := pawl.ItemState(state).Allowed()
			w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.conflict(err, state, allowed...) })
		}
	}},
	{"a final state forbids every verb and allows none, however old the lease is", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.complete(l, `1`)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.conflict(err, "completed") })
		w.advance(time.Hour)
		w.refuseAll(l.Fence(), t.ID, func(_ string, err error) { w.conflict(err, "completed") })
	}},
	{"the reason taken comes before the final state", func(w *fixture) {
		t := w.oneItem()
		old := w.claim("w1")
		w.release(old)
		w.complete(w.claim("w2"), `1`)
		w.refuseAll(old.Fence(), t.ID, func(_ string, err error) { w.leaseLost(err, pawl.ReasonTaken, "completed", "w2", 2) })
	}},
	{"a cancelled item tells its claimer's heartbeat so, and refuses the rest", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.cancel(t.ID)
		for range 2 {
			for _, v := range verbs {
				if v.name != "heartbeat" {
					w.conflict(v.call(w, l.Fence()), "cancelled")
				}
			}
			before := w.taskData(t.ID)
			b := w.heartbeat(l)
			w.same([]any{b.Cancelled, b.ServerTime}, []any{true, w.now()}, "the heartbeat")
			w.same(w.taskData(t.ID), before, "the heartbeat left something behind")
			w.advance(time.Hour) // its lease would have expired long ago
		}
		f := l.Fence()
		f.WorkerID = "w2"
		_, err := pawl.Heartbeat(w.ctx, w.svc, f)
		w.leaseLost(err, pawl.ReasonTaken, "cancelled", "w1", 1)
	}},
	{"a fence without a worker or an attempt is refused", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		before := w.taskData(t.ID)
		for _, v := range verbs {
			w.invalid(v.call(w, pawl.Fence{ItemID: l.ID, Attempt: 1}), "/worker_id")
			for _, attempt := range []int{0, -1} {
				err := v.call(w, pawl.Fence{ItemID: l.ID, WorkerID: "w1", Attempt: attempt})
				if code := pawl.CodeOf(err); code != pawl.CodeInvalid && code != pawl.CodeLeaseLost {
					w.Errorf("%s with attempt %d: %v", v.name, attempt, err)
				}
			}
		}
		w.same(w.taskData(t.ID), before, "the scene")
	}},
	{"in a batch the stale are refused and the others go through", func(w *fixture) {
		w.manyItems(3)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 3})
		stale := ls[1].Fence()
		stale.Attempt = 9
		rs, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{
			{Fence: ls[2].Fence()}, {Fence: stale}, {Fence: pawl.Fence{ItemID: "itm_x", WorkerID: "w1", Attempt: 1}}, {Fence: ls[0].Fence()},
		})
		w.ok(err, "complete")
		w.ok(rs[0].Err, "first")
		w.leaseLost(rs[1].Err, pawl.ReasonTaken, "leased", "w1", 1)
		w.refused(rs[2].Err, pawl.CodeNotFound)
		w.ok(rs[3].Err, "last")
		w.same([]any{rs[0].Value.ID, rs[3].Value.ID}, []any{ls[2].ID, ls[0].ID}, "the answers")
	}},
	{"an item twice in a batch is done once, in order", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		beats, err := w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}, {Fence: l.Fence()}})
		w.ok(err, "heartbeat")
		w.ok(beats[0].Err, "first heartbeat")
		w.ok(beats[1].Err, "second heartbeat")
		rs, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: raw(`1`)}, {Fence: l.Fence(), Result: raw(`2`)}})
		w.ok(err, "complete")
		w.ok(rs[0].Err, "first")
		w.conflict(rs[1].Err, "completed")
		w.same(string(w.onlyItem(t.ID).Result), `1`, "result")
	}},
}}
