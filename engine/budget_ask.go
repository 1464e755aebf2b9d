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

// askForBudget asks a person for a locked item whose reservation was refused, if the budget says
// so, and adds that to the refusal. All items that wait for a budget ask by one task. No person
// is asked while the amount fits as soon as others settle.
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
	q, err := g.Question(ctx, tx, &b, call)
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
		if q.TaskID, err = e.openQuestion(ctx, tx, g, call, x, b.Unit); err != nil {
			return effects{}, err
		}
		out.advance = []string{q.TaskID}
	}
	if !q.Asks {
		if err := g.Ask(ctx, tx, &b, q.TaskID, call); err != nil {
			return effects{}, err
		}
	}
	x.TaskID, x.SignalKey = q.TaskID, pawl.BudgetSignalKey(b.Name, store.Stamp(b.ChangedAt), q.TaskID)
	r.Message += "; task " + q.TaskID + " asks for it"
	return out, nil
}

// asks is askForBudget for a refused call. If the call is rolled back, it asks again.
func (e *Engine) asks(ctx context.Context, tx store.Tx, g *store.LockedItem, op string, call *pawl.ReserveCall,
	refusal error) (effects, error) {
	var r *pawl.Error
	if e.scope == nil || !errors.As(refusal, &r) || r.Exhausted == nil {
		return e.askForBudget(ctx, tx, g, call, refusal)
	}
	plain, before := *r, *r.Exhausted
	out, err := e.askForBudget(ctx, tx, g, call, refusal)
	if err == nil && r.Exhausted.TaskID != "" {
		e.ifUndone(func(ctx context.Context, e *Engine) error {
			*r, *plain.Exhausted = plain, before
			var out effects
			err := e.withLockedItem(ctx, call.Fence(), op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
				out, err = e.askForBudget(ctx, tx, g, call, r)
				return err
			})
			if err == nil {
				e.follow(ctx, out)
			}
			return err
		})
	}
	return out, err
}

// openQuestion creates the task by which the items of a budget ask, the locked one first. It
// returns its id.
func (e *Engine) openQuestion(ctx context.Context, tx store.Tx, g *store.LockedItem, call *pawl.ReserveCall, x *pawl.Exhausted,
	unit string) (string, error) {
	question := rules.Encode(pawl.BudgetQuestion{Budget: x.Budget, Unit: unit, ItemID: g.ItemID, TaskID: g.TaskID, WorkerID: g.WorkerID,
		Amount: call.Amount, Limit: x.Limit, Remaining: x.Remaining, Waiting: 1, Needed: call.Amount})
	title := fmt.Sprintf("Budget %s: more %s", x.Budget, unit)
	d, err := e.draft(ctx, &pawl.NewTask{Type: pawl.TypeBudget, Title: title, Payload: question}, "", &drafting{reserved: true})
	if err == nil {
		_, err = e.insertInTx(ctx, tx, []draft{d})
	}
	if err != nil {
		return "", err
	}
	return d.task.ID, g.Open(ctx, tx, d.items[0].ID, string(question))
}

// raiseBudget carries out what the approval of a question means.
func (d *taskDecision) raiseBudget(ctx context.Context, tx store.Tx, v verdictBy) (effects, error) {
	if d.Type != pawl.TypeBudget {
		if v.limit != nil {
			return effects{}, pawl.Invalid("/limit", "is for tasks of type %s", pawl.TypeBudget)
		}
		return effects{}, nil
	}
	woken, asked, err := d.RaiseBudget(ctx, tx, v.limit, v.by)
	d.data = store.Text(rules.Encode(asked))
	return effects{queued: woken}, err
}

// rejectBudget rejects a question. The items that ask by it are queued, and their next refusal
// tells their workers to fail them.
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
