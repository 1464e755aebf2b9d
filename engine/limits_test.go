package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// limitedWork is a database on which workers of several engines claim from queues with limits.
type limitedWork struct {
	*testing.T
	engines []*engine.Engine // the first is the test's own
	seed    uint64
	until   time.Time
	taken   atomic.Int64
	ordered int          // items of the queue "order"
	moving  sync.RWMutex // locked while the database fails over
	mu      sync.Mutex
	removed map[string]bool // tasks of the queue "spend" that a worker was about to cancel or delete
}

const (
	limitAll, limitWorker, limitKey = 6, 2, 3
	limitSpend                      = 15
	rateLimit, rateBurst            = 40, 5
)

// limitedSeed is the seed of a run. PAWL_LIMITS_SEED sets it. It repeats the choices, not the order
// in which calls meet.
func limitedSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PAWL_LIMITS_SEED"); text != "" {
		seed = need[uint64](t)(strconv.ParseUint(text, 10, 64))
	}
	t.Logf("PAWL_LIMITS_SEED=%d", seed)
	return seed
}

// However workers of three engines claim, complete, fail, release, suspend, cancel, delete, and let
// leases run out, no limit is exceeded at any moment, no rate in any second, no budget at any
// reservation, and no slot or reservation is lost.
func TestLimitsHold(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			w := &limitedWork{T: t, seed: limitedSeed(t),
				engines: []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}}
			w.until = time.Now().Add(time.Duration(times(3, 600)) * time.Second)
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
				workers.Go(func() {
					r := &randomWorker{Engine: w.engines[i%len(w.engines)], name: fmt.Sprintf("w%d", i), rnd: rand.New(rand.NewPCG(w.seed, uint64(i))),
						until: w.until, taken: &w.taken, remove: w.remove}
					if err := r.work(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			workers.Go(w.watch)
			workers.Go(w.operate)
			workers.Wait()
			w.held()
			if n := w.taken.Load(); n < enough {
				t.Errorf("only %d items were claimed", n)
			}
		})
	}
}

// setLimits sets the limits of the queues, and makes the budgets.
func (w *limitedWork) setLimits() {
	w.Helper()
	w.limit("all", fmt.Sprintf(`{"concurrency":%d,"per_worker":%d,"per_key":{"pointer":"/t","concurrency":%d}}`,
		limitAll, limitWorker, limitKey))
	w.limit("rate", fmt.Sprintf(`{"rate":{"limit":%d,"seconds":1,"burst":%d}}`, rateLimit, rateBurst))
	w.limit("order", `{"per_key":{"pointer":"/t","order":"created"}}`)
	w.limit("spend", fmt.Sprintf(`{"concurrency":%d}`, limitSpend))
	for _, name := range pawl.BudgetLosses {
		w.allow(name, 100)
	}
}

// operate creates the work that has an order, and lets the budgets grow.
func (w *limitedWork) operate() {
	for ; time.Now().Before(w.until); time.Sleep(100 * time.Millisecond) {
		w.operateOnce()
	}
}

func (w *limitedWork) operateOnce() {
	w.moving.RLock()
	defer w.moving.RUnlock()
	need[pawl.Task](w)(pawl.Create(w.Context(), w.engines[0], limitedTask("order", w.ordered%3)))
	if w.ordered++; w.ordered%3 != 0 {
		return
	}
	for _, name := range pawl.BudgetLosses {
		w.allow(name, need[pawl.Budget](w)(w.engines[0].GetBudget(w.Context(), name)).Limit+100)
	}
}

// held drains the queues, and checks what the record and the budgets say.
func (w *limitedWork) held() {
	w.Helper()
	w.drain()
	w.rateHeld()
	w.orderHeld()
	w.spentExactly()
	w.slotsAreFree()
}

