package suite

import (
	"sync"

	"github.com/pawl-work/pawl"
)

// concurrently runs functions at the same time.
func concurrently(fns ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, fn := range fns {
		wg.Go(func() {
			<-start
			fn()
		})
	}
	close(start)
	wg.Wait()
}

var races = noun{"races", []promise{
	{"the last two items, completed concurrently, settle their task once", func(w *fixture) {
		for range 10 {
			t := w.manyItems(2)
			ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 2})
			finish := func(l pawl.Lease) func() {
				return func() {
					if _, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`1`)); err != nil {
						w.Errorf("complete: %v", err)
					}
				}
			}
			concurrently(finish(ls[0]), finish(ls[1]))
			got := w.task(t.ID)
			w.same([]any{got.State, got.Version}, []any{pawl.TaskCompleted, 1}, "the task")
		}
	}},
	{"of concurrent complete and fail one wins", func(w *fixture) {
		for range 10 {
			t := w.oneItem()
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			var errs [2]error
			concurrently(
				func() { _, errs[0] = pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`1`)) },
				func() { errs[1] = verbs[4].call(w, l.Fence()) },
			)
			if (errs[0] == nil) == (errs[1] == nil) {
				w.Fatalf("complete: %v, fail: %v", errs[0], errs[1])
			}
			if w.onlyItem(t.ID).State == pawl.ItemQueued {
				w.cancel(t.ID)
			}
		}
	}},
	{"of concurrent complete and cancel one wins", func(w *fixture) {
		for range 10 {
			t := w.manyItems(2)
			ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 2})
			w.complete(ls[0], `1`)
			var done, cancelled error
			concurrently(
				func() { _, done = pawl.Complete(w.ctx, w.svc, ls[1].Fence(), raw(`1`)) },
				func() { _, cancelled = pawl.Cancel(w.ctx, w.svc, t.ID, "") },
			)
			got := w.task(t.ID)
			switch {
			case done == nil && cancelled != nil:
				w.same(got.State, pawl.TaskCompleted, "state")
				w.conflict(cancelled, "completed")
			case done != nil && cancelled == nil:
				w.same(got.State, pawl.TaskCancelled, "state")
				w.conflict(done, "cancelled")
			default:
				w.Fatalf("complete: %v, cancel: %v", done, cancelled)
			}
		}
	}},
	{"of two concurrent retries one wins", func(w *fixture) {
		for range 5 {
			t := w.oneItem()
			w.failPermanently(w.claimItem("w1", w.onlyItem(t.ID).ID), "no")
			var errs [2]error
			retry := func(n int) func() {
				return func() { _, errs[n] = pawl.Retry(w.ctx, w.svc, t.ID) }
			}
			concurrently(retry(0), retry(1))
			if (errs[0] == nil) == (errs[1] == nil) {
				w.Fatalf("retries: %v, %v", errs[0], errs[1])
			}
			w.cancel(t.ID)
		}
	}},
	{"concurrent sweeps expire a lease once", func(w *fixture) {
		t := w.manyItems(20)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 20})
		w.advance(1 << 39) // over nine minutes
		var found [4]int64
		var sweepers []func()
		for n := range found {
			sweepers = append(sweepers, func() {
				s, err := w.svc.Sweep(w.ctx)
				if err != nil || s.Errors != 0 {
					w.Errorf("sweep: %d errors, %v", s.Errors, err)
				}
				found[n] = s.ExpiredFound
			})
		}
		concurrently(sweepers...)
		w.same(found[0]+found[1]+found[2]+found[3], int64(len(ls)), "expired")
		for _, i := range w.items(t.ID) {
			w.same(i.Failures, 1, "failures")
		}
	}},
	{"adding items while the last one finishes either counts or is refused", func(w *fixture) {
		for range 10 {
			t := w.manyItems(2)
			ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 2})
			w.complete(ls[0], `1`)
			var added, done error
			concurrently(
				func() {
					_, added = first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`1`)}}}}))
				},
				func() { _, done = pawl.Complete(w.ctx, w.svc, ls[1].Fence(), raw(`1`)) },
			)
			w.ok(done, "complete")
			got := w.task(t.ID)
			if added == nil {
				w.same([]any{got.State, got.ItemsOpen}, []any{pawl.TaskInProgress, 1}, "the task")
				w.cancel(t.ID)
				continue
			}
			w.conflict(added, "completed")
			w.same(got.State, pawl.TaskCompleted, "state")
		}
	}},
}}
