package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

func putBudget(t *testing.T, p *pawltest.Pawl, b pawl.NewBudget) {
	t.Helper()
	b.Unit = "tokens"
	if _, err := p.Service.PutBudget(t.Context(), "llm", b); err != nil {
		t.Fatal(err)
	}
}

func budget(t *testing.T, p *pawltest.Pawl) pawl.Budget {
	t.Helper()
	b, err := p.Service.GetBudget(t.Context(), "llm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// spends reserves 60 tokens and spends 50.
func spends(ctx context.Context, _ int) (string, error) {
	r, err := pawl.Reserve(ctx, "llm", 60)
	if err != nil {
		return "", err
	}
	return "done", r.Settle(ctx, 50)
}

// An exhausted budget fails the item for good, or suspends it: until the next period, or until
// it is changed.
func TestAnExhaustedBudgetDoesWhatItAsks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		putBudget(t, p, pawl.NewBudget{Limit: 100, Period: pawl.PeriodDay})
		startWorker(t, p, worker.Options{}, worker.Handle("t", spends))
		waitForState(t, p, p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)}), pawl.ItemCompleted)

		it := waitForState(t, p, p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`2`)}), pawl.ItemFailed)
		if it.Error.Code != string(pawl.CodeBudgetExhausted) || it.Failures != 1 {
			t.Errorf("with fail: %+v", it)
		}

		putBudget(t, p, pawl.NewBudget{Limit: 100, Period: pawl.PeriodDay, OnExhausted: pawl.ExhaustedAsk})
		asks := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`3`)})
		if it := waitForState(t, p, asks, pawl.ItemWaiting); it.RunAt != nil || it.BlockedBy == nil ||
			it.BlockedBy.Reason != pawl.BlockedByBudget {
			t.Errorf("with ask: %+v, %+v", it, it.BlockedBy)
		}
		putBudget(t, p, pawl.NewBudget{Limit: 110, Period: pawl.PeriodDay, OnExhausted: pawl.ExhaustedSuspend})
		waitForState(t, p, asks, pawl.ItemCompleted)

		suspends := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`4`)})
		it = waitForState(t, p, suspends, pawl.ItemWaiting)
		end := budget(t, p).PeriodEnd
		if it.RunAt == nil || !it.RunAt.Equal(*end) || !it.BlockedBy.Until.Equal(*end) {
			t.Errorf("with suspend: %+v, %+v; the period ends at %s", it, it.BlockedBy, end)
		}
		p.Advance(end.Sub(p.Now()))
		sweep(t, p)
		if it := waitForState(t, p, suspends, pawl.ItemCompleted); it.Failures != 0 {
			t.Errorf("on the next day: %+v", it)
		}
		if b := budget(t, p); b.Spent != 50 || b.Reserved != 0 {
			t.Errorf("%+v", b)
		}
	})
}

// A budget that is exhausted only as long as others have not settled is tried again soon.
func TestReservationsOfOthersAreWaitedForShortly(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	putBudget(t, p, pawl.NewBudget{Limit: 100, OnExhausted: pawl.ExhaustedAsk})
	p.Create(pawl.NewTask{Type: "other", Payload: json.RawMessage(`1`)})
	other, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"other"}})
	if err != nil || len(other) != 1 {
		t.Fatal(other, err)
	}
	_, err = p.Service.ReserveBudget(t.Context(), "llm",
		pawl.ReserveCall{ItemID: other[0].ID, WorkerID: "w", Attempt: 1, Amount: 50, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	startWorker(t, p, worker.Options{}, worker.Handle("t", spends))
	task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
	if it := waitForState(t, p, task, pawl.ItemWaiting); it.RunAt == nil || it.RunAt.Sub(p.Now()) > pawl.BudgetRetry+10*time.Second {
		t.Errorf("%+v", it)
	}
}

// An attempt that is lost between settling and saving its result spends again in the next one;
// one that is lost before it settles does not reserve twice.
func TestWhatALostAttemptSpentCounts(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		putBudget(t, p, pawl.NewBudget{Limit: 1000})
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		var keys []string
		startWorker(t, p, worker.Options{}, worker.Handle("t", func(ctx context.Context, _ int) (string, error) {
			return pawl.Step(ctx, "ask", func(ctx context.Context) (string, error) {
				l, err := pawl.ItemFrom(ctx)
				if err != nil {
					return "", err
				}
				r, err := pawl.Reserve(ctx, "llm", 100)
				if err != nil {
					return "", err
				}
				keys = append(keys, r.ID)
				again := pawl.RetryAfter(0, errors.New("lost"))
				if l.Attempt == 1 {
					return "", again
				}
				if err := r.Settle(ctx, 10); err != nil || l.Attempt == 2 {
					return "", errors.Join(err, again)
				}
				return "done", nil
			})
		}))
		waitForState(t, p, task, pawl.ItemCompleted)
		if b := budget(t, p); b.Spent != 20 || b.Reserved != 0 {
			t.Errorf("%+v", b)
		}
		if len(keys) != 3 || keys[0] != keys[1] || keys[1] == keys[2] {
			t.Errorf("the reservations of the attempts: %v", keys)
		}
	})
}

// An item of an exhausted budget that asks goes on once it is approved, and fails once it is
// rejected.
func TestAnExhaustedBudgetAsksAPerson(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		putBudget(t, p, pawl.NewBudget{Limit: 50, OnExhausted: pawl.ExhaustedAsk})
		startWorker(t, p, worker.Options{}, worker.Handle("t", spends))
		question := func() string {
			q := pawl.TaskFilter{Types: []string{pawl.TypeBudget}, States: []pawl.TaskState{pawl.TaskSubmitted}}
			list, err := p.Service.ListTasks(t.Context(), q)
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("questions: %+v, %v", list, err)
			}
			return list.Items[0].ID
		}
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		waitForState(t, p, task, pawl.ItemWaiting)
		if rs, err := p.Service.ApproveTasks(t.Context(), []pawl.ApproveCall{{TaskID: question()}}); err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		waitForState(t, p, task, pawl.ItemCompleted)
		task = p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`2`)})
		waitForState(t, p, task, pawl.ItemWaiting)
		no := pawl.RejectCall{TaskID: question(), Errors: []pawl.Complaint{{Code: "no", Message: "too much"}}}
		if rs, err := p.Service.RejectTasks(t.Context(), []pawl.RejectCall{no}); err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		if it := waitForState(t, p, task, pawl.ItemFailed); it.Error.Code != string(pawl.CodeBudgetExhausted) {
			t.Errorf("%+v", it.Error)
		}
	})
}

// A settle of a budget that was deleted meanwhile fails, and the handler goes on.
func TestASettleOfADeletedBudgetIsRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		putBudget(t, p, pawl.NewBudget{Limit: 100})
		startWorker(t, p, worker.Options{}, worker.Handle("t", func(ctx context.Context, _ int) (string, error) {
			r, err := pawl.Reserve(ctx, "llm", 60)
			if err != nil {
				return "", err
			}
			if err := p.Service.DeleteBudget(context.WithoutCancel(ctx), "llm"); err != nil {
				return "", err
			}
			if err := r.Settle(ctx, 50); !errors.Is(err, pawl.ErrNotFound) {
				return "", pawl.Permanent(errors.Join(errors.New("settled"), err))
			}
			return "done", ctx.Err() // the claim goes on
		}))
		waitForState(t, p, p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)}), pawl.ItemCompleted)
	})
}
