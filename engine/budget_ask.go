package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// budgetType has the rules of the tasks by which items ask for more of a budget.
var budgetType = pawl.Type{Name: pawl.TypeBudget, Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}}

// askForBudget opens an approval for a locked item whose reservation was refused, if the budget
// says so, and adds it to the refusal. It asks once for each budget and item, and not while the
// amount fits as soon as others settle.
func (e *Engine) askForBudget(ctx context.Context, tx store.Tx, g *store.LockedItem, call *pawl.ReserveCall,
	refusal error) (effects, error) {
	var r *pawl.Error
	if !errors.As(refusal, &r) || r.Exhausted == nil || r.Exhausted.OnExhausted != pawl.ExhaustedAsk {
		return effects{}, nil
	}
	x := r.Exhausted
	b, _, err := store.LockBudget(ctx, tx, g.Namespace, x.Budget) // again, for its row
	if err != nil || call.Amount <= b.Remaining()+b.Reserved {
		return effects{}, err
	}
	q, err := g.Question(ctx, tx, &b)
	switch {
	case err != nil, q.Full:
		return effects{}, err
	case q.Rejected:
		x.OnExhausted = pawl.ExhaustedFail
		r.Message += "; to raise it was rejected"
		return effects{}, nil
	}
	var out effects
	if q.TaskID == "" {
		d, question, err := e.budgetTask(ctx, g, call, x, b.Unit)
		if err == nil {
			_, err = e.insertInTx(ctx, tx, []draft{d})
		}
		if err == nil {
			err = g.Ask(ctx, tx, &b, d.task.ID, d.items[0].ID, question, call)
		}
		if err != nil {
			return effects{}, err
		}
		q.TaskID, out.advance = d.task.ID, []string{d.task.ID}
	}
	x.TaskID, x.SignalKey = q.TaskID, pawl.BudgetSignalKey(b.Name, store.Stamp(b.ChangedAt), q.TaskID)
	r.Message += "; task " + q.TaskID + " asks for it"
	return out, nil
}

// budgetTask returns the task by which a locked item asks.
func (e *Engine) budgetTask(ctx context.Context, g *store.LockedItem, call *pawl.ReserveCall, x *pawl.Exhausted,
	unit string) (draft, string, error) {
	question := rules.Encode(pawl.BudgetQuestion{Budget: x.Budget, Unit: unit, ItemID: g.ItemID, TaskID: g.TaskID, WorkerID: g.WorkerID,
		Amount: call.Amount, Limit: x.Limit, Remaining: x.Remaining})
	title := fmt.Sprintf("Budget %s: %d %s for item %s", x.Budget, call.Amount, unit, g.ItemID)
	d, err := e.draft(ctx, &pawl.NewTask{Type: pawl.TypeBudget, Title: title, Payload: question}, "", &drafting{reserved: true})
	return d, string(question), err
}

// raiseBudget carries out what the approval of a question means.
func (d *taskDecision) raiseBudget(ctx context.Context, tx store.Tx, v verdictBy) (effects, error) {
	if d.Type != pawl.TypeBudget {
		if v.limit != nil {
			return effects{}, pawl.Invalid("/limit", "is for tasks of type %s", pawl.TypeBudget)
		}
		return effects{}, nil
	}
	woken, err := d.RaiseBudget(ctx, tx, v.limit, v.by)
	return effects{queued: woken}, err
}

// rejectBudget rejects a question. Its item is queued, and the next refusal tells its worker to
// fail it.
func (d *taskDecision) rejectBudget(ctx context.Context, tx store.Tx, v verdictBy, c *pawl.RejectCall) (effects, error) {
	if c.AllowRework {
		return effects{}, pawl.Invalid("/allow_rework", "is not for tasks of type %s", pawl.TypeBudget)
	}
	woken, err := d.RejectBudget(ctx, tx, v.by)
	if err != nil {
		return effects{}, err
	}
	rejected, err := d.reject(ctx, tx, v, c.Errors)
	return effects{queued: woken}.and(rejected), err
}
