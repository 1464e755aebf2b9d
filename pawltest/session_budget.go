package pawltest

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

// reservation is an amount of a budget of a Session.
type reservation struct {
	id, budget string
	amount     int64
	settled    *int64
}

// ReserveBudget implements pawl.BudgetSession.
func (s *Session) ReserveBudget(_ context.Context, budget string, call pawl.ReserveCall) (pawl.Reserved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.Budgets[budget]
	if err := s.failed(); err != nil {
		return pawl.Reserved{}, err
	} else if b == nil {
		return pawl.Reserved{}, pawl.NotFound("budget", budget)
	}
	b.Remaining = b.Limit - b.Spent - b.Reserved
	r := s.reserved[budget+" "+call.Key]
	if r == nil {
		if call.Amount > b.Remaining {
			x := &pawl.Exhausted{Budget: budget, OnExhausted: cmp.Or(b.OnExhausted, pawl.ExhaustedFail), Limit: b.Limit, Remaining: b.Remaining,
				Reserved: b.Reserved, PeriodEnd: b.PeriodEnd}
			if x.OnExhausted == pawl.ExhaustedAsk && call.Amount > b.Remaining+b.Reserved {
				x.TaskID = "tsk_asks"
			}
			x.SignalKey = pawl.BudgetSignalKey(budget, b.UpdatedAt, x.TaskID)
			return pawl.Reserved{}, &pawl.Error{Code: pawl.CodeBudgetExhausted, Op: "reserve", Exhausted: x}
		}
		r = &reservation{id: fmt.Sprint("rsv_", len(s.reserved)+1), budget: budget, amount: call.Amount}
		if s.reserved == nil {
			s.reserved = map[string]*reservation{}
		}
		s.reserved[budget+" "+call.Key] = r
		b.Reserved, b.Remaining = b.Reserved+r.amount, b.Remaining-r.amount
	}
	return pawl.Reserved{Reservation: r.id, Amount: r.amount, Remaining: b.Remaining, Settled: r.settled}, nil
}

// SettleBudget implements pawl.BudgetSession.
func (s *Session) SettleBudget(_ context.Context, budget string, call pawl.SettleCall) (pawl.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failed(); err != nil {
		return pawl.Settled{}, err
	}
	for _, r := range s.reserved {
		if r.id != call.Reservation || r.budget != budget {
			continue
		}
		b := s.Budgets[budget]
		if r.settled == nil {
			r.settled = &call.Amount
			b.Spent, b.Reserved = b.Spent+call.Amount, b.Reserved-r.amount
			b.Remaining = b.Limit - b.Spent - b.Reserved
		} else if *r.settled != call.Amount {
			return pawl.Settled{}, &pawl.Error{Code: pawl.CodeConflict, Op: "settle",
				Message: fmt.Sprintf("reservation %s was settled with %d", r.id, *r.settled)}
		}
		return pawl.Settled{Remaining: b.Remaining, Spent: b.Spent}, nil
	}
	return pawl.Settled{}, pawl.NotFound("reservation", call.Reservation)
}
