package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

var claims = noun{"claims", []promise{
	{"a claim contains all that a worker needs", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Priority: 4, Items: []pawl.NewItem{{Input: raw(`{"x":1}`), Key: "k", MaxAttempts: 5}}})
		w.advance(time.Second)
		l := w.claim("w1")
		w.same(l, pawl.Lease{
			ID: w.onlyItem(t.ID).ID, TaskID: t.ID, Type: "a", Key: "k", Attempt: 1, MaxAttempts: 5, Priority: 4, Input: raw(`{"x":1}`),
			LeaseSeconds: 300, LeaseExpiresAt: w.now().Add(300 * time.Second), ServerTime: w.now(), WorkerID: "w1", Token: l.Token,
		}, "the lease")
	}},
	{"one item unless more are asked for", func(w *fixture) {
		w.manyItems(5)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1"})), 1, "by default")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 3})), 3, "of three")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 3})), 1, "what is left")
	}},
	{"a claim without work is not an error", func(w *fixture) {
		w.noneClaimable()
		w.oneItem()
		w.claim("w1")
		w.noneClaimable()
	}},
	{"an item is held by one worker at a time", func(w *fixture) {
		w.oneItem()
		w.claim("w1")
		for _, worker := range []string{"w1", "w2"} {
			w.same(len(w.claims(pawl.ClaimRequest{WorkerID: worker})), 0, "claimed by "+worker)
		}
	}},
	{"every claim counts one attempt, by any worker", func(w *fixture) {
		t := w.oneItem()
		for n, worker := range []string{"w1", "w2", "w2", "w1"} {
			l := w.claim(worker)
			w.same([]any{l.Attempt, l.Failures}, []any{n + 1, 0}, "attempt, failures")
			w.release(l)
		}
		w.same(w.onlyItem(t.ID).Attempt, 4, "attempt")
	}},
	{"only the types asked for", func(w *fixture) {
		for _, typ := range []string{"a", "b", "c"} {
			w.create(pawl.NewTask{Type: typ})
		}
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: []string{"x"}, Limit: 9})), 0, "type x")
		var got []string
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: []string{"c", "a", "x"}, Limit: 9}) {
			got = append(got, l.Type)
		}
		w.same(got, []string{"a", "c"}, "types a and c, oldest first")
	}},
	{"only the task asked for", func(w *fixture) {
		w.manyItems(2)
		t := w.manyItems(2)
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 9}) {
			w.same(l.TaskID, t.ID, "task")
		}
		w.same(w.task(t.ID).State, pawl.TaskCheckedOut, "state")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID})), 0, "left of the task")
	}},
	{"only the item asked for, if it is queued", func(w *fixture) {
		t := w.manyItems(3)
		id := w.items(t.ID)[1].ID
		w.same(w.claimItem("w1", id).ID, id, "item")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w2", ItemID: id})), 0, "leased already")
	}},
	{"the type must match the item asked for", func(w *fixture) {
		t := w.oneItem()
		id := w.onlyItem(t.ID).ID
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", ItemID: id, Types: []string{"b"}})), 0, "as type b")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", ItemID: id, Types: []string{"a"}})), 1, "as type a")
	}},
	{"the task must be that of the item asked for", func(w *fixture) {
		t, other := w.oneItem(), w.oneItem()
		id := w.onlyItem(t.ID).ID
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", ItemID: id, TaskID: other.ID})), 0, "as another task's")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", ItemID: id, TaskID: t.ID})), 1, "as its task's")
	}},
	{"a lease is as long as asked for", func(w *fixture) {
		w.manyItems(3)
		for _, seconds := range []int{1, 60, pawl.MaxLeaseSeconds} {
			l := w.claims(pawl.ClaimRequest{WorkerID: "w1", LeaseSeconds: seconds})[0]
			w.same([]any{l.LeaseSeconds, l.LeaseExpiresAt}, []any{seconds, w.now().Add(time.Duration(seconds) * time.Second)}, "the lease")
		}
	}},
	{"a claim out of bounds is invalid", func(w *fixture) {
		w.oneItem()
		for pointer, req := range map[string]pawl.ClaimRequest{
			"/worker_id":     {},
			"/limit":         {WorkerID: "w1", Limit: pawl.MaxClaim + 1},
			"/lease_seconds": {WorkerID: "w1", LeaseSeconds: pawl.MaxLeaseSeconds + 1},
			"/wait_seconds":  {WorkerID: "w1", WaitSeconds: pawl.MaxWaitSeconds + 1},
		} {
			_, err := w.svc.Claim(w.ctx, req)
			w.invalid(err, pointer)
		}
		for pointer, req := range map[string]pawl.ClaimRequest{
			"/limit":         {WorkerID: "w1", Limit: -1},
			"/lease_seconds": {WorkerID: "w1", LeaseSeconds: -1},
			"/wait_seconds":  {WorkerID: "w1", WaitSeconds: -1},
		} {
			_, err := w.svc.Claim(w.ctx, req)
			w.invalid(err, pointer)
		}
		w.claim("w1")
	}},
	{"workers who claim at once never get the same item", func(w *fixture) {
		w.manyItems(60)
		var mu sync.Mutex
		var wg sync.WaitGroup
		seen := map[string]string{}
		for n := range 8 {
			worker := fmt.Sprint("w", n)
			wg.Go(func() {
				for {
					ls, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: worker, Limit: 4})
					if err != nil {
						w.Errorf("claim: %v", err)
						return
					}
					if len(ls) == 0 {
						return
					}
					mu.Lock()
					for _, l := range ls {
						if seen[l.ID] != "" || l.Attempt != 1 {
							w.Errorf("%s got %s, which %s has", worker, l.ID, seen[l.ID])
						}
						seen[l.ID] = worker
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		w.same(len(seen), 60, "items claimed")
	}},
}}

var priorities = noun{"the order of claims", []promise{
	{"highest priority first, then oldest", func(w *fixture) {
		var want []string
		made := map[int][]string{}
		for n, p := range []int{0, 5, -5, 5, pawl.MaxPriority, pawl.MinPriority, 0} {
			t := w.create(pawl.NewTask{Type: fmt.Sprint("t", n%2), Priority: p})
			made[p] = append(made[p], t.ID)
			w.advance(time.Millisecond)
		}
		for _, p := range []int{pawl.MaxPriority, 5, 0, -5, pawl.MinPriority} {
			want = append(want, made[p]...)
		}
		var got []string
		for range want {
			got = append(got, w.claim("w1").TaskID)
		}
		w.same(got, want, "order, one by one")
	}},
	{"a batch is in the same order", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{
			{Input: raw(`"c"`)}, {Input: raw(`"a"`), Priority: ptr(2)}, {Input: raw(`"d"`)}, {Input: raw(`"b"`), Priority: ptr(1), Type: "b"},
		}})
		var got string
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 9}) {
			got += string(l.Input)
		}
		w.same(got, `"a""b""c""d"`, "order")
	}},
	{"the items of a task are claimed in their order", func(w *fixture) {
		t := w.manyItems(20)
		for _, i := range w.items(t.ID) {
			w.same(w.claim("w1").ID, i.ID, "next item")
		}
	}},
	{"items that come back soon again are claimed after new ones", func(w *fixture) {
		var back []string
		for range 2 {
			back = append(back, w.create(pawl.NewTask{Type: "t", MaxAttempts: 50}).ID)
		}
		for _, again := range []func(l pawl.Lease){
			func(l pawl.Lease) { w.release(l) },
			func(l pawl.Lease) {
				_, err := first(w.svc.RevokeLeases(w.ctx, []pawl.RevokeCall{{ItemID: l.ID}}))
				w.ok(err, "revoke")
			},
			func(l pawl.Lease) { w.failNow(l, "no") },
			func(l pawl.Lease) {
				w.advance(time.Duration(l.LeaseSeconds) * time.Second)
				w.sweep()
			},
			func(l pawl.Lease) {
				_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: ptr(w.now().Add(time.Second))}}))
				w.ok(err, "suspend")
				w.advance(2 * time.Second)
				w.sweep()
			},
		} {
			fresh, lower := w.create(pawl.NewTask{Type: "t"}).ID, w.create(pawl.NewTask{Type: "t", Priority: -1}).ID
			var order []string
			for n := 0; n < 6 && !slices.Contains(order, fresh); n++ {
				l := w.claims(pawl.ClaimRequest{WorkerID: "w1", LeaseSeconds: 30})[0]
				if order = append(order, l.TaskID); l.TaskID == fresh {
					w.complete(l, "")
					continue
				}
				again(l)
			}
			w.same(slices.Contains(order, fresh), true, "the fresh one was claimed")
			w.same(slices.Contains(back, w.claim("w1").TaskID), true, "what comes back is before lower priorities")
			w.expire(pawl.Lease{LeaseSeconds: 300})
			w.cancel(lower)
		}
	}},
	{"an item that comes back after a minute is claimed before new ones", func(w *fixture) {
		t := w.oneItem()
		for range 2 {
			w.release(w.claim("w1"))
		}
		w.create(pawl.NewTask{Type: "t"})
		l := w.claimItem("w1", w.onlyItem(t.ID).ID)
		w.advance(pawl.MinReturnSeconds * time.Second)
		w.release(l)
		w.same(w.claim("w1").TaskID, t.ID, "the older one")
	}},
	{"released items are claimed before new ones", func(w *fixture) {
		t := w.manyItems(4)
		all := w.items(t.ID)
		back := w.claimItem("w1", all[3].ID)
		w.release(back)
		w.same(w.claim("w2").ID, all[3].ID, "the released one")
		w.expire(pawl.Lease{LeaseSeconds: 300})
		w.same(w.claim("w2").ID, all[3].ID, "the expired one")
		w.failNow(w.claimItem("w2", all[2].ID), "no")
		w.same(w.claim("w2").ID, all[2].ID, "the failed one")
		w.same(w.claim("w2").ID, all[0].ID, "the oldest fresh one")
	}},
	{"released items do not pass a higher priority", func(w *fixture) {
		w.oneItem()
		w.release(w.claim("w1"))
		high := w.create(pawl.NewTask{Type: "a", Priority: 1})
		w.same(w.claim("w1").TaskID, high.ID, "first")
	}},
}}

