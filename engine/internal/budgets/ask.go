package budgets

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// askPerson asks a person for a locked item whose reservation was refused, if the budget says
// so, and adds that to the refusal. All items that wait for a budget ask by one task, whose id it returns if it
// is new. No person is asked while the amount fits as soon as others settle. From its second attempt on, an item
// does not wait for what it has reserved itself.
func (r *Budgets) askPerson(ctx context.Context, tx store.Tx, g *store.LockedItem, call *pawl.ReserveCall,
	refusal error) (opened string, err error) {
	var e *pawl.Error
	if !errors.As(refusal, &e) || e.Exhausted == nil || e.Exhausted.OnExhausted != pawl.ExhaustedAsk {
		return "", nil
	}
	x := e.Exhausted
	b, _, err := lock(ctx, tx, g.Namespace, x.Budget) // again, for its row
	if err != nil {
		return "", err
	}
	if own, err := b.own(ctx, tx, g, call.Key); err != nil || call.Amount <= b.Remaining()+b.Reserved-own {
		return "", err
	}
	q, err := questionOf(ctx, tx, g, &b, call)
	switch {
	case err != nil, q.Full:
		return "", err
	case q.Rejected:
		x.OnExhausted = pawl.ExhaustedFail
		e.Message += "; to raise it was rejected"
		return "", nil
	}
	if q.TaskID == "" {
		if q.TaskID, err = r.openQuestion(ctx, tx, g, call, x, b.Unit); err != nil {
			return "", err
		}
		opened = q.TaskID
	}
	if !q.Asks {
		if err := ask(ctx, tx, g, &b, q.TaskID, call); err != nil {
			return "", err
		}
	}
	x.TaskID, x.SignalKey = q.TaskID, pawl.BudgetSignalKey(b.Name, store.Stamp(b.ChangedAt), q.TaskID)
	e.Message += "; task " + q.TaskID + " asks for it"
	return opened, nil
}

// asks is askPerson for a refused call. If the call is rolled back, it asks again.
func (r *Budgets) asks(ctx context.Context, tx store.Tx, g *store.LockedItem, op string, call *pawl.ReserveCall,
	refusal error) (string, error) {
	var e *pawl.Error
	if r.k.Scope == nil || !errors.As(refusal, &e) || e.Exhausted == nil {
		return r.askPerson(ctx, tx, g, call, refusal)
	}
	plain, before := *e, *e.Exhausted
	opened, err := r.askPerson(ctx, tx, g, call, refusal)
	if err == nil && e.Exhausted.TaskID != "" {
		r.k.IfUndone(func(ctx context.Context, k *kernel.Kernel) error {
			*e, *plain.Exhausted = plain, before
			again, opened := New(k), ""
			err := k.Held(ctx, call.Fence(), op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
				opened, err = again.askPerson(ctx, tx, g, call, e)
				return err
			})
			if err == nil {
				again.follow(ctx, nil, opened)
			}
			return err
		})
	}
	return opened, err
}

// openQuestion creates the task by which the items of a budget ask, the locked one first. It
// returns its id.
func (r *Budgets) openQuestion(ctx context.Context, tx store.Tx, g *store.LockedItem, call *pawl.ReserveCall, x *pawl.Exhausted,
	unit string) (string, error) {
	question := rules.Encode(pawl.BudgetQuestion{Budget: x.Budget, Unit: unit, ItemID: g.ItemID, TaskID: g.TaskID, WorkerID: g.WorkerID,
		Amount: call.Amount, Limit: x.Limit, Remaining: x.Remaining, Waiting: 1, Needed: call.Amount})
	tasks, title := r.k.Tasks(kernel.Origin{}), fmt.Sprintf("Budget %s: more %s", x.Budget, unit)
	d, err := tasks.Draft(ctx, &pawl.NewTask{Type: pawl.TypeBudget, Title: title, Payload: question}, kernel.Allowed{Reserved: true})
	if err == nil { // what follows from a new task is not wanted: its item is leased at once
		_, err = tasks.Insert(ctx, &kernel.Write{Tx: tx}, []kernel.Draft{d})
	}
	if err != nil {
		return "", err
	}
	return d.TaskID(), submit(ctx, tx, g, d.OnlyItem(), string(question))
}
