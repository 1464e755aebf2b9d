package suite

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var queues = noun{"queues", []promise{
	{"a queue counts what is in it", func(w *fixture) {
		w.create(pawl.NewTask{Type: "count", Items: []pawl.NewItem{{}, {}, {}}})
		later := w.now().Add(time.Hour)
		w.create(pawl.NewTask{Type: "count", RunAt: &later})
		w.create(pawl.NewTask{Type: "count", Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}})
		w.claim("w")
		w.advance(5 * time.Second)
		q := w.queue("count")
		w.same(q, pawl.Queue{Type: "count", Queued: 3, Leased: 1, Waiting: 1, Scheduled: 1, OldestQueuedSeconds: 5}, "queue")
	}},
	{"queues are listed by type, page by page", func(w *fixture) {
		for _, typ := range []string{"c", "a", "b"} {
			w.create(pawl.NewTask{Type: typ})
		}
		first, err := w.svc.ListQueues(w.ctx, pawl.Page{Limit: 2})
		w.ok(err, "list queues")
		rest, err := w.svc.ListQueues(w.ctx, pawl.Page{Limit: 2, Cursor: first.Next})
		w.ok(err, "list queues")
		var got []string
		for _, q := range append(first.Items, rest.Items...) {
			got = append(got, q.Type)
			w.same(q.Queued, int64(1), "queued")
		}
		w.same(got, []string{"a", "b", "c"}, "types")
		w.same(rest.Next, "", "next")
	}},
	{"nothing is claimed from a paused queue", func(w *fixture) {
		paused, other := w.create(pawl.NewTask{Type: "slow"}), w.create(pawl.NewTask{Type: "fast"})
		q, err := w.svc.PauseQueue(w.ctx, "slow")
		w.ok(err, "pause")
		w.same([]any{q.Paused, q.PausedAt != nil, q.Queued}, []any{true, true, int64(1)}, "queue")
		w.same(w.claim("w").TaskID, other.ID, "claimed")
		w.noneClaimable()
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"slow"}})), 0, "by type")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", TaskID: paused.ID})), 0, "by task")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", ItemID: w.onlyItem(paused.ID).ID})), 0, "by item")
		w.create(pawl.NewTask{Type: "slow"})
		w.same(w.queue("slow").Queued, int64(2), "queued")
		q, err = w.svc.ResumeQueue(w.ctx, "slow")
		w.ok(err, "resume")
		w.same([]any{q.Paused, q.PausedAt == nil}, []any{false, true}, "queue")
		w.same(w.claim("w").TaskID, paused.ID, "claimed")
	}},
	{"a task with items of two types is claimed around the paused one", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {}, {Type: "b"}}})
		_, err := w.svc.PauseQueue(w.ctx, "a")
		w.ok(err, "pause")
		got := w.claims(pawl.ClaimRequest{WorkerID: "w", TaskID: t.ID, Limit: 2})
		w.same(len(got), 1, "leases")
		w.same(got[0].Type, "b", "type")
		yes := true
		list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{Available: &yes})
		w.ok(err, "list")
		w.same(len(list.Items), 0, "tasks with available items")
	}},
	{"the oldest queued item may be one that came back", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {}}})
		older, newer := w.claim("w"), w.claim("w")
		w.advance(time.Minute)
		w.release(newer)
		w.advance(time.Minute)
		w.release(older)
		w.same(w.queue("a").OldestQueuedSeconds, int64(60), "seconds")
	}},
	{"leased items of a paused queue go on", func(w *fixture) {
		w.create(pawl.NewTask{Type: "slow"})
		l := w.claim("w")
		_, err := w.svc.PauseQueue(w.ctx, "slow")
		w.ok(err, "pause")
		w.heartbeat(l)
		w.same(w.complete(l, `1`).State, pawl.ItemCompleted, "state")
		w.same(w.queue("slow").Leased, int64(0), "leased")
	}},
	{"what comes back to a paused queue stays there", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "slow"})
		l := w.claim("w")
		_, err := w.svc.PauseQueue(w.ctx, "slow")
		w.ok(err, "pause")
		w.release(l)
		w.noneClaimable()
		b := w.onlyItem(t.ID).BlockedBy
		w.same([]any{b != nil, b.Reason, b.Detail}, []any{true, pawl.BlockedByPause, "paused: slow"}, "blocked by")
		w.same(w.task(t.ID).BlockedBy.Reason, pawl.BlockedByPause, "the task is blocked by")
	}},
	{"a type can be paused before it has work", func(w *fixture) {
		_, err := w.svc.PauseQueue(w.ctx, "early")
		w.ok(err, "pause")
		w.create(pawl.NewTask{Type: "early"})
		w.noneClaimable()
	}},
	{"to pause or resume twice changes nothing", func(w *fixture) {
		first, err := w.svc.PauseQueue(w.ctx, "a")
		w.ok(err, "pause")
		w.advance(time.Minute)
		again, err := w.svc.PauseQueue(w.ctx, "a")
		w.ok(err, "pause again")
		w.same(again, first, "queue")
		for range 2 {
			q, err := w.svc.ResumeQueue(w.ctx, "a")
			w.ok(err, "resume")
			w.same(q, pawl.Queue{Type: "a"}, "queue")
		}
	}},
	{"a paused namespace has no claimable work", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a"})
		other := w.in("other")
		theirs := other.create(pawl.NewTask{Type: "a"})
		w.ok(w.svc.PauseNamespace(w.ctx), "pause")
		w.ok(w.svc.PauseNamespace(w.ctx), "pause again")
		w.noneClaimable()
		q := w.queue("a")
		w.same([]any{q.Paused, q.PausedAt == nil, q.NamespacePausedAt != nil}, []any{true, true, true}, "queue")
		w.same(other.claim("w").TaskID, theirs.ID, "claimed in the other namespace")
		w.create(pawl.NewTask{Type: "new"})
		w.noneClaimable()
		_, err := w.svc.PauseQueue(w.ctx, "new")
		w.ok(err, "pause a queue too")
		w.ok(w.svc.ResumeNamespace(w.ctx), "resume")
		w.same(w.claim("w").TaskID, t.ID, "claimed")
		w.noneClaimable() // the queue is paused itself
	}},
	{"a waiting claim gets the items of a queue that is resumed", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "slow"})
		_, err := w.svc.PauseQueue(w.ctx, "slow")
		w.ok(err, "pause")
		got := make(chan []pawl.Lease, 1)
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		defer cancel()
		go func() {
			leases, _ := w.svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", WaitSeconds: 15})
			got <- leases
		}()
		time.Sleep(100 * time.Millisecond)
		_, err = w.svc.ResumeQueue(w.ctx, "slow")
		w.ok(err, "resume")
		leases := <-got
		w.same(len(leases), 1, "leases")
		w.same(leases[0].TaskID, t.ID, "claimed")
	}},
	{"an unknown queue is not found, and a bad name is invalid", func(w *fixture) {
		_, err := w.svc.GetQueue(w.ctx, "nothing")
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.ResumeQueue(w.ctx, "nothing")
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.PauseQueue(w.ctx, badName)
		w.refused(err, pawl.CodeInvalid)
	}},
}}

// badName is longer than a type may be.
var badName = strings.Repeat("x", pawl.MaxTypeLen+1)

func (w *fixture) queue(typ string) pawl.Queue {
	w.Helper()
	q, err := w.svc.GetQueue(w.ctx, typ)
	w.ok(err, "queue")
	return q
}
