package sweep_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// waits makes a task whose item waits for children, with the given rules.
func (h *fixture) waits(w pawl.ChildWait, children ...pawl.NewTask) (parent pawl.Lease, ids []string) {
	h.Helper()
	h.Create(pawl.NewTask{Type: "parent", Payload: json.RawMessage(`{}`)})
	held, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "p", Types: []string{"parent"}, LeaseSeconds: 3600})
	h.OK(err)
	for _, c := range children {
		c.ParentID = held[0].TaskID
		ids = append(ids, h.Create(c).ID)
	}
	w.IDs = ids
	rs, err := h.Service.Suspend(h.Context(), []pawl.SuspendCall{{Fence: held[0].Fence(), Children: &w}})
	h.OK(err)
	h.OK(rs[0].Err)
	return held[0], ids
}

func (h *fixture) quick() pawl.SweepStats {
	h.Helper()
	s, err := h.Quick(h.Context())
	h.OK(err)
	return s
}

// The pass that ends a child wakes the item that waits for it; nothing else counts the child here.
func TestAPassThatEndsAChildWakesItsParent(t *testing.T) {
	at := time.Now().Add(time.Hour)
	one := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`), MaxAttempts: 1}
	many := one
	many.Items = []pawl.NewItem{{Key: "a", Input: json.RawMessage(`1`)}, {Key: "b", Input: json.RawMessage(`1`), After: []string{"a"}}}
	dated, datedMany, queued := one, many, one
	dated.Deadline, datedMany.Deadline, queued.ScheduleToStartSeconds = &at, &at, 60
	expire := func(h *fixture) { // of the child: an item that waited before may be queued too
		_, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}})
		h.OK(err)
		h.exec("UPDATE pawl.leases SET lease_expires_at = 1")
	}
	for name, c := range map[string]struct {
		child pawl.NewTask
		end   func(h *fixture)
	}{
		"the lease of its last attempt expires":     {one, expire},
		"its deadline passes":                       {dated, (*fixture).late},
		"the deadline of many items passes":         {datedMany, (*fixture).late},
		"no worker claims it in time":               {queued, func(h *fixture) { h.exec("UPDATE pawl.ready SET since = 1") }},
		"its last item has lost what it depends on": {many, expire},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(h *fixture) {
				var failed []string
				l, ids := h.waits(pawl.ChildWait{OnFailure: pawl.OnFailureContinue}, c.child)
				c.end(h)
				h.quick()
				h.same(h.state(ids[0]), pawl.TaskFailed, "child")
				h.same(h.Item(l.ID).State, pawl.ItemQueued, "the item that waits")

				h.OnChildren = func(_ context.Context, e store.ChildrenEnded) {
					for _, d := range e.Failed {
						failed = append(failed, d.ItemID)
					}
				}
				l, _ = h.waits(pawl.ChildWait{}, c.child)
				c.end(h)
				h.quick()
				h.same(h.Item(l.ID).State, pawl.ItemFailed, "the item that cannot go on")
				h.same(failed, []string{l.ID}, "what the engine was told")
			})
		})
	}
}

// uncounted completes a child whose end is not counted, as when the process dies that completed it.
func (h *fixture) uncounted(taskID string) {
	h.Helper()
	h.exec("UPDATE pawl.awaited_children SET state = 'completed'")
	h.complete(h.claim(1)...)
	h.exec("UPDATE pawl.awaited_children SET state = NULL")
	h.same(h.state(taskID), pawl.TaskCompleted, "child")
}

// A child that is deleted before its end was counted counts as what it was. Retention leaves it.
func TestARemovedChildCountsAsWhatItWas(t *testing.T) {
	child := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`)}
	each(t, func(h *fixture) {
		l, ids := h.waits(pawl.ChildWait{}, child)
		h.uncounted(ids[0])
		if err := h.Retire(h.Context(), ids[0]); err == nil {
			t.Error("the child was archived")
		}
		h.OK(h.Delete(h.Context(), "default", ids[0], store.Deletion{Actor: store.Actor{Type: pawl.ActorSystem}}))
		h.same(h.Item(l.ID).State, pawl.ItemQueued, "the item that waited")
		s, err := h.Service.Resume(h.Context(), l.ID)
		h.OK(err)
		h.same(s.Children.Items, []pawl.ChildResult{{ID: ids[0], State: pawl.TaskCompleted, Omitted: true}}, "the children that ended")
	})
}

// A transaction that has changed the counters of one task does not lock the waiting items of another,
// nor others of the same task.
func TestDependentsOfEachTaskHaveATransactionOfTheirOwn(t *testing.T) {
	each(t, func(h *fixture) {
		call := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`), MaxAttempts: 1,
			Items: []pawl.NewItem{{Key: "a", Input: json.RawMessage(`1`)},
				{Input: json.RawMessage(`1`), After: []string{"a"}}, {Input: json.RawMessage(`1`), After: []string{"a"}}}}
		tasks := []pawl.Task{h.Create(call), h.Create(call)}
		h.claim(2)
		h.exec("UPDATE pawl.leases SET lease_expires_at = 1")
		h.same(h.quick().GivenUp, 4, "given up")
		for _, task := range tasks {
			h.same(h.state(task.ID), pawl.TaskFailed, "state")
		}
		if h.Database == pawltest.Postgres {
			h.same(h.count("SELECT COUNT(DISTINCT CAST(xmin AS text)) FROM pawl.parked_items WHERE left_by = 'dependency'"), 2, "transactions")
			h.same(h.count("SELECT COUNT(DISTINCT CAST(xmin AS text)) FROM pawl.task_counters"), 2, "transactions of counters")
		}
	})
}

// What children have done is kept as long as the item that waits for them may ask for it.
func TestAChildStaysWhileItsParentWaits(t *testing.T) {
	each(t, func(h *fixture) {
		child := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`)}
		l, ids := h.waits(pawl.ChildWait{}, child, child)
		h.complete(h.claim(1)...)
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 0, "pruned while the parent waits for another child")
		ls, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}})
		h.OK(err)
		h.complete(ls...)
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 0, "pruned before the parent went on")
		s, err := h.Service.Resume(h.Context(), l.ID)
		h.OK(err)
		result := json.RawMessage(`"done <&> \u2028"`)
		h.same(s.Children.Items, []pawl.ChildResult{{ID: ids[0], State: pawl.TaskCompleted, Result: result},
			{ID: ids[1], State: pawl.TaskCompleted, Result: result}}, "the children that ended")
		ls, err = h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "p", Types: []string{"parent"}})
		h.OK(err)
		h.complete(ls...)
		h.same(h.pass().TasksPruned, 2, "pruned after the parent has ended")
	})
}
