package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// failpoints is a worker that pays, and ends at chosen points: between its calls, and at each statement of them.
type failpoints struct {
	testing.TB
	*pawltest.Pawl
	worker *engine.Engine // of the process that pays
	rnd    *rand.Rand
	left   atomic.Int64 // statements until the call ends; 0 = it does not
	end    atomic.Pointer[context.CancelFunc]

	paid    map[string]int // payments by key
	stops   int
	open    int // effects that were open when their sender ended: of these alone it cannot be told
	unknown int // effects that became unknown
	settled int64
}

// The points at which the worker ends.
const (
	failBefore = iota // the row
	failInOpen
	failAfterRow
	failAfterSending
	failInReport
	failAfterRecord
	failPoints
)

func (f *failpoints) statement(string) {
	if f.left.Add(-1) == 0 {
		(*f.end.Load())()
	}
}

// restart ends the process that pays and begins another. Closing waits for statements that went on without their caller.
func (f *failpoints) restart() {
	if f.worker != nil {
		if err := f.worker.Close(); err != nil {
			f.Fatal(err)
		}
	}
	f.worker = f.Another(engine.Options{Statement: f.statement})
}

// dying returns a context that ends before a statement of the call.
func (f *failpoints) dying(dies bool) context.Context {
	ctx, end := context.WithCancel(f.Context())
	if before := f.end.Swap(&end); before != nil {
		(*before)()
	}
	f.left.Store(0)
	if dies {
		f.left.Store(1 + int64(f.rnd.IntN(9)))
	}
	return ctx
}

// ended reports whether a call has ended the attempt: because it dies in it, or because the database did not carry the call
// out in time, as on a busy machine. Then nothing says what became of the call.
func (f *failpoints) ended(dies bool, err error) bool {
	if err == nil || !dies && pawl.CodeOf(err) != pawl.CodeUnavailable {
		return false
	}
	f.restart()
	return true
}

// attempt pays, and ends at the point. It returns whether it has come to its end.
func (f *failpoints) attempt(l pawl.Lease, call pawl.OpenEffectCall, point int) bool {
	if point == failBefore {
		return false
	}
	out, err := f.worker.OpenEffect(f.dying(point == failInOpen), call)
	if pawl.CodeOf(err) == pawl.CodeEffectUnknown {
		f.resolve(pawl.EffectOf(err), call.Key)
		out, err = f.worker.OpenEffect(f.dying(false), call)
	}
	if f.ended(point == failInOpen, err) {
		return false
	}
	if err != nil {
		f.Fatalf("open: %v", err)
	}
	if out.Send {
		if point == failAfterRow {
			return false
		}
		if f.paid[call.Key] == 0 || !call.Repeatable { // the outside recognises the key
			f.paid[call.Key]++
		}
		if point == failAfterSending {
			return false
		}
		_, err = f.worker.EffectDone(f.dying(point == failInReport), out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID,
			Attempt: l.Attempt, Sending: out.Sending, Answer: []byte(`1`)})
		if f.ended(point == failInReport, err) || point == failAfterRecord {
			return false
		}
	} else if out.State != pawl.EffectDone {
		f.Fatalf("it is %s, and is not sent", out.State)
	}
	if err == nil {
		_, err = pawl.Complete(f.dying(false), f.Engine, l.Fence(), nil)
	}
	if f.ended(false, err) {
		return need[pawl.Task](f)(f.Engine.GetTask(f.dying(false), l.TaskID)).State == pawl.TaskCompleted
	}
	if err != nil {
		f.Fatalf("the end: %v", err)
	}
	return true
}

// resolve is the person, who looks at what was paid.
func (f *failpoints) resolve(id, key string) {
	outcome := pawl.DidNotHappen
	if f.paid[key] > 0 {
		outcome = pawl.Happened
	}
	need[pawl.EffectRecord](f)(f.Engine.ResolveEffect(f.dying(false), id, pawl.ResolveEffectCall{Outcome: outcome}))
}

func (f *failpoints) effect(key string) (out pawl.EffectRecord) {
	list := need[pawl.List[pawl.EffectRecord]](f)(f.Engine.ListEffects(f.dying(false), pawl.EffectFilter{Key: key}))
	if len(list.Items) > 0 {
		out = list.Items[0]
	}
	return out
}

