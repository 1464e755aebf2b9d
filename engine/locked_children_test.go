package engine_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The ends of children reach their parents, also while a transaction that does not end has rows of
// another parent.
func TestALockedParentStopsNoOtherParent(t *testing.T) {
	for name, query := range map[string]string{
		"wait":    "SELECT FROM child_waits WHERE item_id = id($1) FOR UPDATE",
		"task":    "SELECT FROM tasks WHERE id = (SELECT task_id FROM waiting WHERE item_id = id($1)) FOR UPDATE",
		"item":    "SELECT FROM waiting WHERE item_id = id($1) FOR UPDATE",
		"awaited": "SELECT FROM awaited_children WHERE item_id = id($1) FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			suspend := func(typ string) (parent pawl.Lease, child pawl.Lease) {
				l, ids := spawned(t, p.Engine, typ, 1)
				ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureContinue}))
				return l, leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}}, 1)[0]
			}
			locked, lockedChild := suspend("a")
			_, child := suspend("b")
			_, missed := suspend("c")
			unlock := stranger(t, p, query, locked.ID)
			no := false
			ends := []pawl.FailCall{{Fence: lockedChild.Fence(), Error: pawl.Failure{Message: "a"}, Retryable: &no},
				{Fence: child.Fence(), Error: pawl.Failure{Message: "b"}, Retryable: &no}}
			for _, r := range need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Fail(ctx, ends)) {
				ok(t, r.Err)
			}
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}, 1)
			// The process that should have counted this one has died.
			stop := stranger(t, p, "SELECT FROM child_waits WHERE item_id <> id($1) AND over = 0 FOR UPDATE", locked.ID)
			need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, missed.Fence(), nil))
			stop()
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"c"}}, 0)
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"c"}}, 1)
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 0)
			unlock()
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 1)
		})
	}
}

// The cancel of a parent reaches its children, also while a transaction that does not end has rows
// of children of more other parents than are listed together.
func TestLockedChildrenStopNoOtherCancel(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	var parents []string
	for range 60 {
		l, _ := spawned(t, p.Engine, "locked", 1)
		parents = append(parents, l.TaskID)
	}
	unlock := stranger(t, p, "SELECT FROM tasks t JOIN child_links l ON l.child_id = t.id FOR UPDATE OF t")
	ok(t, p.Exec("UPDATE pawl.parents SET todo = 1")) // as left by a process that died
	l, ids := spawned(t, p.Engine, "free", 2)
	unlockOne := stranger(t, p, "SELECT FROM tasks WHERE id = id($1) FOR UPDATE", ids[0])
	ok(t, cancelTask(p.Engine, l.TaskID))
	need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
	state := func(id string) pawl.TaskState {
		return need[pawl.Task](t)(p.Engine.GetTask(ctx, id)).State
	}
	if got := state(ids[1]); got != pawl.TaskCancelled {
		t.Errorf("the sibling of a locked child is %s", got)
	}
	unlockOne()
	unlock()
	need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
	for _, parent := range append(parents, l.TaskID) {
		for _, c := range need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(ctx, pawl.TaskFilter{ParentIDs: []string{parent}})).Items {
			if c.State != pawl.TaskCancelled {
				t.Errorf("a child is %s", c.State)
			}
		}
	}
}
