package engine

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// GetBudget reads a budget; see pawl.BudgetReader.
func (e *Engine) GetBudget(ctx context.Context, name string) (pawl.Budget, error) {
	if err := rules.CheckBudgetName("budget", name); err != nil {
		return pawl.Budget{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Budget, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Budget{}, err
		}
		b, err := store.GetBudget(ctx, tx, ns, name, now)
		if err != nil {
			return pawl.Budget{}, err
		}
		return b.Budget(), nil
	})
}

// ListBudgets lists budgets; see pawl.BudgetReader.
func (e *Engine) ListBudgets(ctx context.Context, page pawl.Page) (pawl.List[pawl.Budget], error) {
	if err := rules.CheckPage(&page); err != nil {
		return pawl.List[pawl.Budget]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Budget], error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.List[pawl.Budget]{}, err
		}
		return store.ListBudgets(ctx, tx, ns, page, now)
	})
}

// BudgetSpending groups what was spent; see pawl.BudgetReader.
func (e *Engine) BudgetSpending(ctx context.Context, name string, q pawl.BudgetSpendingFilter) (pawl.BudgetSpending, error) {
	if err := rules.CheckSpendingFilter(name, &q); err != nil {
		return pawl.BudgetSpending{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.BudgetSpending, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.BudgetSpending{}, err
		}
		return store.BudgetSpending(ctx, tx, ns, name, q, now)
	})
}

// TaskSpending lists what a task spent of each budget, by name; of DefaultPage budgets at
// most. A task that the namespace does not have is not_found.
func (e *Engine) TaskSpending(ctx context.Context, taskID string) ([]pawl.TaskSpending, error) {
	taskID = idform.Task(taskID)
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.TaskSpending, error) {
		if err := store.TaskExists(ctx, tx, ns, taskID); err != nil {
			return nil, err
		}
		return store.TaskSpending(ctx, tx, ns, taskID, pawl.DefaultPage)
	})
}

// PutBudget makes or changes a budget; see pawl.BudgetKeeper.
func (e *Engine) PutBudget(ctx context.Context, name string, n pawl.NewBudget) (pawl.Budget, error) {
	if n.AppliesTo != nil {
		scope := idform.Call(*n.AppliesTo)
		n.AppliesTo = &scope
	}
	if err := rules.CheckBudget(name, &n); err != nil {
		return pawl.Budget{}, err
	}
	c := pawl.CallerOf(ctx)
	return e.changeBudget(ctx, func(ctx context.Context, tx store.Tx) (pawl.Budget, effects, error) {
		if n.AppliesTo != nil && n.AppliesTo.TaskID != "" {
			if _, err := store.TaskState(ctx, tx, c.Namespace, n.AppliesTo.TaskID); err != nil {
				return pawl.Budget{}, effects{}, err
			}
		}
		b, woken, created, err := store.PutBudget(ctx, tx, e.k.IDs.Next("bgt"), c.Namespace, name, n, actor(c, pawl.ActorUser, ""))
		out := b.Budget()
		out.Created = created
		return out, effects{queued: woken}, err
	})
}

// DeleteBudget removes a budget; see pawl.BudgetKeeper.
func (e *Engine) DeleteBudget(ctx context.Context, name string) error {
	if err := rules.CheckBudgetName("delete", name); err != nil {
		return err
	}
	c := pawl.CallerOf(ctx)
	_, err := e.changeBudget(ctx, func(ctx context.Context, tx store.Tx) (pawl.Budget, effects, error) {
		woken, err := store.DeleteBudget(ctx, tx, c.Namespace, name, actor(c, pawl.ActorUser, ""))
		return pawl.Budget{}, effects{queued: woken}, err
	})
	return err
}

// changeBudget is change for a budget. It tries again when another call changed the budget
// first.
func (e *Engine) changeBudget(ctx context.Context,
	fn func(context.Context, store.Tx) (pawl.Budget, effects, error)) (pawl.Budget, error) {
	for range budgetTries {
		if b, err := change(ctx, e, fn); !errors.Is(err, store.ErrBudgetChanged) {
			return b, err
		}
	}
	return pawl.Budget{}, errBudgetBusy
}

// budgetTries is how often a change of a budget runs at most, if other calls change the budget,
// or items begin to ask for it, between its locks.
const budgetTries = 30

var errBudgetBusy = &pawl.Error{Code: pawl.CodeUnavailable, Op: "budget", Message: "another call is changing the budget; try again"}

// ReserveBudget reserves an amount; see pawl.BudgetSpender.
func (e *Engine) ReserveBudget(ctx context.Context, budget string, call pawl.ReserveCall) (pawl.Reserved, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "reserve"); err != nil {
		return pawl.Reserved{}, err
	}
	if err := rules.CheckReserve(budget, &call); err != nil {
		return pawl.Reserved{}, err
	}
	if err := e.ours(ctx, call.Fence()); err != nil {
		return pawl.Reserved{}, err
	}
	id := e.k.IDs.Next("rsv")
	out, done, err := quickly(ctx, e, func(ctx context.Context, tx store.Tx, hot store.Hot) (pawl.Reserved, bool, error) {
		return hot.Reserve(ctx, tx, fenceRow(pawl.CallerOf(ctx), call.Fence()), id, budget, &call)
	})
	if done || err != nil {
		return out, err
	}
	exhausted := store.ErrMoreLost
	var asks effects
	for err == nil && errors.Is(exhausted, store.ErrMoreLost) {
		err = e.withLockedItem(ctx, call.Fence(), "reserve", func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
			out, exhausted, err = g.Reserve(ctx, tx, id, budget, &call)
			if asks = (effects{}); err == nil {
				asks, err = e.asks(ctx, tx, g, "reserve", &call, exhausted)
			}
			return err
		})
	}
	if err == nil {
		e.follow(ctx, asks)
		err = exhausted // a value: what the refusal found out about lost reservations is committed
	}
	if err != nil {
		return pawl.Reserved{}, err
	}
	return out, nil
}

// SettleBudget records what was spent; see pawl.BudgetSpender.
func (e *Engine) SettleBudget(ctx context.Context, budget string, call pawl.SettleCall) (pawl.Settled, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "settle"); err != nil {
		return pawl.Settled{}, err
	}
	if err := rules.CheckSettle(budget, &call); err != nil {
		return pawl.Settled{}, err
	}
	if err := e.ours(ctx, call.Fence()); err != nil {
		return pawl.Settled{}, err
	}
	out, done, err := quickly(ctx, e, func(ctx context.Context, tx store.Tx, hot store.Hot) (pawl.Settled, bool, error) {
		return hot.Settle(ctx, tx, fenceRow(pawl.CallerOf(ctx), call.Fence()), budget, &call)
	})
	if done || err != nil {
		return out, err
	}
	err = e.withLockedItem(ctx, call.Fence(), "settle", func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
		out, err = g.Settle(ctx, tx, budget, &call)
		return err
	})
	return out, err
}

// quickly runs a hot verb of a budget, which commits by itself. done is false when the call is
// to be carried out in a transaction: in a caller's transaction, or when the verb has not done
// it, or waited too long for a lock.
func quickly[R any](ctx context.Context, e *Engine,
	fn func(ctx context.Context, tx store.Tx, hot store.Hot) (R, bool, error)) (out R, done bool, err error) {
	if e.scope != nil {
		return out, false, nil
	}
	err = e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, done, err = fn(ctx, tx, e.db.Dialect().Hot)
		return err
	})
	if errors.Is(err, store.ErrLocked) {
		return out, false, nil
	}
	return out, done, err
}
