package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// open opens an engine with a database of its own.
func open() (eng *engine.Engine, done func()) {
	dir := must(os.MkdirTemp("", "pawl"))
	eng = must(engine.Open(context.Background(), "sqlite:"+filepath.Join(dir, "work.db")))
	return eng, func() { must(0, errors.Join(eng.Close(), os.RemoveAll(dir))) }
}

// must returns v. An error ends the program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// inWorker lets a worker do what there is to do. It returns what the handler returned.
func inWorker(ctx context.Context, eng *engine.Engine, typ string, fn func(context.Context) (string, error)) (out string) {
	o := worker.Options{Drain: true, Logger: slog.New(slog.DiscardHandler)}
	must(0, worker.RunWith(ctx, eng, o, worker.Handle(typ, func(ctx context.Context, _ any) (_ string, err error) {
		out, err = fn(ctx)
		return out, err
	})))
	return out
}

// A task is created, claimed by a worker and completed. Package worker does the last two for handlers.
func Example() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "mail.send", Payload: json.RawMessage(`{"to":"ann@example.com"}`)}))
	leases := must(eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"mail.send"}, Limit: 1}))
	must(pawl.Complete(ctx, eng, leases[0].Fence(), json.RawMessage(`{"sent":true}`)))

	task = must(pawl.Await(ctx, eng, task.ID))
	result := must(eng.TaskResult(ctx, task.ID))
	fmt.Println(task.State, string(result.Payload))
	// Output: completed {"sent":true}
}

// With an input hash, a second create of the same request returns the task that exists.
func ExampleCreate() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	order := pawl.NewTask{Type: "order.ship", Payload: json.RawMessage(`{"order":17}`), InputHash: "order-17"}
	first := must(pawl.Create(ctx, eng, order))
	second := must(pawl.Create(ctx, eng, order))
	fmt.Println(first.ID == second.ID, first.Deduplicated, second.Deduplicated)
	// Output: true false true
}

// A cancelled task is not claimed any more.
func ExampleCancel() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "report"}))
	task = must(pawl.Cancel(ctx, eng, task.ID, "not needed any more"))
	leases := must(eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"report"}, Limit: 1}))
	fmt.Println(task.State, len(leases))
	// Output: cancelled 0
}

// A write of a worker whose lease has gone to another one is refused.
func ExampleHeartbeat() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	must(pawl.Create(ctx, eng, pawl.NewTask{Type: "report"}))
	lease := must(eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"report"}, Limit: 1}))[0]
	must(pawl.Heartbeat(ctx, eng, lease.Fence()))
	must(pawl.Release(ctx, eng, lease.Fence()))

	_, err := pawl.Heartbeat(ctx, eng, lease.Fence())
	fmt.Println(errors.Is(err, pawl.ErrLeaseLost), pawl.CodeOf(err))
	// Output: true lease_lost
}

// A failed attempt is repeated until the task's attempts are used up.
func ExampleFail() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "report", MaxAttempts: 2}))
	for range 2 {
		lease := must(eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"report"}, Limit: 1}))[0]
		must(pawl.Fail(ctx, eng, lease.Fence(), pawl.RetryAfter(0, errors.New("the printer is off"))))
		task = must(eng.GetTask(ctx, task.ID))
		fmt.Println(lease.Attempt, task.State)
	}
	task = must(pawl.Retry(ctx, eng, task.ID)) // by an operator
	fmt.Println(task.State)
	// Output:
	// 1 queued
	// 2 failed
	// queued
}

// A step runs once, however many attempts the item has.
func ExampleStep() {
	s := pawltest.NewSession(pawl.Lease{Type: "report"})
	handler := func(ctx context.Context) (int, error) {
		rows, err := pawl.Step(ctx, "read", func(context.Context) (int, error) {
			fmt.Println("reading")
			return 1200, nil
		})
		if err != nil {
			return 0, err
		}
		if s.Item.Attempt == 1 {
			return 0, errors.New("the disk is full")
		}
		return rows, nil
	}
	fmt.Println(handler(s.Context(context.Background())))
	s.Next() // the next attempt
	fmt.Println(handler(s.Context(context.Background())))
	// Output:
	// reading
	// 0 the disk is full
	// 1200 <nil>
}

