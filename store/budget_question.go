package store

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

// Question is how the item of a refused reservation asks a person.
type Question struct {
	TaskID   string // the open task; "" = there is none
	Rejected bool   // a person has rejected it, and the budget has not changed since
	Full     bool   // others ask already, and no more may
}

// Question returns how the locked item asks for more of the locked budget.
func (g *LockedItem) Question(ctx context.Context, tx Tx, b *BudgetRow) (q Question, err error) {
	var period, rejected int64
	var state string
	found, err := Row(ctx, tx, []any{(*TaskID)(&q.TaskID), &period, &rejected, &state}, budgetSQL["question of item"], b.ID, ItemID(g.ItemID))
	if err != nil || found && state == string(pawl.TaskSubmitted) {
		return q, err
	}
	if found && state == string(pawl.TaskRejected) && rejected == b.ChangedAt && period == b.PeriodNumber {
		return Question{Rejected: true}, nil
	}
	asking, err := TaskIDs(ctx, tx, budgetSQL["questions of budget"], b.ID)
	return Question{Full: len(asking) >= pawl.MaxBudgetQuestions}, err
}

// Ask makes the only item of a new task, which no other transaction sees yet, a submitted
// result: the question of the locked item. The worker that asks counts as the one that worked
// on it.
func (g *LockedItem) Ask(ctx context.Context, tx Tx, b *BudgetRow, taskID, itemID, question string, c *pawl.ReserveCall) error {
	attempt, err := ClaimOwn(ctx, tx, itemID, g.WorkerID, 60)
	if err != nil {
		return err
	}
	item, found, err := LockFenced(ctx, tx, Fence{Namespace: g.Namespace, ItemID: itemID, WorkerID: g.WorkerID, Attempt: attempt})
	if err == nil && !found {
		err = fmt.Errorf("the item %s of a question is not leased", itemID)
	}
	if err != nil {
		return err
	}
	item.By = g.By
	if _, err = item.Submit(ctx, tx, Submission{Result: question}); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, budgetSQL["put question"], b.ID, g.Namespace, ItemID(g.ItemID), TaskID(taskID), b.PeriodNumber, c.Amount, c.Key)
	return err
}

// lockQuestion locks the budget that the locked task asks for, and queues who waits for the
// answer: all items that wait for the budget, or the one that asks.
func (c *TaskDecision) lockQuestion(ctx context.Context, tx Tx, all bool, by Actor) (b BudgetRow, now, amount int64, woken []DueItem,
	err error) {
	var name string
	found, err := Row(ctx, tx, []any{&name, &amount}, budgetSQL["question of task"], TaskID(c.TaskID), c.Namespace)
	var old BudgetRow
	if err == nil && found {
		old, err = GetBudget(ctx, tx, c.Namespace, name, c.Now)
	}
	if err == nil && found {
		asks := c.TaskID
		if all {
			asks = ""
		}
		b, now, woken, err = lockAndWake(ctx, tx, &old, asks, by)
	}
	if err == nil && found {
		var one int
		found, err = Row(ctx, tx, []any{&one}, budgetSQL["question is open"], TaskID(c.TaskID), List(openStates))
	}
	if err == nil && !found {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "decide", Message: "the item does not ask for the budget any more"}
	}
	return b, now, amount, woken, err
}

// RaiseBudget gives the budget that the task asks for another limit: so high that the amount
// fits if limit is nil. It returns the items that it queues. The error may be
// ErrBudgetChanged, as of PutBudget.
func (c *TaskDecision) RaiseBudget(ctx context.Context, tx Tx, limit *int64, by Actor) ([]DueItem, error) {
	b, now, amount, woken, err := c.lockQuestion(ctx, tx, true, by)
	if err != nil {
		return nil, err
	}
	for more := amount > b.Remaining(); more && err == nil; {
		more, err = b.reclaim(ctx, tx, now)
	}
	if err != nil {
		return nil, err
	}
	if limit != nil {
		b.Limit = *limit
	} else {
		b.Limit += max(0, amount-b.Remaining())
	}
	switch {
	case amount > b.Remaining():
		return nil, pawl.Invalid("/limit", "leaves %d; %d are asked for", b.Remaining(), amount)
	case b.Limit > pawl.MaxBudgetAmount:
		return nil, pawl.Invalid("/limit", "would be more than %d", pawl.MaxBudgetAmount)
	}
	return woken, b.change(ctx, tx, now)
}

// RejectBudget notes that the task is rejected, and queues its item. The error may be
// ErrBudgetChanged, as of PutBudget.
func (c *TaskDecision) RejectBudget(ctx context.Context, tx Tx, by Actor) ([]DueItem, error) {
	b, _, _, woken, err := c.lockQuestion(ctx, tx, false, by)
	if err == nil {
		_, err = tx.Exec(ctx, budgetSQL["reject question"], TaskID(c.TaskID), b.ChangedAt)
	}
	return woken, err
}

// OldQuestions lists up to limit questions that need no answer any more, with ids above after.
func OldQuestions(ctx context.Context, tx Tx, after string, limit int) ([]TaskRef, error) {
	return taskRefs(ctx, tx, budgetSQL["old questions"], FromTask(after), List(openStates), limit)
}

// EndQuestion removes a question, and cancels its task if that is not decided.
func EndQuestion(ctx context.Context, tx Tx, now int64, q TaskRef) error {
	state, err := TaskState(ctx, tx, q.Namespace, q.ID)
	if err == nil && state == string(pawl.TaskSubmitted) {
		_, err = Apply(ctx, tx, now, Change{Namespace: q.Namespace, TaskID: q.ID, Verb: "cancel", Actor: Actor{Type: pawl.ActorSystem},
			Reason: "the item does not ask for the budget any more"})
	}
	if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
		return err
	}
	_, err = tx.Exec(ctx, budgetSQL["remove question"], TaskID(q.ID))
	return err
}
