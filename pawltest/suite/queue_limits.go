package suite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var queueLimits = noun{"queue limits", []promise{
	{"a queue has no more leases than its concurrency, whichever way they end", func(w *fixture) {
		w.limit("a", `{"concurrency":2}`)
		for range 8 {
			w.create(pawl.NewTask{Type: "a"})
		}
		ends := map[string]func(l pawl.Lease){
			"completed": func(l pawl.Lease) { w.complete(l, `1`) },
			"failed":    func(l pawl.Lease) { w.failPermanently(l, "no") },
			"released":  func(l pawl.Lease) { w.release(l) },
			"cancelled": func(l pawl.Lease) { w.cancel(l.TaskID) },
			"deleted":   func(l pawl.Lease) { w.remove(l.TaskID, true) },
			"expired":   func(l pawl.Lease) { w.expire(l) },
			"suspended": func(l pawl.Lease) {
				until := w.now().Add(24 * time.Hour)
				_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &until}}))
				w.ok(err, "suspend")
			},
		}
		held := w.takes("a", 10, 2)
		for _, how := range []string{"completed", "failed", "released", "cancelled", "deleted", "suspended"} {
			w.takes("a", 10, 0)
			ends[how](held[0])
			held = append(held[1:], w.takes("a", 10, 1)...)
		}
		w.same(w.queue("a").Leased, int64(2), "leased")
		ends["expired"](held[1]) // both
		w.takes("a", 10, 2)
	}},
	{"an expired lease holds its slot until it is swept", func(w *fixture) {
		w.limit("a", `{"concurrency":1}`)
		w.create(pawl.NewTask{Type: "a"})
		w.create(pawl.NewTask{Type: "a"})
		w.takes("a", 1, 1)
		w.advance(pawl.DefaultLeaseSeconds*time.Second + time.Second)
		w.takes("a", 1, 0)
		w.sweep()
		w.takes("a", 1, 1)
	}},
	{"each worker has its own limit", func(w *fixture) {
		w.limit("a", `{"per_worker":2,"concurrency":3}`)
		for range 6 {
			w.create(pawl.NewTask{Type: "a"})
		}
		got := w.claims(pawl.ClaimRequest{WorkerID: "one", Limit: 5})
		w.same(len(got), 2, "of one")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "one", Limit: 5})), 0, "more of one")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "two", Limit: 5})), 1, "of two")
		w.complete(got[0], `1`)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "one", Limit: 5})), 1, "of one, after it completed one")
	}},
	{"each key has its own limit, and items without the value share one", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/tenant","concurrency":1}}`)
		for _, payload := range []string{`{"tenant":"x"}`, `{"tenant":"x"}`, `{"tenant":"y"}`, `{}`, `7`, `{"tenant":3}`} {
			w.create(pawl.NewTask{Type: "a", Payload: raw(payload)})
		}
		first := w.takes("a", 10, 4)
		w.takes("a", 10, 0)
		for _, l := range first {
			if strings.Contains(string(l.Input), `"x"`) {
				w.complete(l, `1`)
			}
		}
		w.same(string(w.takes("a", 10, 1)[0].Input), `{"tenant":"x"}`, "input")
	}},
	{"the key may be in the task's payload or metadata", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/tenant","concurrency":1}}`)
		w.create(pawl.NewTask{Type: "a", Metadata: raw(`{"tenant":"x"}`)})
		w.create(pawl.NewTask{Type: "a", Payload: raw(`{"tenant":"x"}`),
			Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`{"tenant":"y"}`)}}})
		w.takes("a", 10, 2)
		t := w.create(pawl.NewTask{Type: "b", Payload: raw(`{"tenant":"z"}`), Items: []pawl.NewItem{{}, {}}})
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Type: "a"}}}}))
		w.ok(err, "add items")
		w.takes("a", 10, 1)
	}},
	{"an item keeps its key when it comes back", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/tenant","concurrency":1}}`)
		w.create(pawl.NewTask{Type: "a", Payload: raw(`{"tenant":"x"}`)})
		w.create(pawl.NewTask{Type: "a", Payload: raw(`{"tenant":"x"}`)})
		l := w.takes("a", 10, 1)[0]
		w.failWithBackoff(l)
		other := w.takes("a", 10, 1)[0]
		w.same(other.ID != l.ID, true, "the other item")
		w.advance(2 * time.Hour)
		w.sweep() // the other lease has expired too
		w.takes("a", 10, 1)
	}},
	{"limits count what is queued and leased already", func(w *fixture) {
		for _, tenant := range []string{"x", "x", "x", "y", "y"} {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"tenant":%q}`, tenant))})
		}
		held := w.takes("a", 2, 2) // both of x
		w.limit("a", `{"per_key":{"pointer":"/tenant","concurrency":1}}`)
		w.same(string(w.takes("a", 10, 1)[0].Input), `{"tenant":"y"}`, "input")
		w.complete(held[0], `1`)
		w.takes("a", 10, 0)
		w.complete(held[1], `1`)
		w.takes("a", 10, 1)
	}},
	{"another pointer gives other keys to what is there", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/tenant","concurrency":1}}`)
		for i := range 4 {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"tenant":"x","user":"%d"}`, i%2))})
		}
		w.takes("a", 10, 1)
		w.limit("a", `{"per_key":{"pointer":"/user"}}`)
		w.takes("a", 10, 1)
		w.limit("a", `{"per_key":null}`)
		w.takes("a", 10, 2)
	}},
	{"a lower limit ends no lease, a higher one counts at once", func(w *fixture) {
		w.limit("a", `{"concurrency":3}`)
		for range 6 {
			w.create(pawl.NewTask{Type: "a"})
		}
		held := w.takes("a", 10, 3)
		w.limit("a", `{"concurrency":1}`)
		w.heartbeat(held[0])
		w.complete(held[0], `1`)
		w.complete(held[1], `1`)
		w.takes("a", 10, 0)
		w.limit("a", `{"concurrency":3}`)
		w.takes("a", 10, 2)
		w.limit("a", `{"concurrency":null}`)
		w.takes("a", 10, 1)
	}},
	{"a rate lets a burst start, and then one after the other", func(w *fixture) {
		w.limit("a", `{"rate":{"limit":6,"seconds":60,"burst":2}}`)
		for range 6 {
			w.create(pawl.NewTask{Type: "a"})
		}
		began := w.now()
		w.takes("a", 10, 2)
		var next time.Time
		_, err := w.svc.Claim(pawl.WithNextAt(w.ctx, &next), pawl.ClaimRequest{WorkerID: "w", Limit: 10})
		w.ok(err, "claim")
		w.timeIs(&next, began.Add(10*time.Second), "next")
		w.advance(9 * time.Second)
		w.takes("a", 10, 0)
		w.advance(2 * time.Second)
		w.release(w.takes("a", 10, 1)[0]) // it was a start
		w.takes("a", 10, 0)
		w.advance(time.Hour)
		w.takes("a", 10, 2)
	}},
	{"each key has its own rate", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","rate":{"limit":1,"seconds":60}}}`)
		for _, tenant := range []string{"x", "x", "y"} {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"t":%q}`, tenant))})
		}
		w.takes("a", 10, 2)
		var next time.Time
		_, err := w.svc.Claim(pawl.WithNextAt(w.ctx, &next), pawl.ClaimRequest{WorkerID: "w"})
		w.ok(err, "claim")
		w.timeIs(&next, w.now().Add(time.Minute), "next")
		w.advance(61 * time.Second)
		w.takes("a", 10, 1)
	}},
	{"keys take turns, by their weights", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","weights":{"big":2}}}`)
		for i := range 12 {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"t":"big","n":%d}`, i))})
		}
		for range 4 {
			w.create(pawl.NewTask{Type: "a", Payload: raw(`{"t":"small"}`)})
		}
		got := map[bool]int{}
		for range 9 {
			got[strings.Contains(string(w.takes("a", 1, 1)[0].Input), "big")]++
		}
		w.same(got, map[bool]int{true: 6, false: 3}, "claimed one by one")
		for _, l := range w.takes("a", 3, 3) {
			got[strings.Contains(string(l.Input), "big")]++
		}
		w.same(got, map[bool]int{true: 8, false: 4}, "claimed together")
		w.takes("a", 10, 4) // of the one that is left
	}},
	{"weights hold in large batches", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","weights":{"big":9}}}`)
		for _, tenant := range []string{"big", "small"} {
			for range 50 {
				w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"t":%q}`, tenant))})
			}
		}
		n := 0
		for _, l := range w.takes("a", 50, 50) {
			if strings.Contains(string(l.Input), "big") {
				n++
			}
		}
		w.same(n, 45, "items of the key with weight 9")
	}},
	{"a rate that is changed counts from then on", func(w *fixture) {
		for _, pointer := range []string{`{"rate":%s}`, `{"per_key":{"pointer":"/t","rate":%s}}`} {
			typ := fmt.Sprint(len(pointer))
			w.limit(typ, fmt.Sprintf(pointer, `{"limit":1,"seconds":86400}`))
			for range 4 {
				w.create(pawl.NewTask{Type: typ})
			}
			w.takes(typ, 10, 1)
			w.takes(typ, 10, 0)
			w.limit(typ, fmt.Sprintf(pointer, `{"limit":2,"seconds":1,"burst":2}`))
			w.advance(time.Second)
			w.takes(typ, 10, 2)
		}
	}},
	{"a claim of a task looks past items that a limit keeps back", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","concurrency":1}}`)
		x, y := raw(`{"t":"x"}`), raw(`{"t":"y"}`)
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: x}, {Input: x}, {Input: y}}})
		for _, input := range []string{string(x), string(y)} {
			got := w.claims(pawl.ClaimRequest{WorkerID: "w", TaskID: t.ID})
			w.same(len(got), 1, "leases")
			w.same(string(got[0].Input), input, "input")
		}
	}},
	{"without turns, the highest priority of all keys comes first", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","fair":false}}`)
		for i := range 80 {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"t":"%d"}`, i)), Priority: i / 79})
		}
		w.same(string(w.takes("a", 1, 1)[0].Input), `{"t":"79"}`, "input")
	}},
	{"without turns, priority and age count over all keys", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","concurrency":5,"fair":false}}`)
		for i, tenant := range []string{"x", "x", "x", "y"} {
			w.create(pawl.NewTask{Type: "a", Payload: raw(fmt.Sprintf(`{"t":%q}`, tenant)), Priority: i / 3})
		}
		w.same(string(w.takes("a", 1, 1)[0].Input), `{"t":"y"}`, "first")
		w.same(string(w.takes("a", 2, 2)[1].Input), `{"t":"x"}`, "third")
	}},
	{"the items of a key are taken one at a time in the order of their creation", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","order":"created"}}`)
		var ids []string
		for i := range 4 {
			ids = append(ids, w.onlyItem(w.create(pawl.NewTask{Type: "a", Payload: raw(`{"t":"x"}`), Priority: i}).ID).ID)
		}
		other := w.onlyItem(w.create(pawl.NewTask{Type: "a", Payload: raw(`{"t":"y"}`)}).ID).ID
		got := w.takes("a", 10, 2)
		w.same([]string{got[0].ID, got[1].ID}, []string{ids[0], other}, "first of each key")
		w.failWithBackoff(got[0])
		w.takes("a", 10, 0) // it is in back-off
		w.advance(2 * time.Minute)
		w.sweep()
		first := w.takes("a", 1, 1)[0]
		w.same(first.ID, ids[0], "after the back-off")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", ItemID: ids[1]})), 0, "the second by its id")
		w.complete(first, `1`)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", ItemID: ids[2]})), 0, "the third by its id")
		w.same(w.takes("a", 1, 1)[0].ID, ids[1], "then the second")
	}},
	{"claims of a task or an item obey limits", func(w *fixture) {
		w.limit("a", `{"concurrency":1}`)
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {}, {Type: "free"}}})
		items := w.items(t.ID)
		got := w.claims(pawl.ClaimRequest{WorkerID: "w", TaskID: t.ID, Limit: 10})
		w.same(len(got), 2, "of the task")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", ItemID: items[1].ID})), 0, "of the item")
		for _, l := range got {
			w.complete(l, `1`)
		}
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", ItemID: items[1].ID})), 1, "of the item, later")
	}},
	{"queues with and without limits are claimed together, by priority", func(w *fixture) {
		w.limit("a", `{"concurrency":2}`)
		low := w.create(pawl.NewTask{Type: "free"})
		w.create(pawl.NewTask{Type: "a", Priority: 5})
		w.create(pawl.NewTask{Type: "a", Priority: 5})
		w.create(pawl.NewTask{Type: "a", Priority: 5})
		w.same(w.claim("w").Type, "a", "first")
		got := w.claims(pawl.ClaimRequest{WorkerID: "w", Limit: 10})
		w.same(len(got), 2, "rest")
		w.same(got[1].TaskID, low.ID, "last")
	}},
	{"a paused queue with limits is not claimed", func(w *fixture) {
		w.limit("a", `{"concurrency":5}`)
		t := w.create(pawl.NewTask{Type: "a"})
		_, err := w.svc.PauseQueue(w.ctx, "a")
		w.ok(err, "pause")
		w.takes("a", 1, 0)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", TaskID: t.ID})), 0, "by task")
		_, err = w.svc.ResumeQueue(w.ctx, "a")
		w.ok(err, "resume")
		w.takes("a", 1, 1)
	}},
	{"a waiting claim gets an item when a slot is free, and when a rate allows it", func(w *fixture) {
		w.limit("a", `{"concurrency":1}`)
		w.create(pawl.NewTask{Type: "a"})
		second := w.create(pawl.NewTask{Type: "a"})
		held := w.takes("a", 1, 1)[0]
		got := make(chan []pawl.Lease, 1)
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		defer cancel()
		go func() {
			leases, _ := w.svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "waits", WaitSeconds: 15})
			got <- leases
		}()
		time.Sleep(50 * time.Millisecond)
		w.complete(held, `1`)
		leases := <-got
		w.same(len(leases), 1, "leases")
		w.same(leases[0].TaskID, second.ID, "task")
	}},
	{"items and tasks say which limit keeps them back", func(w *fixture) {
		says := func(t pawl.Task, reason, detail string) *pawl.Blocked {
			w.Helper()
			b := w.onlyItem(t.ID).BlockedBy
			if b == nil {
				b = &pawl.Blocked{}
			}
			w.same([]string{b.Reason, b.Detail}, []string{reason, detail}, "the item is blocked by")
			w.same(w.task(t.ID).BlockedBy, w.onlyItem(t.ID).BlockedBy, "the task is blocked by")
			return b
		}
		typed := func(typ string) pawl.Task { return w.create(pawl.NewTask{Type: typ, Payload: raw(`{"t":"x"}`)}) }
		w.limit("all", `{"concurrency":1}`)
		w.limit("key", `{"per_key":{"pointer":"/t","concurrency":1}}`)
		w.limit("order", `{"per_key":{"pointer":"/t","order":"created"}}`)
		w.limit("rate", `{"rate":{"limit":1,"seconds":60}}`)
		w.limit("keyrate", `{"per_key":{"pointer":"/t","rate":{"limit":1,"seconds":60}}}`)
		later := map[string]pawl.Task{}
		for _, typ := range []string{"all", "key", "order", "rate", "keyrate"} {
			typed(typ)
			w.takes(typ, 1, 1)
			later[typ] = typed(typ)
		}
		says(later["all"], pawl.BlockedByConcurrency, "queue all: 1 leased, the limit is 1")
		says(later["key"], pawl.BlockedByConcurrency, `key "x": 1 leased, the limit is 1`)
		says(later["order"], pawl.BlockedByOrder, `key "x": an item before it has not ended`)
		b := says(later["rate"], pawl.BlockedByRate, "queue rate: 1 starts in 60 s")
		w.timeIs(b.Until, w.now().Add(time.Minute), "until")
		says(later["keyrate"], pawl.BlockedByRate, `key "x": 1 starts in 60 s`)
		many := w.create(pawl.NewTask{Type: "all", Items: []pawl.NewItem{{}, {}}})
		w.same(w.task(many.ID).BlockedBy.Reason, pawl.BlockedByConcurrency, "a task of many")
		w.limit("all", `{"concurrency":2}`)
		says(later["all"], pawl.BlockedByNoWorker, "no live worker takes all")
	}},
	{"a patch changes what it names", func(w *fixture) {
		q := w.limit("a", `{"concurrency":5,"rate":{"limit":10,"seconds":60},"per_key":{"pointer":"/t","weights":{"x":2,"y":3}}}`)
		w.same([]int{*q.Concurrency, q.Rate.Limit, q.Rate.Seconds, q.Rate.Burst}, []int{5, 10, 60, 10}, "limits")
		q = w.limit("a", `{"concurrency":null,"rate":{"limit":20},"per_key":{"weights":{"x":null,"z":4}}}`)
		w.same(q.Concurrency == nil, true, "no concurrency")
		w.same([]int{q.Rate.Limit, q.Rate.Seconds, q.Rate.Burst}, []int{20, 60, 20}, "rate")
		w.same(q.PerKey.Weights, map[string]int{"y": 3, "z": 4}, "weights")
		w.same(w.limit("a", `{}`), q, "an empty patch")
		q = w.limit("a", `{"rate":null,"per_key":null}`)
		w.same(q.QueueLimits, pawl.QueueLimits{}, "no limits")
	}},
	{"limits that make no sense are refused", func(w *fixture) {
		for patch, pointer := range map[string]string{
			`{"concurrency":0}`:                                              "/concurrency",
			`{"concurrency":-1}`:                                             "/concurrency",
			`{"concurrency":1000001}`:                                        "/concurrency",
			`{"concurrency":1.5}`:                                            "/concurrency",
			`{"concurrency":"many"}`:                                         "/concurrency",
			`{"per_worker":0}`:                                               "/per_worker",
			`{"rate":{"limit":5}}`:                                           "/rate/seconds",
			`{"rate":{"seconds":5}}`:                                         "/rate/limit",
			`{"rate":{"limit":0,"seconds":1}}`:                               "/rate/limit",
			`{"rate":{"limit":1,"seconds":-1}}`:                              "/rate/seconds",
			`{"rate":{"limit":1,"seconds":1,"burst":-1}}`:                    "/rate/burst",
			`{"rate":{"limit":1,"seconds":1,"burst":0}}`:                     "/rate/burst",
			`{"concurrency":1000000000000000000000000000000}`:                "/concurrency",
			`{"per_key":{"concurrency":1}}`:                                  "/per_key/pointer",
			`{"per_key":{"pointer":"tenant"}}`:                               "/per_key/pointer",
			`{"per_key":{"pointer":"/a~2"}}`:                                 "/per_key/pointer",
			`{"per_key":{"pointer":"/a","concurrency":0}}`:                   "/per_key/concurrency",
			`{"per_key":{"pointer":"/a","order":"random"}}`:                  "/per_key/order",
			`{"per_key":{"pointer":"/a","order":"created","concurrency":2}}`: "/per_key/concurrency",
			`{"Concurrency":1}`:                                              "/Concurrency",
			`{"per_key":{"pointer":"/a","Order":"created"}}`:                 "/per_key/Order",
			`{"per_key":{"pointer":"/a","weights":{"x/y":0}}}`:               "/per_key/weights/x~1y",
		} {
			_, err := w.svc.SetQueue(w.ctx, "a", pawl.QueuePatch(patch))
			w.invalid(err, pointer)
		}
		_, err := w.svc.SetQueue(w.ctx, "a", pawl.QueuePatch(`{"concurency":1}`))
		w.refused(err, pawl.CodeInvalid)
	}},
}}

// limit sets the limits of a queue.
func (w *fixture) limit(typ, patch string) pawl.Queue {
	w.Helper()
	q, err := w.svc.SetQueue(w.ctx, typ, pawl.QueuePatch(patch))
	w.ok(err, "set limits")
	return q
}

// takes claims items of a type, and checks how many it gets.
func (w *fixture) takes(typ string, limit, want int) []pawl.Lease {
	w.Helper()
	got := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: limit})
	w.same(len(got), want, "leases")
	return got
}