// A handler saves where it is, and its next attempt goes on from there.
func ExampleSave() {
	s := pawltest.NewSession(pawl.Lease{Type: "copy"})
	handler := func(ctx context.Context) error {
		from := 0
		state, err := pawl.ResumeFrom(ctx)
		if saved, ok := state.Steps["row"]; ok && err == nil {
			err = json.Unmarshal(saved.Snapshot, &from)
		}
		if err != nil {
			return err
		}
		fmt.Println("from row", from)
		_, err = pawl.Save(ctx, pawl.CustomCheckpoint, "row", from+500)
		return err
	}
	must(0, handler(s.Context(context.Background())))
	s.Next()
	must(0, handler(s.Context(context.Background())))
	// Output:
	// from row 0
	// from row 500
}

// Progress is what readers of the task see while it runs.
func ExampleProgress() {
	s := pawltest.NewSession(pawl.Lease{Type: "copy"})
	must(0, pawl.Progress(s.Context(context.Background()), 40, "copying"))
	fmt.Println(*s.Reports[0].Progress, *s.Reports[0].Stage)
	// Output: 40 copying
}

// A sleeping item holds no lease and no worker.
func ExampleSleep() {
	s := pawltest.NewSession(pawl.Lease{Type: "remind"})
	handler := func(ctx context.Context) error { return pawl.Sleep(ctx, "a week", 7*24*time.Hour) }

	fmt.Println(errors.Is(handler(s.Context(context.Background())), pawl.ErrSuspended))
	s.Next() // a week later
	fmt.Println(handler(s.Context(context.Background())))
	// Output:
	// true
	// <nil>
}

// A handler waits for a signal, for example of a person who decides.
func ExampleWaitFor() {
	s := pawltest.NewSession(pawl.Lease{Type: "refund"})
	handler := func(ctx context.Context) (string, error) {
		return pawl.WaitFor[string](ctx, "decision", "refund.decided", "order-17")
	}
	_, err := handler(s.Context(context.Background()))
	fmt.Println(errors.Is(err, pawl.ErrSuspended))

	s.Signal("refund.decided", "order-17", json.RawMessage(`"granted"`)) // pawl.Signal sends it to a real one
	s.Next()
	fmt.Println(handler(s.Context(context.Background())))
	// Output:
	// true
	// granted <nil>
}

// A handler makes children and waits for all of them, without a lease meanwhile.
func ExampleAwaitChildren() {
	s := pawltest.NewSession(pawl.Lease{Type: "book"})
	handler := func(ctx context.Context) (results []string, err error) {
		var ids []string
		for _, page := range []string{"p1", "p2"} {
			child, err := pawl.Spawn(ctx, page, pawl.NewTask{Type: "page"})
			if err != nil {
				return nil, err
			}
			ids = append(ids, child.ID)
		}
		children, err := pawl.AwaitChildren(ctx, "pages", pawl.ChildWait{IDs: ids})
		for _, c := range children {
			results = append(results, string(c.Result))
		}
		return results, err
	}
	_, err := handler(s.Context(context.Background()))
	fmt.Println(errors.Is(err, pawl.ErrSuspended))

	s.EndChild(pawl.ChildResult{Key: "p1", State: pawl.TaskCompleted, Result: json.RawMessage(`"one"`)})
	s.EndChild(pawl.ChildResult{Key: "p2", State: pawl.TaskCompleted, Result: json.RawMessage(`"two"`)})
	s.Next()
	fmt.Println(handler(s.Context(context.Background())))
	// Output:
	// true
	// ["one" "two"] <nil>
}

// An effect is sent once. A repetition gets the recorded answer.
func ExampleEffect() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	charge := func(ctx context.Context) (string, error) {
		return pawl.Effect(ctx, "charge", pawl.EffectOptions{Key: "order-17", Request: map[string]int{"cents": 4200}},
			func(_ context.Context, key string) (string, error) {
				fmt.Println("charging with the key", key)
				return "receipt 9", nil
			})
	}
	for range 2 { // two tasks about one order
		must(pawl.Create(ctx, eng, pawl.NewTask{Type: "pay"}))
		fmt.Println(inWorker(ctx, eng, "pay", charge))
	}
	// Output:
	// charging with the key order-17
	// receipt 9
	// receipt 9
}

