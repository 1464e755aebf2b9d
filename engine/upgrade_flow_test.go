package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// In a database that an earlier version made, limits, rates, orders, budgets, children, unique
// tasks, schedules and bulk calls go on where they were.
func TestTheFlowControlOfAnEarlierVersionGoesOn(t *testing.T) {
	eachOlder(t, madeBy[1:], func(t *testing.T, e *engine.Engine) {
		t.Run("limits", func(t *testing.T) { olderLimits(t, e) })
		t.Run("budgets", func(t *testing.T) { olderBudgets(t, e) })
		t.Run("children", func(t *testing.T) { olderChildren(t, e) })
		t.Run("tasks", func(t *testing.T) { olderTasks(t, e) })
		t.Run("schedules", func(t *testing.T) { olderSchedules(t, e) })
		sound(t, e)
	})
}

// itemsOf returns the items of a type that are in a state.
func itemsOf(t *testing.T, e *engine.Engine, typ string, state pawl.ItemState) []pawl.Item {
	t.Helper()
	q := pawl.ItemFilter{Types: []string{typ}, States: []pawl.ItemState{state}}
	return need[pawl.List[pawl.Item]](t)(e.ListItems(t.Context(), q)).Items
}

// theItem returns the only item of a type that is in a state.
func theItem(t *testing.T, e *engine.Engine, typ string, state pawl.ItemState) pawl.Item {
	t.Helper()
	items := itemsOf(t, e, typ, state)
	if len(items) != 1 {
		t.Fatalf("%d items of %s are %s", len(items), typ, state)
	}
	return items[0]
}

// nothingToClaim checks that no item of a type can be claimed.
func nothingToClaim(t *testing.T, e *engine.Engine, typ string) {
	t.Helper()
	if got := need[[]pawl.Lease](t)(e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "after", Types: []string{typ}})); len(got) > 0 {
		t.Errorf("%s of %s was claimed", got[0].ID, typ)
	}
}

func fenceOf(it pawl.Item) pawl.Fence {
	return pawl.Fence{ItemID: it.ID, WorkerID: it.WorkerID, Attempt: it.Attempt}
}

func completeItem(t *testing.T, e *engine.Engine, f pawl.Fence) {
	t.Helper()
	need[pawl.Moved](t)(first(e.Complete(t.Context(), []pawl.CompleteCall{{Fence: f, Result: json.RawMessage("1")}})))
}

func olderLimits(t *testing.T, e *engine.Engine) {
	for _, typ := range []string{"limited", "ordered", "rated"} {
		held := theItem(t, e, typ, pawl.ItemLeased)
		nothingToClaim(t, e, typ)
		completeItem(t, e, fenceOf(held))
		if typ == "rated" {
			nothingToClaim(t, e, typ)
		} else {
			leases(t, e, pawl.ClaimRequest{WorkerID: "after", Types: []string{typ}}, 1)
		}
	}
	if q := need[pawl.Queue](t)(e.GetQueue(t.Context(), "later")); !q.Paused {
		t.Errorf("%+v", q)
	}
}

func olderBudgets(t *testing.T, e *engine.Engine) {
	ctx := t.Context()
	it := theItem(t, e, "spends", pawl.ItemLeased)
	l := pawl.Lease{ID: it.ID, WorkerID: it.WorkerID, Attempt: it.Attempt}
	r := need[pawl.Reserved](t)(e.ReserveBudget(ctx, "llm", reserveOf(l, 10, "open")))
	if s := need[pawl.Settled](t)(e.SettleBudget(ctx, "llm", settleOf(l, r, 5))); s.Spent != 12 || s.Remaining != 88 {
		t.Errorf("%+v", s)
	}
}

func olderChildren(t *testing.T, e *engine.Engine) {
	parent := theItem(t, e, "parent", pawl.ItemWaiting)
	nothingToClaim(t, e, "parent")
	l := leases(t, e, pawl.ClaimRequest{WorkerID: "after", Types: []string{"child"}}, 1)[0]
	completeItem(t, e, l.Fence())
	if err := e.RunBulks(t.Context()); err != nil {
		t.Fatal(err)
	}
	need[pawl.SweepStats](t)(e.Sweep(t.Context()))
	if l := leases(t, e, pawl.ClaimRequest{WorkerID: "after", Types: []string{"parent"}}, 1)[0]; l.ID != parent.ID {
		t.Errorf("%s was claimed, not %s", l.ID, parent.ID)
	}
}

func olderTasks(t *testing.T, e *engine.Engine) {
	ctx := t.Context()
	again := pawl.NewTask{Type: "alone", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k"}}
	if _, err := pawl.Create(ctx, e, again); pawl.CodeOf(err) != pawl.CodeConflict {
		t.Errorf("a second unique task: %v", err)
	}
	for _, it := range itemsOf(t, e, "timed", pawl.ItemQueued) {
		if task := need[pawl.Task](t)(e.GetTask(ctx, it.TaskID)); task.Deadline == nil || it.Deadline == nil {
			t.Errorf("%s has lost its deadline", task.ID)
		}
	}
	fork := theItem(t, e, "forked", pawl.ItemQueued)
	if task := need[pawl.Task](t)(e.GetTask(ctx, fork.TaskID)); task.ForkedFrom == "" {
		t.Errorf("%s has lost what it was made of", task.ID)
	}
	theItem(t, e, "selected", pawl.ItemCancelled) // by the bulk call
}

func olderSchedules(t *testing.T, e *engine.Engine) {
	s := need[pawl.Schedule](t)(e.GetSchedule(t.Context(), "monthly"))
	before := len(itemsOf(t, e, "planned", pawl.ItemQueued))
	if before == 0 || len(s.Next) == 0 {
		t.Errorf("%d firings, the next %v", before, s.Next)
	}
	need[pawl.Schedule](t)(e.RunSchedule(t.Context(), "monthly"))
	if now := itemsOf(t, e, "planned", pawl.ItemQueued); len(now) != before+1 {
		t.Errorf("%d items of firings after another", len(now))
	}
}
