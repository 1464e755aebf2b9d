package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// limitedWork is a database on which workers of three engines claim from queues with limits.
type limitedWork struct {
	*testing.T
	p       *pawltest.Pawl
	engines []*engine.Engine
	until   time.Time
	taken   atomic.Int64
}

const (
	limitAll, limitWorker, limitKey = 6, 2, 3
	rateLimit, rateBurst            = 40, 5
)

// However workers of three engines claim, complete, fail, release, suspend, cancel, and let leases
// run out, no limit is exceeded at any moment, no rate in any second, and no slot is lost.
func TestLimitsHold(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			w := &limitedWork{T: t, p: p, engines: []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}}
			w.until = time.Now().Add(time.Duration(times(4, 600)) * time.Second)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for _, e := range w.engines {
				running.Go(func() { _ = e.Run(ctx) })
			}
			defer running.Wait()
			defer stop()
			w.setLimits()
			var workers sync.WaitGroup
			for i := range times(16, 64) {
				workers.Go(func() { w.work(i) })
			}
			workers.Go(w.watch)
			workers.Wait()
			w.held()
			if n := w.taken.Load(); n < 50 {
				t.Errorf("only %d items were claimed", n)
			}
		})
	}
}

// setLimits sets the limits of the queues, and creates the work that has an order.
func (w *limitedWork) setLimits() {
	w.Helper()
	w.limit("all", fmt.Sprintf(`{"concurrency":%d,"per_worker":%d,"per_key":{"pointer":"/t","concurrency":%d}}`,
		limitAll, limitWorker, limitKey))
	w.limit("rate", fmt.Sprintf(`{"rate":{"limit":%d,"seconds":1,"burst":%d}}`, rateLimit, rateBurst))
	w.limit("order", `{"per_key":{"pointer":"/t","order":"created"}}`)
	for i := range 30 {
		need[pawl.Task](w)(pawl.Create(w.Context(), w.p.Engine, limitedTask("order", i%3)))
	}
}

// held drains the queues, and checks what the record says.
func (w *limitedWork) held() {
	w.Helper()
	w.drain()
	w.rateHeld()
	w.orderHeld()
}

func (w *limitedWork) limit(typ, patch string) {
	w.Helper()
	need[pawl.Queue](w)(w.engines[0].SetQueue(w.Context(), typ, pawl.QueuePatch(patch)))
}

// limitedTask is a task of a queue with limits, of a key.
func limitedTask(typ string, key int) pawl.NewTask {
	return pawl.NewTask{Type: typ, Payload: json.RawMessage(fmt.Sprintf(`{"t":"%d"}`, key)), MaxAttempts: 1000}
}

// work claims and ends leases at random.
func (w *limitedWork) work(n int) {
	if err := workAtRandom(w.Context(), w.engines[n%len(w.engines)], fmt.Sprintf("w%d", n), w.until, &w.taken); err != nil {
		w.Error(err)
	}
}

// workAtRandom creates tasks of queues with limits, claims them, and ends the leases at random.
// It does not end one in eight.
func workAtRandom(ctx context.Context, e *engine.Engine, worker string, until time.Time, taken *atomic.Int64) error {
	for time.Now().Before(until) {
		typ := []string{"all", "rate", "order"}[rand.N(3)]
		if typ != "order" {
			if _, err := pawl.Create(ctx, e, limitedTask(typ, rand.N(4))); err != nil {
				return fmt.Errorf("create: %w", err)
			}
		}
		req := pawl.ClaimRequest{WorkerID: worker, Types: []string{typ}, Limit: 1 + rand.N(4), LeaseSeconds: 1, WaitSeconds: rand.N(2)}
		if rand.N(8) == 0 {
			req.Types = nil
		}
		got, err := e.Claim(ctx, req)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		taken.Add(int64(len(got)))
		for _, l := range got {
			if err := endAtRandom(ctx, e, l); err != nil && pawl.CodeOf(err) != pawl.CodeLeaseLost {
				return fmt.Errorf("end a lease: %w", err)
			}
		}
	}
	return nil
}

func endAtRandom(ctx context.Context, e *engine.Engine, l pawl.Lease) (err error) {
	switch rand.N(8) {
	case 0: // the worker dies
	case 1:
		_, err = pawl.Release(ctx, e, l.Fence())
	case 2:
		_, err = pawl.Suspend(ctx, e, l.Fence(), time.Now().Add(100*time.Millisecond))
	case 3:
		after := int64(rand.N(100))
		call := pawl.FailCallOf(l.Fence(), fmt.Errorf("no"))
		call.RetryAfterMS = &after
		_, err = first(e.Fail(ctx, []pawl.FailCall{call}))
	case 4:
		if l.Type != "order" {
			_, err = pawl.Cancel(ctx, e, l.TaskID, "no more")
		}
	default:
		_, err = pawl.Complete(ctx, e, l.Fence(), nil)
	}
	return err
}

