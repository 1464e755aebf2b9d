package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// GetBudget reads a budget; see pawl.BudgetReader.
func (c *Client) GetBudget(ctx context.Context, name string) (pawl.Budget, error) {
	return read[pawl.Budget](ctx, c, "get_budget", name, nil)
}

// ListBudgets lists budgets; see pawl.BudgetReader.
func (c *Client) ListBudgets(ctx context.Context, page pawl.Page) (pawl.List[pawl.Budget], error) {
	return read[pawl.List[pawl.Budget]](ctx, c, "list_budgets", "", api.PagingOf(page))
}

// BudgetSpending groups what was spent of a budget; see pawl.BudgetReader.
func (c *Client) BudgetSpending(ctx context.Context, name string, f pawl.BudgetSpendingFilter) (pawl.BudgetSpending, error) {
	return read[pawl.BudgetSpending](ctx, c, "budget_spending", name, api.SpendingQueryOf(f))
}

// PutBudget makes or changes a budget; see pawl.BudgetKeeper.
func (c *Client) PutBudget(ctx context.Context, name string, b pawl.NewBudget) (pawl.Budget, error) {
	return write[pawl.Budget](ctx, c, "put_budget", name, b)
}

// DeleteBudget removes a budget; see pawl.BudgetKeeper.
func (c *Client) DeleteBudget(ctx context.Context, name string) error {
	r := request{route: api.RouteOf("delete_budget"), id: name}
	c.keyed(ctx, &r, 0)
	return c.do(ctx, r, nil)
}

// ReserveBudget reserves an amount; see pawl.BudgetSpender.
func (c *Client) ReserveBudget(ctx context.Context, budget string, call pawl.ReserveCall) (pawl.Reserved, error) {
	return write[pawl.Reserved](ctx, c, "reserve_budget", budget, call)
}

// SettleBudget records what was spent; see pawl.BudgetSpender.
func (c *Client) SettleBudget(ctx context.Context, budget string, call pawl.SettleCall) (pawl.Settled, error) {
	return write[pawl.Settled](ctx, c, "settle_budget", budget, call)
}

// write makes a call whose body is the JSON of a value.
func write[V any](ctx context.Context, c *Client, name, id string, value any) (V, error) {
	var out V
	body, err := encode(value)
	if err != nil {
		return out, err
	}
	r := request{route: api.RouteOf(name), id: id, body: body}
	c.keyed(ctx, &r, 0)
	return out, c.do(ctx, r, &out)
}
