package budgets

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// question is how the item of a refused reservation asks a person.
type question struct {
	TaskID   string // the open task of the budget; "" = there is none
	Asks     bool   // the item asks by it already
	Rejected bool   // a person has rejected what the item asked, and the budget has not changed since
	Full     bool   // too many questions have no answer yet
}

// questionOf returns how the locked item may ask for more of the locked budget, after the call was
// refused. What the item asked for first counts as long as it has not got it: calls with other
// keys change nothing.
func questionOf(ctx context.Context, tx store.Tx, g *store.LockedItem, b *Row, c *pawl.ReserveCall) (q question, err error) {
	var task, key, state string
	var amount, rejected, told int64
	var served int
	found, err := store.Row(ctx, tx, []any{(*store.TaskID)(&task), &key, &amount, &rejected, &told, &state, &served},
		texts["question of item"], b.ID, store.ItemID(g.ItemID))
	switch {
	case err != nil:
		return q, err
	case found && state == string(pawl.TaskSubmitted):
		same := key == c.Key && amount == c.Amount || key != c.Key && served == 0
		return question{TaskID: task, Asks: same}, nil
	case found && rejected == b.ChangedAt && served == 0 && (told == 0 || told == b.PeriodNumber):
		_, err = tx.Exec(ctx, texts["tell of rejection"], b.ID, store.ItemID(g.ItemID), b.PeriodNumber)
		return question{Rejected: true}, err
	}
	if found, err = store.Row(ctx, tx, []any{(*store.TaskID)(&q.TaskID)}, texts["open question"], b.ID); err != nil || found {
		return q, err
	}
	asking, err := store.TaskIDs(ctx, tx, texts["questions of budget"], b.ID)
	return question{Full: len(asking) >= pawl.MaxBudgetQuestions}, err
}

// submit makes the only item of a new task, which no other transaction sees yet, a submitted
// result: the question. The worker that asks first counts as the one that worked on it.
func submit(ctx context.Context, tx store.Tx, g *store.LockedItem, itemID, question string) error {
	attempt, err := store.ClaimOwn(ctx, tx, itemID, g.WorkerID, 60)
	if err != nil {
		return err
	}
	item, found, err := store.LockFenced(ctx, tx, store.Fence{Namespace: g.Namespace, ItemID: itemID, WorkerID: g.WorkerID, Attempt: attempt})
	if err == nil && !found {
		err = fmt.Errorf("the item %s of a question is not leased", itemID)
	}
	if err != nil {
		return err
	}
	item.By = g.By
	_, err = item.Submit(ctx, tx, store.Submission{Result: question})
	return err
}

// ask adds the locked item to those that ask for more of the locked budget by a task.
func ask(ctx context.Context, tx store.Tx, g *store.LockedItem, b *Row, taskID string, c *pawl.ReserveCall) error {
	_, err := tx.Exec(ctx, texts["put question"], b.ID, g.Namespace, store.ItemID(g.ItemID), store.TaskID(taskID),
		b.PeriodNumber, c.Amount, c.Key)
	return err
}

// lockQuestion locks the budget that is asked for by the locked task, and queues who waits for the
// answer: all items that wait for the budget, or those that ask by the task.
func (r *Budgets) lockQuestion(ctx context.Context, tx store.Tx, c *store.TaskDecision, all bool, by store.Actor) (b Row, now int64,
	a store.Asked, woken []store.DueItem, err error) {
	var name string
	found, err := store.Row(ctx, tx, []any{&name}, texts["budget of question"], store.TaskID(c.TaskID), c.Namespace)
	var old Row
	if err == nil && found {
		old, err = Get(ctx, tx, c.Namespace, name, c.Now)
	}
	if err == nil && found {
		asks := c.TaskID
		if all {
			asks = ""
		}
		b, now, woken, err = r.lockAndWake(ctx, tx, &old, asks, by)
	}
	if err == nil && found {
		var asked map[string]store.Asked
		asked, err = store.AskedOf(ctx, tx, []string{c.TaskID})
		a = asked[c.TaskID]
	}
	if err == nil && a.Waiting == 0 {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "decide", Message: "no item asks for the budget any more"}
	}
	return b, now, a, woken, err
}

