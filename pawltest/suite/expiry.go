package suite

import (
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

// canonical returns JSON in canonical form, to compare values that may have been encoded again
// on the way.
func canonical(b json.RawMessage) string {
	h, err := pawl.HashOf(b)
	if err != nil {
		return err.Error()
	}
	return h
}

// objectOf returns a JSON object as a map.
func objectOf(w *fixture, b json.RawMessage) map[string]any {
	w.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		w.Fatalf("%s is no object: %v", b, err)
	}
	return m
}

var expiry = noun{"expiry", []promise{
	{"the sweep queues the item of an expired lease again and counts a failure", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.advance(300 * time.Second)
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Status}, []any{pawl.ItemLeased, pawl.StatusExpired}, "before the sweep")
		w.noneClaimable()
		s := w.sweep()
		w.same([]any{s.ExpiredFound, s.Recovered, s.Failed, s.CheckpointsCreated}, []any{int64(1), int64(1), int64(0), int64(1)}, "the pass")
		i = w.onlyItem(t.ID)
		w.same(
			[]any{i.State, i.Status, i.Failures, i.Attempt, i.WorkerID, i.LastWorkerID},
			[]any{pawl.ItemQueued, pawl.StatusPending, 1, 1, "", "w1"},
			"after it",
		)
		w.same(i.Error.Message, "Lease expired - retry 1/3", "error")
		again := w.claim("w2")
		w.same([]any{again.ID, again.Attempt, again.Failures}, []any{l.ID, 2, 1}, "the next claim")
		s = w.sweep()
		w.same([]any{s.ExpiredFound, s.Recovered, s.Failed}, []any{int64(0), int64(0), int64(0)}, "the next pass")
	}},
	{"a valid lease is not changed by the sweep", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.advance(300*time.Second - time.Microsecond)
		w.same(w.sweep().ExpiredFound, int64(0), "expired")
		w.complete(l, `1`)
	}},
	{"every expiry counts, and the last one fails the item", func(w *fixture) {
		t := w.oneItem()
		for n, want := range []string{"Lease expired - retry 1/3", "Lease expired - retry 2/3", "Max retries exceeded"} {
			l := w.claim("w1")
			if n == 1 {
				w.heartbeat(l)
			}
			w.expire(l)
			w.same(w.onlyItem(t.ID).Error.Message, want, "error")
		}
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Failures, i.Attempt}, []any{pawl.ItemFailed, 3, 3}, "the item")
		w.timeIs(i.CompletedAt, w.now(), "completed_at")
		got := w.task(t.ID)
		w.same([]any{got.State, got.RetryCount, got.Version, got.Error.Message}, []any{pawl.TaskFailed, 3, 1, "Max retries exceeded"}, "the task")
	}},
	{"the pass that fails an item says so", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a", MaxAttempts: 1})
		w.create(pawl.NewTask{Type: "a"})
		w.claim("w1")
		s := w.expire(w.claim("w1"))
		w.same([]any{s.ExpiredFound, s.Recovered, s.Failed, s.CheckpointsCreated}, []any{int64(2), int64(1), int64(1), int64(2)}, "the pass")
		if s.ScanDurationMS < 0 || !s.StartedAt.Equal(w.now()) {
			w.Errorf("the pass took %d ms from %v", s.ScanDurationMS, s.StartedAt)
		}
	}},
	{"fails and expiries count on one budget", func(w *fixture) {
		t := w.oneItem()
		w.failNow(w.claim("w1"), "no")
		w.expire(w.claim("w1"))
		w.same(w.onlyItem(t.ID).Error.Message, "Lease expired - retry 2/3", "error")
		w.failNow(w.claim("w1"), "no")
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"an expired item of many leaves its task to the others", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", MaxAttempts: 1, Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}})
		w.expire(w.claim("w1"))
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "state")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"recovery saves an error_boundary with the data of the lease", func(w *fixture) {
		t := w.oneItem()
		acquired := w.now()
		l := w.claim("w1")
		w.advance(time.Minute)
		beat := w.now()
		w.heartbeat(l)
		w.expire(l)
		list, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskID: t.ID})
		w.ok(err, "list checkpoints")
		w.same(len(list.Items), 1, "checkpoints")
		c := list.Items[0]
		w.same([]any{c.Type, c.ItemID, c.Attempt, c.Sequence}, []any{pawl.ErrorBoundary, l.ID, 1, int64(1)}, "the boundary")
		snap := objectOf(w, c.Snapshot)
		w.same([]any{snap["error"], snap["failures"], snap["max_attempts"]}, []any{"Lease expired - retry 1/3", 1.0, 3.0}, "the snapshot")
		lease, _ := snap["expired_lease"].(map[string]any)
		w.same([]any{lease["worker_id"], lease["attempt"]}, []any{"w1", 1.0}, "the lease")
		for name, want := range map[string]time.Time{"acquired_at": acquired, "heartbeat_at": beat, "expires_at": beat.Add(300 * time.Second)} {
			text, _ := lease[name].(string)
			got, err := time.Parse(time.RFC3339Nano, text)
			if err != nil || !got.Equal(want) {
				w.Errorf("%s is %q, want %v", name, text, want)
			}
		}
	}},
	{"its event is lease_expired, by the system, from where the item was", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", MaxAttempts: 2})
		w.expire(w.claim("w1"))
		l := w.claim("w2")
		w.heartbeat(l)
		w.expire(l)
		var got []any
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "lease_expired"}) {
			got = append(got, e.FromState+">"+e.ToState, e.TaskFrom+">"+e.TaskTo, e.Attempt, e.ActorType, objectOf(w, e.Data)["worker_id"])
		}
		w.same(got, []any{"leased>queued", ">", 1, "system", "w1", "in_progress>failed", "open>failed", 2, "system", "w2"}, "events")
	}},
	{"many leases expire in one pass", func(w *fixture) {
		w.manyItems(300)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 300})), 300, "claimed")
		w.advance(300 * time.Second)
		var found int64
		for range 100 {
			s := w.sweep()
			found += s.ExpiredFound
			if s.ExpiredFound == 0 {
				break
			}
		}
		w.same(found, int64(300), "expired")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w2", Limit: 1000})), 300, "claimed again")
	}},
	{"what has expired is listed and counted before the sweep", func(w *fixture) {
		t := w.manyItems(3)
		w.claim("w1")
		w.advance(200 * time.Second)
		w.claim("w2")
		w.advance(100 * time.Second)
		list, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: t.ID, Statuses: []pawl.Status{pawl.StatusExpired}})
		w.ok(err, "list items")
		w.same(len(list.Items), 1, "items")
		w.same(list.Items[0].WorkerID, "w1", "whose")
		list, err = w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: t.ID, Statuses: []pawl.Status{pawl.StatusInProgress}})
		w.ok(err, "list items")
		w.same(len(list.Items), 1, "items in progress")
		w.same(list.Items[0].WorkerID, "w2", "whose")
		s, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		w.same([]any{s.Leases, s.ExpiredLeases}, []any{int64(2), int64(1)}, "stats")
	}},
	{"a heartbeat in time saves the lease from the sweep", func(w *fixture) {
		w.manyItems(2)
		alive := w.claim("w1")
		w.claim("w2")
		w.advance(299 * time.Second)
		w.heartbeat(alive)
		w.advance(time.Second)
		w.same(w.sweep().ExpiredFound, int64(1), "expired")
		w.complete(alive, `1`)
	}},
}}