func (w *limitedWork) limit(typ, patch string) {
	w.Helper()
	need[pawl.Queue](w)(w.engines[0].SetQueue(w.Context(), typ, pawl.QueuePatch(patch)))
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
	most := map[string][3]int{"all": {limitAll, limitWorker, limitKey}, "order": {3, 3, 1}, "spend": {limitSpend, limitSpend, limitSpend}}
	for time.Now().Before(w.until) {
		w.withinBudgets()
		for typ, allowed := range most {
			var n [3]int
			w.read([]any{&n[0], &n[1], &n[2]}, mostHeld, typ)
			if n[0] > allowed[0] || n[1] > allowed[1] || n[2] > allowed[2] {
				w.Errorf("queue %s: %d leases, %d of a worker, %d of a key; allowed are %v", typ, n[0], n[1], n[2], allowed)
			}
		}
	}
}

// read reads one row while the database does not fail over.
func (w *limitedWork) read(into []any, query string, args ...any) {
	w.moving.RLock()
	defer w.moving.RUnlock()
	need[struct{}](w)(struct{}{}, w.engines[0].DB().View(w.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, into, query, args...)
		return err
	}))
}

// drain completes all work that is left. It takes as long as the rate and the order make it.
func (w *limitedWork) drain() {
	deadline := time.Now().Add(2 * time.Minute)
	for _, name := range pawl.BudgetLosses {
		w.allow(name, pawl.MaxBudgetAmount)
	}
	last := &randomWorker{Engine: w.engines[0], rnd: rand.New(rand.NewPCG(w.seed, 0)), remove: w.remove, calm: true}
	for idle := 0; idle < 5; {
		req := pawl.ClaimRequest{WorkerID: fmt.Sprint("last", last.rnd.IntN(20)), Limit: 100, WaitSeconds: 1}
		got := need[[]pawl.Lease](w)(w.engines[0].Claim(w.Context(), req))
		for _, l := range got {
			if l.Type == "spend" {
				need[struct{}](w)(struct{}{}, last.spend(w.Context(), l))
				continue
			}
			need[pawl.Moved](w)(pawl.Complete(w.Context(), w.engines[0], l.Fence(), nil))
		}
		if idle++; len(got) > 0 {
			idle = 0
		}
		if time.Now().After(deadline) {
			w.Fatal("the queues are not drained")
		}
	}
	for _, typ := range []string{"all", "rate", "order", "spend"} {
		q := need[pawl.Queue](w)(w.engines[0].GetQueue(w.Context(), typ))
		if q.Queued+q.Leased+q.Waiting+q.Scheduled > 0 {
			w.Errorf("queue %s is not empty: %+v", typ, q)
		}
	}
}

// leased calls each with the claims of a type, in the order of the record.
func (w *limitedWork) leased(typ string, each func(task, item string, at time.Time)) {
	w.Helper()
	for f := (pawl.EventFilter{Event: "leased", Types: []string{typ}, Asc: true, Page: pawl.Page{Limit: 1000}}); ; {
		list := need[pawl.List[pawl.Event]](w)(w.engines[0].ListEvents(w.Context(), f))
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
		key := string(need[pawl.Task](w)(w.engines[0].GetTask(w.Context(), task)).Payload)
		if item < last[key] {
			w.Errorf("%s was claimed after %s", item, last[key])
		}
		last[key] = item
	})
	if len(seen) != w.ordered {
		w.Errorf("%d of %d items in order were claimed", len(seen), w.ordered)
	}
}

// The limit of a worker holds for claims that it makes at once.
func TestTheLimitOfAWorkerHoldsForClaimsAtOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_worker":2}`)))
		for range 20 {
			for range 8 {
				need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
			}
			var mu sync.Mutex
			var held []pawl.Lease
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					ls, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Limit: 2})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					held = append(held, ls...)
					mu.Unlock()
				})
			}
			all.Wait()
			if len(held) > 2 {
				t.Fatalf("the worker holds %d leases", len(held))
			}
			for _, l := range held {
				ok(t, finish(p.Engine, l.Fence()))
			}
		}
	})
}