// round lets workers of tasks end at points until each task is done, and compares what was paid with what is recorded.
func (f *failpoints) round(from, tasks int) {
	calls := map[string]pawl.OpenEffectCall{}
	for n := range tasks {
		key := fmt.Sprint("order ", from+n)
		task := need[pawl.Task](f)(pawl.Create(f.dying(false), f.Engine, pawl.NewTask{Type: "pays", MaxAttempts: 99}))
		call := pawl.OpenEffectCall{Name: "pay", Key: key, RequestHash: "h", Repeatable: n%3 == 0}
		if n%2 == 0 {
			call.Budget, call.Amount = "b", 1+int64(n%7)
		}
		if n%5 < 2 {
			call.LeaseSeconds = 15
		}
		calls[task.ID] = call
	}
	for done := 0; done < tasks; {
		ls := need[[]pawl.Lease](f)(f.Engine.Claim(f.dying(false), pawl.ClaimRequest{WorkerID: "w", Types: []string{"pays"}, Limit: tasks,
			LeaseSeconds: 60}))
		for _, l := range ls {
			call := calls[l.TaskID]
			call.ItemID, call.WorkerID, call.Attempt = l.ID, l.WorkerID, l.Attempt
			point := f.rnd.IntN(failPoints + 1) // the last: it does not end
			if f.attempt(l, call, point) {
				done++
				continue
			}
			f.stops++
			if f.effect(call.Key).State == pawl.EffectOpen {
				f.open++
			}
		}
		f.Advance(time.Hour)
		need[pawl.SweepStats](f)(f.Engine.Sweep(f.dying(false)))
	}
	for task, call := range calls {
		e := f.effect(call.Key)
		if e.State != pawl.EffectDone || f.paid[call.Key] != 1 {
			f.Errorf("%s was paid %d times, and is %s", call.Key, f.paid[call.Key], e.State)
		}
		f.settled += e.Amount
		events := need[pawl.List[pawl.Event]](f)(f.Engine.ListEvents(f.dying(false), pawl.EventFilter{TaskID: task,
			Page: pawl.Page{Limit: pawl.MaxPage}}))
		for _, ev := range events.Items {
			if ev.Event == "effect_unknown" {
				f.unknown++
			}
		}
		need[string](f)(first(f.Engine.DeleteTasks(f.dying(false), []pawl.TaskCall{{TaskID: task}})))
	}
}

// Workers end at points of an effect, in one process: between their calls, and at the statements of each. Nothing is paid
// twice, what is unknown is what cannot be told, and what was spent is what the payments cost. PAWL_FAILPOINTS says how
// often workers end: one time of five on PostgreSQL, where a call that ends costs its connection.
func TestPaymentsAtFailpoints(t *testing.T) {
	stops := 200
	if n, err := strconv.Atoi(os.Getenv("PAWL_FAILPOINTS")); err == nil {
		stops = n
	} else if os.Getenv("PAWL_TORTURE") != "" {
		stops = 100_000
	}
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f := &failpoints{TB: t, rnd: rand.New(rand.NewPCG(seed, 0)), paid: map[string]int{}}
			f.Pawl = pawltest.Open(t, which)
			f.restart()
			need[pawl.Budget](t)(f.Engine.PutBudget(f.dying(false), "b", pawl.NewBudget{Unit: "EUR", Limit: pawl.MaxBudgetAmount}))
			payments, share := 0, map[pawltest.Database]int{pawltest.SQLite: stops * 4 / 5, pawltest.Postgres: stops / 5}[which]
			for ; f.stops < share; payments += 20 {
				f.round(payments, 20)
			}
			b := need[pawl.Budget](t)(f.Engine.GetBudget(f.dying(false), "b"))
			if f.unknown != f.open || b.Spent != f.settled || b.Reserved != 0 {
				t.Errorf("%d unknown, %d that cannot be told; %d spent, %d settled, %d reserved", f.unknown, f.open, b.Spent, f.settled, b.Reserved)
			}
			t.Logf("%d stops: %d payments = effects done; %d unknown = those that cannot be told; %d spent = settled", f.stops, payments,
				f.unknown, f.settled)
		})
	}
}