var waits = noun{"waiting for work", []promise{
	{"a claim that waits gets what is created meanwhile", func(w *fixture) {
		got := make(chan []pawl.Lease, 1)
		go func() {
			ls, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: "w1", WaitSeconds: 60})
			if err != nil {
				w.Errorf("claim: %v", err)
			}
			got <- ls
		}()
		time.Sleep(50 * time.Millisecond) // most likely it waits by now; if not, the test is still valid
		t := w.oneItem()
		if ls := <-got; len(ls) != 1 || ls[0].TaskID != t.ID {
			w.Fatalf("the waiting claim got %v", ls)
		}
	}},
	{"a waiting claim without work returns an empty list when its time is over", func(w *fixture) {
		begin := clock.Now()
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", WaitSeconds: 1})), 0, "claimed")
		if took := clock.Now().Sub(begin); took < 900*time.Millisecond || took > time.Minute {
			w.Errorf("it took %v", took)
		}
	}},
	{"a cancelled claim takes no item", func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		begin := clock.Now()
		ls, err := w.svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", WaitSeconds: 60})
		if took := clock.Now().Sub(begin); took > 50*time.Second {
			w.Fatalf("it took %v", took)
		}
		if len(ls) != 0 {
			w.Errorf("it got %v", ls)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && pawl.CodeOf(err) != pawl.CodeUnavailable {
			w.Errorf("error is %v", err)
		}
		w.oneItem()
		ls = w.claims(pawl.ClaimRequest{WorkerID: "w2", WaitSeconds: 60}) // a server still unaware of the cancel claims it, then releases it
		w.same(len(ls), 1, "claimed by another")
	}},
}}