// A waiting claim of a worker that has all it may have does not keep work from another worker's,
// also if no notice of the work arrives.
func TestAFullWorkerDoesNotPollForAll(t *testing.T) {
	p, _ := onPostgres(t)
	need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(`{"per_worker":1}`)))
	need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "full", Types: []string{"a"}}, 1)
	tries := make(chan struct{}, 1000)
	deaf := p.Another(engine.Options{MaxConns: 3, PollInterval: 50 * time.Millisecond, Statement: func(query string) {
		if strings.Contains(query, "queue_limits") {
			select {
			case tries <- struct{}{}:
			default:
			}
		}
	}})
	if deaf.Hears() {
		t.Fatal("it gets notices")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
	defer cancel()
	wait := func(worker string) ([]pawl.Lease, error) {
		return deaf.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Types: []string{"a"}, WaitSeconds: 60})
	}
	full := started(func() error { _, err := wait("full"); return err })
	for range 3 {
		<-tries // the claim of the full worker polls
	}
	var got []pawl.Lease
	idle := started(func() (err error) { got, err = wait("idle"); return err })
	for range 5 {
		<-tries // the other has tried once and waits
	}
	need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
	if err := <-idle; err != nil || len(got) != 1 {
		t.Errorf("the idle worker got %d items: %v", len(got), err)
	}
	cancel()
	<-full
}

// An item that comes back from its back-off while a claim looks is not overtaken by a younger one.
func TestAnItemThatComesBackMeanwhileIsNotOvertaken(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprint("named ", named), func(t *testing.T) {
			p, _ := onPostgres(t)
			ctx := t.Context()
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/t","order":"created"}}`)))
			older := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask("a", 1)))
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
			younger := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask("a", 1)))
			need[pawl.Moved](t)(first(p.Engine.Fail(ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}}})))
			looks, back := 0, 0
			claimer := p.Another(engine.Options{Statement: func(query string) {
				if strings.Contains(query, "s.attempt > 0") || strings.Contains(query, "h.item_id\nFROM unnest($2::int[], $3::int[])") {
					if looks++; looks == 2 { // it reads what is queued and what holds that up: the item moves in between
						p.Advance(2 * time.Hour)
						back = int(need[pawl.SweepStats](t)(p.Engine.Sweep(ctx)).Due)
					}
				}
			}})
			req := pawl.ClaimRequest{WorkerID: "w"}
			if named {
				req.TaskID = younger.ID
			}
			for _, l := range need[[]pawl.Lease](t)(claimer.Claim(ctx, req)) {
				if l.TaskID != older.ID {
					t.Error("the younger item was claimed first")
				}
			}
			if back != 1 {
				t.Errorf("%d items came back, after %d looks", back, looks)
			}
		})
	}
}

// A sweep removes what claims would look at in a queue that has no keys any more.
func TestHintsOfAQueueWithoutKeysAreRemoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		for typ, after := range map[string]string{"none": `{"per_key":null}`, "plain": `{"per_key":null,"concurrency":5}`} {
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, typ, pawl.QueuePatch(`{"per_key":{"pointer":"/t","concurrency":1}}`)))
			for i := range 3 {
				need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask(typ, i)))
			}
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, typ, pawl.QueuePatch(after)))
			for _, l := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: 3}, 3) {
				ok(t, finish(p.Engine, l.Fence()))
			}
		}
		count := func() (n int) {
			ok(t, p.Engine.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.gate_hints")
				return err
			}))
			return n
		}
		if count() == 0 {
			t.Fatal("nothing was left")
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if n := count(); n > 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// A start is counted by the time at which the gate of its key was locked.
func TestARateCountsFromTheLockOfItsGate(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	other, ctx := p.Another(engine.Options{}), t.Context() // one that has not read limits yet
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/t","rate":{"limit":1,"seconds":60}}}`)))
	first := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask("a", 1)))
	second := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, limitedTask("a", 1)))
	g := newGate(t, p)
	g.close("SELECT FROM gates WHERE key = '1' FOR UPDATE")
	claimed := make(chan int, 1)
	go func() {
		ls, err := other.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", TaskID: first.ID})
		if err != nil {
			t.Error(err)
		}
		claimed <- len(ls)
	}()
	g.waiting(1)
	p.Advance(time.Minute)
	g.open()
	if n := <-claimed; n != 1 {
		t.Fatalf("claimed %d", n)
	}
	if ls := need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: second.ID})); len(ls) != 0 {
		t.Error("two started at once")
	}
}