const mostHeld = `
SELECT
  (SELECT COUNT(*) FROM pawl.leases l WHERE l.queue_id = q.id),
  COALESCE((SELECT MAX(x.n) FROM (SELECT COUNT(*) AS n FROM pawl.leases l WHERE l.queue_id = q.id GROUP BY l.worker) x), 0),
  COALESCE((SELECT MAX(x.n) FROM (SELECT COUNT(*) AS n FROM pawl.leases l WHERE l.queue_id = q.id GROUP BY l.gate) x), 0)
FROM pawl.queues q
WHERE q.namespace = 'default' AND q.type = $1`

// watch counts the leases again and again, each time in one statement.
func (w *limitedWork) watch() {
	most := map[string][3]int{"all": {limitAll, limitWorker, limitKey}, "order": {3, 3, 1}}
	for time.Now().Before(w.until) {
		for typ, allowed := range most {
			var n [3]int
			need[struct{}](w)(struct{}{}, w.p.Engine.DB().View(w.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n[0], &n[1], &n[2]}, mostHeld, typ)
				return err
			}))
			if n[0] > allowed[0] || n[1] > allowed[1] || n[2] > allowed[2] {
				w.Errorf("queue %s: %d leases, %d of a worker, %d of a key; allowed are %v", typ, n[0], n[1], n[2], allowed)
			}
		}
	}
}

// drain completes all work that is left. It takes as long as the rate and the order make it.
func (w *limitedWork) drain() {
	deadline := time.Now().Add(2 * time.Minute)
	for idle := 0; idle < 5; {
		req := pawl.ClaimRequest{WorkerID: fmt.Sprint("last", rand.N(20)), Limit: 100, WaitSeconds: 1}
		got := need[[]pawl.Lease](w)(w.p.Engine.Claim(w.Context(), req))
		for _, l := range got {
			need[pawl.Moved](w)(pawl.Complete(w.Context(), w.p.Engine, l.Fence(), nil))
		}
		if idle++; len(got) > 0 {
			idle = 0
		}
		if time.Now().After(deadline) {
			w.Fatal("the queues are not drained")
		}
	}
	for _, typ := range []string{"all", "rate", "order"} {
		q := need[pawl.Queue](w)(w.p.Engine.GetQueue(w.Context(), typ))
		if q.Queued+q.Leased+q.Waiting+q.Scheduled > 0 {
			w.Errorf("queue %s is not empty: %+v", typ, q)
		}
	}
}

// leased calls each with the claims of a type, in the order of the record.
func (w *limitedWork) leased(typ string, each func(task, item string, at time.Time)) {
	w.Helper()
	for f := (pawl.EventFilter{Event: "leased", Types: []string{typ}, Asc: true, Page: pawl.Page{Limit: 1000}}); ; {
		list := need[pawl.List[pawl.Event]](w)(w.p.Engine.ListEvents(w.Context(), f))
		for _, ev := range list.Items {
			each(ev.TaskID, ev.ItemID, ev.CreatedAt)
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			return
		}
	}
}

// rateHeld checks that no second had more starts than the rate and its burst.
func (w *limitedWork) rateHeld() {
	var at []time.Time
	w.leased("rate", func(_, _ string, t time.Time) { at = append(at, t) })
	slices.SortFunc(at, time.Time.Compare)
	for i := rateLimit + rateBurst; i < len(at); i++ {
		if d := at[i].Sub(at[i-rateLimit-rateBurst]); d < time.Second {
			w.Errorf("%d starts in %v", rateLimit+rateBurst+1, d)
		}
	}
}

// orderHeld checks that the items of each key were first claimed in the order of their creation.
func (w *limitedWork) orderHeld() {
	last, seen := map[string]string{}, map[string]bool{}
	w.leased("order", func(task, item string, _ time.Time) {
		if seen[item] {
			return
		}
		seen[item] = true
		key := string(need[pawl.Task](w)(w.p.Engine.GetTask(w.Context(), task)).Payload)
		if item < last[key] {
			w.Errorf("%s was claimed after %s", item, last[key])
		}
		last[key] = item
	})
	if len(seen) != 30 {
		w.Errorf("%d of 30 items in order were claimed", len(seen))
	}
}
