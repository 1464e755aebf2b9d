package pawltest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

func TestSessionHasBudgets(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{})
	end := s.Clock.Add(time.Hour)
	s.Budgets = map[string]*pawl.Budget{
		"llm":  {NewBudget: pawl.NewBudget{Limit: 100, OnExhausted: pawl.ExhaustedSuspend}, PeriodEnd: &end},
		"mail": {NewBudget: pawl.NewBudget{Limit: 1}},
	}
	ctx := s.Context(t.Context())
	r, err := pawl.Reserve(ctx, "llm", 60)
	if err != nil || s.Budgets["llm"].Reserved != 60 {
		t.Fatal(r, err, s.Budgets["llm"])
	}
	if err := errors.Join(r.Settle(ctx, 70), r.Settle(ctx, 70)); err != nil || s.Budgets["llm"].Spent != 70 ||
		s.Budgets["llm"].Remaining != 30 {
		t.Fatal(err, s.Budgets["llm"])
	}
	if err := r.Settle(ctx, 71); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("settled with another amount: %v", err)
	}
	if _, err := pawl.Reserve(ctx, "llm", 31); !errors.Is(err, pawl.ErrSuspended) || !s.Suspended.Until.Equal(end) ||
		s.Suspended.Signal != pawl.BudgetSignal {
		t.Errorf("suspended: %v, %+v", err, s.Suspended)
	}
	_, err = pawl.Reserve(ctx, "mail", 2)
	if retryable, _ := pawl.RetryOf(err); !errors.Is(err, pawl.ErrBudgetExhausted) || retryable {
		t.Errorf("failed: %v", err)
	}
	if _, err := pawl.Reserve(ctx, "none", 1); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("of a budget that there is not: %v", err)
	}
	first, err := pawl.ReserveKey(ctx, "llm", "k", 5)
	if err != nil {
		t.Fatal(err)
	}
	s.Next()
	adopted, err := pawl.ReserveKey(s.Context(t.Context()), "llm", "k", 5)
	if err != nil || adopted.ID != first.ID {
		t.Errorf("%+v, %+v, %v", first, adopted, err)
	}
}