// The result of a call with a key is stored, and later calls get it.
func ExampleOnce() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	for range 2 {
		fmt.Println(pawl.Once(ctx, eng, "invoice-17", map[string]int{"cents": 4200}, func(context.Context) (string, error) {
			fmt.Println("creating")
			return "inv_1", nil
		}))
	}
	_, err := pawl.Once(ctx, eng, "invoice-17", map[string]int{"cents": 1}, func(context.Context) (string, error) { return "", nil })
	fmt.Println(errors.Is(err, pawl.ErrKeyReused))
	// Output:
	// creating
	// inv_1 <nil>
	// inv_1 <nil>
	// true
}

// The words of an agent are kept piece by piece while it speaks.
func ExampleStartMessage() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{Model: "small"}}))
	inWorker(ctx, eng, "chat", func(ctx context.Context) (string, error) {
		m, err := pawl.StartMessage(ctx, pawl.Reply{})
		if err != nil {
			return "", err
		}
		for _, words := range []string{"Good ", "morning."} {
			if err := m.Text(words); err != nil {
				return "", err
			}
		}
		return "", m.Finish(ctx, map[string]int{"output_tokens": 3})
	})
	said := must(eng.ListMessages(ctx, pawl.MessageFilter{TaskID: task.ID})).Items[0]
	fmt.Println(said.Status, said.Model, string(said.Content))
	// Output: complete small [{"type":"text","text":"Good morning."}]
}

// A handler reserves what it may spend, and settles what it spent.
func ExampleReserve() {
	s := pawltest.NewSession(pawl.Lease{Type: "ask"})
	s.Budgets = map[string]*pawl.Budget{"llm": {Name: "llm", NewBudget: pawl.NewBudget{Unit: "tokens", Limit: 1000}}}
	ctx := s.Context(context.Background())

	r := must(pawl.Reserve(ctx, "llm", 800))
	must(0, r.Settle(ctx, 650))
	fmt.Println(s.Budgets["llm"].Spent, s.Budgets["llm"].Reserved)
	// Output: 650 0
}

// Errors have a code that does not change, and name the fields that are invalid.
func ExampleCodeOf() {
	eng, done := open()
	defer done()

	_, err := pawl.Create(context.Background(), eng, pawl.NewTask{Priority: 100_000})
	fmt.Println(pawl.CodeOf(err))
	for _, f := range pawl.FieldsOf(err) {
		fmt.Println(f.Pointer)
	}
	// Output:
	// invalid
	// /type
	// /priority
}

// A permanent error ends an item at once, with whatever is left of its attempts.
func ExamplePermanent() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "pay", MaxAttempts: 10}))
	inWorker(ctx, eng, "pay", func(context.Context) (string, error) { return "", pawl.Permanent(errors.New("the card is stolen")) })
	fmt.Println(must(eng.GetTask(ctx, task.ID)).State)
	// Output: failed
}

// An item that is snoozed runs again later. It is not counted as a failure.
func ExampleSnooze() {
	ctx := context.Background()
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "poll", MaxAttempts: 1}))
	inWorker(ctx, eng, "poll", func(context.Context) (string, error) { return "", pawl.Snooze(time.Hour) })
	fmt.Println(must(eng.ListItems(ctx, pawl.ItemFilter{TaskID: task.ID})).Items[0].State)
	// Output: scheduled
}

// A call is made by a caller, in its namespace.
func ExampleAs() {
	ctx := pawl.As(context.Background(), pawl.Caller{Namespace: "shop", ActorID: "ann"})
	eng, done := open()
	defer done()

	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "report"}))
	_, err := eng.GetTask(context.Background(), task.ID) // the default namespace does not see it
	fmt.Println(task.Namespace, pawl.CodeOf(err))
	// Output: shop not_found
}
