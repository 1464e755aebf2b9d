package budgets

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// GetBudget reads a budget; see pawl.BudgetReader.
func (r *Budgets) GetBudget(ctx context.Context, name string) (pawl.Budget, error) {
	if err := checkName("budget", name); err != nil {
		return pawl.Budget{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.Budget, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Budget{}, err
		}
		b, err := Get(ctx, tx, ns, name, now)
		if err != nil {
			return pawl.Budget{}, err
		}
		return b.Budget(), nil
	})
}

// ListBudgets lists budgets; see pawl.BudgetReader.
func (r *Budgets) ListBudgets(ctx context.Context, page pawl.Page) (pawl.List[pawl.Budget], error) {
	if err := rules.CheckPage(&page); err != nil {
		return pawl.List[pawl.Budget]{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Budget], error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.List[pawl.Budget]{}, err
		}
		return list(ctx, tx, ns, page, now)
	})
}

// BudgetSpending groups what was spent; see pawl.BudgetReader.
func (r *Budgets) BudgetSpending(ctx context.Context, name string, q pawl.BudgetSpendingFilter) (pawl.BudgetSpending, error) {
	if err := checkSpending(name, &q); err != nil {
		return pawl.BudgetSpending{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.BudgetSpending, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.BudgetSpending{}, err
		}
		return spendingOf(ctx, tx, ns, name, q, now)
	})
}

// TaskSpending lists what a task spent of each budget, by name; of DefaultPage budgets at
// most. A task that the namespace does not have is not_found.
func (r *Budgets) TaskSpending(ctx context.Context, taskID string) ([]pawl.TaskSpending, error) {
	taskID = idform.Task(taskID)
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.TaskSpending, error) {
		if err := store.TaskExists(ctx, tx, ns, taskID); err != nil {
			return nil, err
		}
		return spendingOfTask(ctx, tx, ns, taskID, pawl.DefaultPage)
	})
}

// PutBudget makes or changes a budget; see pawl.BudgetKeeper.
func (r *Budgets) PutBudget(ctx context.Context, name string, n pawl.NewBudget) (out pawl.Budget, err error) {
	if n.AppliesTo != nil {
		scope := idform.Call(*n.AppliesTo)
		n.AppliesTo = &scope
	}
	if err := check(name, &n); err != nil {
		return pawl.Budget{}, err
	}
	err = r.change(ctx, func(ctx context.Context, w *kernel.Write) ([]store.DueItem, error) {
		b, woken, created, err := r.put(ctx, w.Tx, r.k.IDs.Next("bgt"), w.Caller.Namespace, name, n, w.Actor(pawl.ActorUser, ""))
		out = b.Budget()
		out.Created = created
		return woken, err
	})
	if err != nil {
		return pawl.Budget{}, err
	}
	return out, nil
}

// DeleteBudget removes a budget; see pawl.BudgetKeeper.
func (r *Budgets) DeleteBudget(ctx context.Context, name string) error {
	if err := checkName("delete", name); err != nil {
		return err
	}
	return r.change(ctx, func(ctx context.Context, w *kernel.Write) ([]store.DueItem, error) {
		return r.remove(ctx, w.Tx, w.Caller.Namespace, name, w.Actor(pawl.ActorUser, ""))
	})
}

// change changes a budget. fn returns the items that it has queued.
func (r *Budgets) change(ctx context.Context, fn func(ctx context.Context, w *kernel.Write) ([]store.DueItem, error)) error {
	return Try(func() error {
		var woken []store.DueItem
		err := r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
			woken, err = fn(ctx, w)
			return err
		})
		if err == nil {
			r.follow(ctx, woken, "")
		}
		return err
	})
}

// follow does what follows from a change that has committed: items became claimable, a question was opened.
func (r *Budgets) follow(ctx context.Context, queued []store.DueItem, opened string) {
	f := kernel.After{Queued: queued, Waking: len(queued) > 0}
	if opened != "" {
		f.Advance = []string{opened}
	}
	r.k.Tasks(kernel.Origin{}).Follow(ctx, f)
}

