package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// remind sleeps for a week, then reminds.
func remind(ctx context.Context, who string) (string, error) {
	if err := pawl.Sleep(ctx, "a week", 7*24*time.Hour); err != nil {
		return "", err
	}
	return "dear " + who, nil
}

// A test makes a task, fails it once and completes it. A call that fails ends the test.
func ExampleCalls() {
	_ = func(t *testing.T) {
		p := pawltest.Open(t, pawltest.SQLite)
		task := p.Create(pawl.NewTask{Type: "pay"})
		p.FailWith(p.Claim("pay"), pawl.RetryAfter(0, errors.New("the bank does not answer")))
		p.Complete(p.Claim("pay"), `{"paid":true}`)
		if it := p.Items(task.ID)[0]; it.State != pawl.ItemCompleted || it.Attempt != 2 {
			t.Errorf("the item is %s in attempt %d", it.State, it.Attempt)
		}
		events := pawltest.Must[pawl.List[pawl.Event]](t)(p.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID}))
		t.Log(len(events.Items))
	}
}

// A handler is tested without a database. What it did is in the session.
func ExampleNewSession() {
	s := pawltest.NewSession(pawl.Lease{Type: "remind"})
	_, err := remind(s.Context(context.Background()), "ann")
	fmt.Println(errors.Is(err, pawl.ErrSuspended), s.Suspended != nil)
	s.Next() // the next attempt, a week later
	fmt.Println(remind(s.Context(context.Background()), "ann"))
	// Output:
	// true true
	// dear ann <nil>
}

// Days pass in milliseconds.
func ExamplePawl_Elapse() {
	_ = func(t *testing.T) {
		pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { // on SQLite, and on PostgreSQL
			task := p.Create(pawl.NewTask{Type: "remind", Payload: []byte(`"ann"`)})
			pawltest.RunOne(t, p.Service, worker.Handle("remind", remind))
			p.Elapse(7 * 24 * time.Hour)
			pawltest.RunOne(t, p.Service, worker.Handle("remind", remind))
			if got := p.Task(task.ID).State; got != pawl.TaskCompleted {
				t.Errorf("the task is %s", got)
			}
		})
	}
}

// The worker crashes after each of its writes, and the work is right each time.
func ExampleEachCrash() {
	_ = func(t *testing.T) {
		check := func(t *testing.T, _ *pawltest.Pawl, it pawl.Item) {
			if it.State != pawl.ItemCompleted {
				t.Errorf("the item is %s", it.State)
			}
		}
		pawltest.EachCrash(t, pawl.NewTask{Type: "remind", Payload: []byte(`"ann"`)}, check, worker.Handle("remind", remind))
	}
}
