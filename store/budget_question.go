package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-work/pawl"
)

// Question is how the item of a refused reservation asks a person.
type Question struct {
	TaskID   string // the open task of the budget; "" = there is none
	Asks     bool   // the item asks by it already
	Rejected bool   // a person has rejected what the item asked, and the budget has not changed since
	Full     bool   // too many questions have no answer yet
}

// Question returns how the locked item may ask for more of the locked budget, after the call was
// refused. What the item asked for first counts as long as it has not got it: calls with other
// keys change nothing.
func (g *LockedItem) Question(ctx context.Context, tx Tx, b *BudgetRow, c *pawl.ReserveCall) (q Question, err error) {
	var task, key, state string
	var amount, rejected, told int64
	var served int
	found, err := Row(ctx, tx, []any{(*TaskID)(&task), &key, &amount, &rejected, &told, &state, &served}, budgetSQL["question of item"],
		b.ID, ItemID(g.ItemID))
	switch {
	case err != nil:
		return q, err
	case found && state == string(pawl.TaskSubmitted):
		same := key == c.Key && amount == c.Amount || key != c.Key && served == 0
		return Question{TaskID: task, Asks: same}, nil
	case found && rejected == b.ChangedAt && served == 0 && (told == 0 || told == b.PeriodNumber):
		_, err = tx.Exec(ctx, budgetSQL["tell of rejection"], b.ID, ItemID(g.ItemID), b.PeriodNumber)
		return Question{Rejected: true}, err
	}
	if found, err = Row(ctx, tx, []any{(*TaskID)(&q.TaskID)}, budgetSQL["open question"], b.ID); err != nil || found {
		return q, err
	}
	asking, err := TaskIDs(ctx, tx, budgetSQL["questions of budget"], b.ID)
	return Question{Full: len(asking) >= pawl.MaxBudgetQuestions}, err
}

// Open makes the only item of a new task, which no other transaction sees yet, a submitted
// result: the question. The worker that asks first counts as the one that worked on it.
func (g *LockedItem) Open(ctx context.Context, tx Tx, itemID, question string) error {
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
	_, err = item.Submit(ctx, tx, Submission{Result: question})
	return err
}

// Ask adds the locked item to those that ask for more of the locked budget by a task.
func (g *LockedItem) Ask(ctx context.Context, tx Tx, b *BudgetRow, taskID string, c *pawl.ReserveCall) error {
	_, err := tx.Exec(ctx, budgetSQL["put question"], b.ID, g.Namespace, ItemID(g.ItemID), TaskID(taskID), b.PeriodNumber, c.Amount, c.Key)
	return err
}

// Asked is what the items that ask by a task need.
type Asked struct {
	Waiting int   `json:"waiting"`         // items
	Needed  int64 `json:"needed"`          // the sum of their amounts
	Limit   int64 `json:"limit,omitempty"` // that an approval set

	least    int64 // of their amounts
	metadata Text  // of the task
}

// million is what amounts are divided by, so that their sum does not overflow.
const million = 1_000_000

// decided reports whether a question has an answer: its metadata then has what was asked.
func decided(state Text) bool {
	return state != "" && state != Text(pawl.TaskSubmitted) && state != Text(pawl.TaskCancelled)
}

// askedOf returns what is asked by tasks. Once one is decided, its metadata has what counted then.
func askedOf(ctx context.Context, tx Tx, taskIDs []string) (map[string]Asked, error) {
	rows, err := tx.Query(ctx, budgetSQL["asked"], TaskList(taskIDs), List(openStates), million)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]Asked{}
	for rows.Next() {
		var id string
		var state Text
		var quotient, rest int64
		var a Asked
		if err := rows.Scan((*TaskID)(&id), &state, &a.metadata, &a.Waiting, &quotient, &rest, &a.least); err != nil {
			return nil, err
		}
		a.Needed = min(quotient, 1<<40)*million + rest
		if kept := (Asked{}); decided(state) && json.Unmarshal([]byte(a.metadata), &kept) == nil && kept.Waiting > 0 {
			a = kept
		}
		out[id] = a
	}
	return out, rows.Err()
}