var prefetch = noun{"prefetch", []promise{
	{"an expired prefetched item counts no failure, at most as often as its budget", func(w *fixture) {
		t := w.oneItem()
		for n := range 6 {
			ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Prefetch: true})
			w.same(len(ls), 1, "claimed")
			w.same([]any{ls[0].Attempt, ls[0].Failures}, []any{n + 1, max(0, n-3)}, "attempt, failures")
			w.expire(ls[0])
		}
		i := w.onlyItem(t.ID)
		w.same([]any{i.State, i.Failures, i.Attempt}, []any{pawl.ItemFailed, 3, 6}, "the item")
	}},
	{"an expired item that was started counts a failure", func(w *fixture) {
		t := w.oneItem()
		l := w.claims(pawl.ClaimRequest{WorkerID: "w1", Prefetch: true})[0]
		w.heartbeat(l)
		w.expire(l)
		w.same(w.onlyItem(t.ID).Failures, 1, "failures")
	}},
	{"an expired item that was not prefetched counts a failure", func(w *fixture) {
		t := w.oneItem()
		w.expire(w.claims(pawl.ClaimRequest{WorkerID: "w1", Prefetch: true})[0])
		w.same(w.onlyItem(t.ID).Failures, 0, "failures")
		w.expire(w.claim("w1"))
		w.same(w.onlyItem(t.ID).Failures, 1, "failures")
	}},
	{"an uncounted expiry is in the sweep's statistics", func(w *fixture) {
		w.oneItem()
		s := w.expire(w.claims(pawl.ClaimRequest{WorkerID: "w1", Prefetch: true})[0])
		w.same([]any{s.ExpiredFound, s.Recovered, s.Failed}, []any{int64(1), int64(1), int64(0)}, "the pass")
	}},
}}
