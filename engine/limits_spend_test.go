package engine_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/pawl-work/pawl"
)

// spending is the model of what a task of the queue "spend" costs. Its id decides it, so that all
// processes and the test agree. A task is either settled and completed, or cancelled or deleted
// after it has reserved and never settled.
type spending struct {
	budget          string // named for its on_lost
	amount, settled int64
	doomed          bool
}

func spendingOf(task string) spending {
	h := fnv.New32a()
	_, _ = h.Write([]byte(task))
	n := int64(h.Sum32() >> 4)
	s := spending{budget: pawl.BudgetLosses[n%2], amount: 10 + n/2%20, doomed: n/64%4 == 0}
	s.settled = s.amount - n/1024%8
	return s
}

// cost is what the task has cost in a state.
func (s spending) cost(state pawl.TaskState) (int64, error) {
	switch {
	case state == pawl.TaskCompleted && !s.doomed:
		return s.settled, nil
	case state == pawl.TaskCancelled && s.doomed && s.budget == pawl.LostCharge:
		return s.amount, nil
	case state == pawl.TaskCancelled && s.doomed:
		return 0, nil
	}
	return 0, fmt.Errorf("%s, doomed %t", state, s.doomed)
}

// spend reserves for an item, and settles and ends it as its model says, or leaves it at some
// point.
func (r *randomWorker) spend(ctx context.Context, l pawl.Lease) error {
	s := spendingOf(l.TaskID)
	got, err := r.ReserveBudget(ctx, s.budget, reserveOf(l, s.amount, "call"))
	if errors.Is(err, pawl.ErrBudgetExhausted) {
		_, err = first(r.Release(ctx, []pawl.ReleaseCall{{Fence: l.Fence(), DelaySeconds: 1}}))
		return err
	}
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	if !r.calm && r.rnd.IntN(3) == 0 {
		return r.leave(ctx, l)
	}
	if s.doomed {
		r.remove(l.TaskID)
		return r.removeTask(ctx, l.TaskID)
	}
	if got.Settled == nil {
		if _, err := r.SettleBudget(ctx, s.budget, settleOf(l, got, s.settled)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	if !r.calm && r.rnd.IntN(4) == 0 {
		return r.leave(ctx, l)
	}
	_, err = pawl.Complete(ctx, r.Engine, l.Fence(), nil)
	return err
}

// remove notes that a task is about to be cancelled or deleted.
func (w *limitedWork) remove(task string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed == nil {
		w.removed = map[string]bool{}
	}
	w.removed[task] = true
}

// allow sets the limit of a budget.
func (w *limitedWork) allow(name string, limit int64) {
	w.Helper()
	need[pawl.Budget](w)(w.engines[0].PutBudget(w.Context(), name, pawl.NewBudget{Unit: "x", Limit: limit, OnLost: name}))
}

// withinBudgets checks that no budget has spent and reserved more than its limit. No task settles
// more than it has reserved.
func (w *limitedWork) withinBudgets() {
	w.Helper()
	for _, name := range pawl.BudgetLosses {
		var limit, spent, reserved int64
		w.read([]any{&limit, &spent, &reserved}, "SELECT allowance, spent, reserved FROM pawl.budgets WHERE name = $1", name)
		if spent+reserved > limit {
			w.Errorf("budget %s: %d spent and %d reserved of %d", name, spent, reserved, limit)
		}
	}
}

// spentExactly checks that each budget has spent what the tasks have cost by the model, and that
// nothing stays reserved.
func (w *limitedWork) spentExactly() {
	w.Helper()
	want, tasks := map[string]int64{}, 0
	count := func(task string, state pawl.TaskState) {
		s := spendingOf(task)
		cost, err := s.cost(state)
		if err != nil {
			w.Errorf("task %s ended otherwise than it should: %v", task, err)
		}
		want[s.budget] += cost
		tasks++
	}
	for f := (pawl.TaskFilter{Types: []string{"spend"}, Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
		list := need[pawl.List[pawl.Task]](w)(w.engines[0].ListTasks(w.Context(), f))
		for i := range list.Items {
			count(list.Items[i].ID, list.Items[i].State)
			delete(w.removed, list.Items[i].ID)
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	for task := range w.removed { // those that are left were deleted
		count(task, pawl.TaskCancelled)
	}
	for _, name := range pawl.BudgetLosses {
		var b pawl.Budget
		for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			need[pawl.SweepStats](w)(w.engines[0].Sweep(w.Context()))
			if b = need[pawl.Budget](w)(w.engines[0].GetBudget(w.Context(), name)); b.Reserved == 0 {
				break
			}
		}
		if b.Reserved != 0 || b.Spent != want[name] {
			w.Errorf("budget %s: %d are reserved and %d spent; its tasks cost %d", name, b.Reserved, b.Spent, want[name])
		}
		w.Logf("budget %s has spent %d", name, b.Spent)
	}
	if tasks < times(1, 10) || len(w.removed) < times(0, 1) { // a short run may happen to delete none
		w.Errorf("%d tasks have spent, %d of them were deleted", tasks, len(w.removed))
	}
}

// slotsAreFree checks that a queue whose work is done has all its slots.
func (w *limitedWork) slotsAreFree() {
	w.Helper()
	for n := range limitAll {
		need[pawl.Task](w)(pawl.Create(w.Context(), w.engines[0], limitedTask("all", n)))
	}
	for n := range limitAll / limitWorker {
		req := pawl.ClaimRequest{WorkerID: fmt.Sprint("free", n), Types: []string{"all"}, Limit: limitAll, WaitSeconds: 5}
		if got := need[[]pawl.Lease](w)(w.engines[0].Claim(w.Context(), req)); len(got) != limitWorker {
			w.Errorf("%d slots of a worker are free, want %d", len(got), limitWorker)
		}
	}
}