// withAsked sets what is asked by tasks in the questions, which are values of these tasks. What is
// stored has what was asked first.
func withAsked(ctx context.Context, tx Tx, questions map[string][]*json.RawMessage) error {
	if len(questions) == 0 {
		return nil
	}
	ids := make([]string, 0, len(questions))
	for id := range questions {
		ids = append(ids, id)
	}
	asked, err := askedOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	for id, values := range questions {
		a, found := asked[id]
		for _, v := range values {
			var q pawl.BudgetQuestion
			if !found || len(*v) == 0 || json.Unmarshal(*v, &q) != nil || q.Budget == "" {
				continue
			}
			q.Waiting, q.Needed = a.Waiting, a.Needed
			if *v, err = json.Marshal(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// lockQuestion locks the budget that is asked for by the locked task, and queues who waits for the
// answer: all items that wait for the budget, or those that ask by the task.
func (c *TaskDecision) lockQuestion(ctx context.Context, tx Tx, all bool, by Actor) (b BudgetRow, now int64, a Asked, woken []DueItem,
	err error) {
	var name string
	found, err := Row(ctx, tx, []any{&name}, budgetSQL["budget of question"], TaskID(c.TaskID), c.Namespace)
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
		var asked map[string]Asked
		asked, err = askedOf(ctx, tx, []string{c.TaskID})
		a = asked[c.TaskID]
	}
	if err == nil && a.Waiting == 0 {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "decide", Message: "no item asks for the budget any more"}
	}
	return b, now, a, woken, err
}

// keep adds what was asked for when the task was decided to its metadata.
func (c *TaskDecision) keep(ctx context.Context, tx Tx, a Asked) error {
	all := map[string]any{}
	if err := json.Unmarshal([]byte(a.metadata), &all); err != nil || all == nil {
		all = map[string]any{}
	}
	all["waiting"], all["needed"] = a.Waiting, a.Needed
	if a.Limit > 0 {
		all["limit"] = a.Limit
	}
	text, err := json.Marshal(all)
	if err == nil {
		_, err = tx.Exec(ctx, budgetSQL["keep what was asked"], TaskID(c.TaskID), string(text))
	}
	return err
}

// RaiseBudget gives the budget that is asked for by the task another limit: so high that the
// amounts of all items that ask fit, or to limit, which must leave the least of them. It returns
// the items that it queues. The error may be ErrBudgetChanged, as of PutBudget.
func (c *TaskDecision) RaiseBudget(ctx context.Context, tx Tx, limit *int64, by Actor) ([]DueItem, Asked, error) {
	b, now, a, woken, err := c.lockQuestion(ctx, tx, true, by)
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
	case a.least > b.Remaining():
		return nil, a, pawl.Invalid("/limit", "leaves %d; %d are asked for", b.Remaining(), a.least)
	case b.Limit > pawl.MaxBudgetAmount:
		return nil, a, pawl.Invalid("/limit", "would be more than %d", pawl.MaxBudgetAmount)
	}
	if err = b.change(ctx, tx, now); err == nil {
		err = c.keep(ctx, tx, a)
	}
	return woken, a, err
}

// RejectBudget notes that the task is rejected, and queues the items that ask by it. The error may
// be ErrBudgetChanged, as of PutBudget.
func (c *TaskDecision) RejectBudget(ctx context.Context, tx Tx, by Actor) ([]DueItem, error) {
	b, _, a, woken, err := c.lockQuestion(ctx, tx, false, by)
	if err == nil {
		_, err = tx.Exec(ctx, budgetSQL["reject question"], TaskID(c.TaskID), b.ChangedAt)
	}
	if err == nil {
		err = c.keep(ctx, tx, a)
	}
	return woken, err
}

// OldQuestions lists up to limit questions with items that ask no more, or with an answer, with
// ids above after.
func OldQuestions(ctx context.Context, tx Tx, after string, limit int) ([]TaskRef, error) {
	return taskRefs(ctx, tx, budgetSQL["old questions"], FromTask(after), List(openStates), limit)
}

// EndQuestion removes the items of a question that ask no more. If none is left, it cancels the
// task, unless that is decided. As in a decision, the task is locked before the budget.
func EndQuestion(ctx context.Context, tx Tx, now int64, q TaskRef) error {
	t, open, err := OpenDecision(ctx, tx, q.Namespace, q.ID)
	if err != nil {
		return err
	}
	over := 0
	var name string
	found, err := Row(ctx, tx, []any{&name}, budgetSQL["budget of question"], TaskID(q.ID), q.Namespace)
	if err == nil && found {
		_, _, err = LockBudget(ctx, tx, q.Namespace, name)
	}
	if pawl.CodeOf(err) == pawl.CodeNotFound { // deleted meanwhile
		found, err = false, nil
	}
	if !found || open && t.State != string(pawl.TaskRejected) && decided(Text(t.State)) {
		over = 1
	}
	if err == nil {
		_, err = tx.Exec(ctx, budgetSQL["remove old askers"], TaskID(q.ID), List(openStates), over)
	}
	if err != nil || !open || t.State != string(pawl.TaskSubmitted) {
		return err
	}
	var one int
	if found, err = Row(ctx, tx, []any{&one}, budgetSQL["question has askers"], TaskID(q.ID)); err != nil || found {
		return err
	}
	_, err = Apply(ctx, tx, now, Change{Namespace: q.Namespace, TaskID: q.ID, Verb: "cancel", Actor: Actor{Type: pawl.ActorSystem},
		Reason: "no item asks for the budget any more"})
	return err
}
