package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/pawl-work/pawl"
)

// keyPayload is the payload of a task with the n-th key of the queue with limits.
func keyPayload(n int) []byte { return fmt.Appendf(nil, `{"k":%q}`, "abc"[n:n+1]) }

// limitOfKey is the number of leases at once of each key, where walkLimits have one for keys.
const limitOfKey = 2

// walkLimits are limits of the queue; each replaces all of the one before.
var walkLimits = []string{
	`{"concurrency":null,"per_key":null}`,
	`{"concurrency":null,"per_key":{"pointer":"/k","concurrency":2,"order":null,"fair":null}}`,
	`{"concurrency":null,"per_key":{"pointer":"/k","concurrency":2,"order":null,"fair":false}}`,
	`{"concurrency":null,"per_key":{"pointer":"/k","concurrency":1,"order":"created","fair":null}}`,
	`{"concurrency":3,"per_key":null}`,
	`{"concurrency":3,"per_key":{"pointer":"/other","concurrency":2,"order":null,"fair":null}}`,
}

// setLimits sets or removes the limits of a queue.
func (w *concurrentWalk) setLimits(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	_, err := svc.SetQueue(asOperator(ctx), "limited", pawl.QueuePatch(walkLimits[draw.IntN(len(walkLimits))]))
	return err
}

// limitNow sets the limits while nothing else sets them.
func (w *concurrentWalk) limitNow(n int) {
	w.Helper()
	_, err := w.p.Service.SetQueue(asOperator(w.Context()), "limited", pawl.QueuePatch(walkLimits[n]))
	w.accept(err)
}

// limited creates tasks of the queue with limits, with the given numbers of keys.
func (w *concurrentWalk) limited(keys ...int) {
	w.Helper()
	for _, key := range keys {
		n := pawl.NewTask{Type: "limited", Payload: keyPayload(key), MaxAttempts: 3}
		task, err := first(w.p.Service.CreateTasks(w.Context(), []pawl.NewTask{n}))
		w.accept(w.noted(nil, task, err))
	}
}

func keyOfPayload(payload []byte) string {
	var p struct{ K string }
	_ = json.Unmarshal(payload, &p)
	return p.K
}

// leasedByKey counts the leases of each key, from the items and their tasks.
func (w *concurrentWalk) leasedByKey() map[string]int {
	w.Helper()
	leased := []pawl.ItemState{pawl.ItemLeased, pawl.ItemInProgress}
	list, err := w.p.Service.ListItems(w.Context(), pawl.ItemFilter{Types: []string{"limited"}, States: leased,
		Page: pawl.Page{Limit: pawl.MaxPage}})
	w.accept(err)
	out := map[string]int{}
	for _, i := range list.Items {
		out[keyOfPayload(w.payloadOf(i.TaskID))]++
	}
	return out
}

// countLimits claims from many workers at once, and counts the leases of each key. No key gets more
// than its limit, nor more than it had. Those that were claimed are released.
func (w *concurrentWalk) countLimits(draw *rand.Rand) {
	w.Helper()
	before := w.leasedByKey()
	var workers sync.WaitGroup
	var mu sync.Mutex
	var got []pawl.Lease
	for n := range 4 {
		req := pawl.ClaimRequest{WorkerID: fmt.Sprint("w", n), Types: []string{"limited"}, Limit: 1 + draw.IntN(4), LeaseSeconds: 600}
		workers.Go(func() {
			some, err := w.engines[n%2].Claim(w.Context(), req)
			w.accept(err)
			mu.Lock()
			defer mu.Unlock()
			got = append(got, some...)
		})
	}
	workers.Wait()
	for key, n := range w.leasedByKey() {
		if n > max(before[key], limitOfKey) {
			w.Errorf("%d items of the key %q are leased, %d were before; the limit is %d", n, key, before[key], limitOfKey)
		}
	}
	for _, l := range got {
		_, err := first(w.p.Service.Release(w.Context(), []pawl.ReleaseCall{{Fence: l.Fence()}}))
		w.accept(err)
	}
}