// keep adds what was asked for when the task was decided to its metadata.
func keep(ctx context.Context, tx store.Tx, c *store.TaskDecision, a store.Asked) error {
	all := map[string]any{}
	if err := json.Unmarshal([]byte(a.Metadata), &all); err != nil || all == nil {
		all = map[string]any{}
	}
	all["waiting"], all["needed"] = a.Waiting, a.Needed
	if a.Limit > 0 {
		all["limit"] = a.Limit
	}
	text, err := json.Marshal(all)
	if err == nil {
		_, err = tx.Exec(ctx, texts["keep what was asked"], store.TaskID(c.TaskID), string(text))
	}
	return err
}

// Raise gives the budget that is asked for by the task another limit: so high that the
// amounts of all items that ask fit, or to limit, which must leave the least of them. It returns
// the items that it queues. The error may be errChanged, as of put.
func Raise(ctx context.Context, r *Budgets, tx store.Tx, c *store.TaskDecision, limit *int64,
	by store.Actor) ([]store.DueItem, store.Asked, error) {
	b, now, a, woken, err := r.lockQuestion(ctx, tx, c, true, by)
	if err != nil {
		return nil, a, err
	}
	for more := a.Needed > b.Remaining(); more && err == nil; {
		more, err = b.reclaim(ctx, tx, now)
	}
	if err != nil {
		return nil, a, err
	}
	if limit != nil {
		b.Limit = *limit
	} else {
		b.Limit += max(0, a.Needed-b.Remaining())
	}
	switch a.Limit = b.Limit; {
	case a.Least > b.Remaining():
		return nil, a, pawl.Invalid("/limit", "leaves %d; %d are asked for", b.Remaining(), a.Least)
	case b.Limit > pawl.MaxBudgetAmount:
		return nil, a, pawl.Invalid("/limit", "would be more than %d", pawl.MaxBudgetAmount)
	}
	if err = b.change(ctx, tx, now); err == nil {
		err = keep(ctx, tx, c, a)
	}
	return woken, a, err
}

// Reject notes that the task is rejected, and queues the items that ask by it. The error may
// be errChanged, as of put.
func Reject(ctx context.Context, r *Budgets, tx store.Tx, c *store.TaskDecision, by store.Actor) ([]store.DueItem, error) {
	b, _, a, woken, err := r.lockQuestion(ctx, tx, c, false, by)
	if err == nil {
		_, err = tx.Exec(ctx, texts["reject question"], store.TaskID(c.TaskID), b.ChangedAt)
	}
	if err == nil {
		err = keep(ctx, tx, c, a)
	}
	return woken, err
}

// oldQuestions lists up to limit questions with items that ask no more, or with an answer, with
// ids above after.
func oldQuestions(ctx context.Context, tx store.Tx, after string, limit int) ([]store.TaskRef, error) {
	args := []any{store.FromTask(after), store.List(store.OpenStates), limit}
	return store.All(ctx, tx, texts["old questions"], args, func(rows store.Rows, t *store.TaskRef) error {
		return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace)
	})
}

// endQuestion removes the items of a question that ask no more. If none is left, it cancels the
// task, unless that is decided. As in a decision, the task is locked before the budget.
func endQuestion(ctx context.Context, tx store.Tx, now int64, q store.TaskRef) error {
	t, open, err := store.OpenDecision(ctx, tx, q.Namespace, q.ID)
	if err != nil {
		return err
	}
	over := 0
	var name string
	found, err := store.Row(ctx, tx, []any{&name}, texts["budget of question"], store.TaskID(q.ID), q.Namespace)
	if err == nil && found {
		_, _, err = lock(ctx, tx, q.Namespace, name)
	}
	if pawl.CodeOf(err) == pawl.CodeNotFound { // deleted meanwhile
		found, err = false, nil
	}
	undecided := []string{string(pawl.TaskSubmitted), string(pawl.TaskCancelled), string(pawl.TaskRejected)}
	if !found || open && !slices.Contains(undecided, t.State) {
		over = 1
	}
	if err == nil {
		_, err = tx.Exec(ctx, texts["remove old askers"], store.TaskID(q.ID), store.List(store.OpenStates), over)
	}
	if err != nil || !open || t.State != string(pawl.TaskSubmitted) {
		return err
	}
	var one int
	if found, err = store.Row(ctx, tx, []any{&one}, texts["question has askers"], store.TaskID(q.ID)); err != nil || found {
		return err
	}
	_, err = store.Apply(ctx, tx, now, store.Change{Namespace: q.Namespace, TaskID: q.ID, Verb: "cancel",
		Actor:  store.Actor{Type: pawl.ActorSystem},
		Reason: "no item asks for the budget any more"})
	return err
}
