package server

import (
	"context"
	"net/http"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// budgets registers the calls for budgets.
func (s *server) budgets() {
	add(s, "list_budgets", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.Budget]], error) {
		return page(s.svc.ListBudgets(ctx, in.Page()))
	})
	add(s, "get_budget", func(ctx context.Context, in *member) (*answer[pawl.Budget], error) {
		return reply(s.svc.GetBudget(ctx, in.ID))
	})
	add(s, "budget_spending", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The budget's name."`
		api.SpendingQuery
	}) (*answer[pawl.BudgetSpending], error) {
		return reply(s.svc.BudgetSpending(ctx, in.ID, in.Filter()))
	})
	change(s, "put_budget", func(ctx context.Context, svc pawl.Service, in *onBudget[pawl.NewBudget]) (*putBudget, error) {
		b, err := svc.PutBudget(ctx, in.ID, in.Body)
		if err != nil {
			return nil, err
		}
		out := &putBudget{Status: http.StatusOK, Body: b}
		if b.Created {
			out.Status = http.StatusCreated
		}
		return out, nil
	})
	change(s, "delete_budget", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		return &nothing{}, svc.DeleteBudget(ctx, in.ID)
	})
	change(s, "reserve_budget", func(ctx context.Context, svc pawl.Service, in *onBudget[pawl.ReserveCall]) (*answer[pawl.Reserved], error) {
		return reply(svc.ReserveBudget(ctx, in.ID, in.Body))
	})
	change(s, "settle_budget", func(ctx context.Context, svc pawl.Service, in *onBudget[pawl.SettleCall]) (*answer[pawl.Settled], error) {
		return reply(svc.SettleBudget(ctx, in.ID, in.Body))
	})
}

type (
	// onBudget is a call about the budget in the path.
	onBudget[B any] struct {
		ID   string `path:"id" doc:"The budget's name."`
		Body B
	}
	putBudget struct {
		Status int
		Body   pawl.Budget
	}
)