// Try runs fn again if another call has changed the budget first.
func Try(fn func() error) error {
	for range tries {
		if err := fn(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return errBusy
}

// tries is how often a change of a budget runs at most, if other calls change the budget,
// or items begin to ask for it, between its locks.
const tries = 30

var errBusy = &pawl.Error{Code: pawl.CodeUnavailable, Op: "budget", Message: "another call is changing the budget; try again"}

// ReserveBudget reserves an amount; see pawl.BudgetSpender.
func (r *Budgets) ReserveBudget(ctx context.Context, budget string, call pawl.ReserveCall) (pawl.Reserved, error) {
	call = idform.Call(call)
	if err := r.mayAct(ctx, "reserve", call.Fence(), func() error { return checkReserve(budget, &call) }); err != nil {
		return pawl.Reserved{}, err
	}
	id := r.k.IDs.Next("rsv")
	out, done, err := quickly(ctx, r.k, func(ctx context.Context, tx store.Tx, hot store.Hot) (pawl.Reserved, bool, error) {
		return hot.Reserve(ctx, tx, kernel.Fence(pawl.CallerOf(ctx), call.Fence()), id, budget, &call)
	})
	if done || err != nil {
		return out, err
	}
	err = Reserving(ctx, r, "reserve", &call, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (exhausted, err error) {
		out, exhausted, err = Reserve(ctx, tx, g, id, budget, &call)
		return exhausted, err
	})
	if err != nil {
		return pawl.Reserved{}, err
	}
	return out, nil
}

// Reserving runs a call that reserves for a leased item, which is locked. reserve says why nothing was reserved. Then a person
// may be asked for more, and what the refusal found out about lost reservations is committed.
func Reserving(ctx context.Context, r *Budgets, op string, call *pawl.ReserveCall,
	reserve func(ctx context.Context, tx store.Tx, g *store.LockedItem) (refused, err error)) error {
	refused, opened := errMoreLost, ""
	for errors.Is(refused, errMoreLost) {
		err := r.k.Held(ctx, call.Fence(), op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
			refused, err = reserve(ctx, tx, g)
			if opened = ""; err == nil {
				opened, err = r.asks(ctx, tx, g, op, call, refused)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	r.follow(ctx, nil, opened)
	return refused
}

// SettleBudget records what was spent; see pawl.BudgetSpender.
func (r *Budgets) SettleBudget(ctx context.Context, budget string, call pawl.SettleCall) (pawl.Settled, error) {
	call = idform.Call(call)
	if err := r.mayAct(ctx, "settle", call.Fence(), func() error { return checkSettle(budget, &call) }); err != nil {
		return pawl.Settled{}, err
	}
	out, done, err := quickly(ctx, r.k, func(ctx context.Context, tx store.Tx, hot store.Hot) (pawl.Settled, bool, error) {
		return hot.Settle(ctx, tx, kernel.Fence(pawl.CallerOf(ctx), call.Fence()), budget, &call)
	})
	if done || err != nil {
		return out, err
	}
	err = r.k.Held(ctx, call.Fence(), "settle", func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
		out, err = settle(ctx, tx, g, budget, &call)
		return err
	})
	return out, err
}

// mayAct refuses a call while nothing acts, one that check refuses, and one about a lease of another API key.
func (r *Budgets) mayAct(ctx context.Context, op string, f pawl.Fence, check func() error) error {
	if err := r.k.Acts(ctx, op); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	return r.k.Tasks(kernel.Origin{}).Ours(ctx, f)
}

// quickly runs a hot verb, which commits by itself. done is false when the call is
// to be carried out in a transaction: in a caller's transaction, or when the verb has not done
// it, or waited too long for a lock.
func quickly[R any](ctx context.Context, k *kernel.Kernel,
	fn func(ctx context.Context, tx store.Tx, hot store.Hot) (R, bool, error)) (out R, done bool, err error) {
	if k.Scope != nil {
		return out, false, nil
	}
	err = k.DB.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, done, err = fn(ctx, tx, k.DB.Dialect().Hot)
		return err
	})
	if errors.Is(err, store.ErrLocked) {
		return out, false, nil
	}
	return out, done, err
}
