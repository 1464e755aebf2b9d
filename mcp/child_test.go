package mcp_test

import (
	"testing"

	"github.com/pawl-work/pawl"
)

// An agent learns why an item does not go on, creates a child of its task under its lease, once for
// each key, and forks a task.
func TestWhySpawnAndFork(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		task := a.ok("work_propose", args{"type": "plain", "payload": 7}).Task
		if got := a.ok("work_why", args{"id": task.ID}); got.Reason != pawl.BlockedByNoWorker || got.Command == "" {
			a.Errorf("why: %+v", got)
		}
		l, lease := a.checkout("ann", task.ID)
		if got := a.ok("work_why", args{"id": l.ID}); got.Reason != pawl.WhyRunning || got.Detail == "" {
			a.Errorf("why, claimed: %+v", got)
		}
		a.no(pawl.CodeNotFound, "", "work_why", args{"id": "itm_none"})

		child := a.ok("work_spawn", with(lease, "key", "part", "type", "plain", "payload", 8, "title", "a part")).Task
		if child.ParentID != task.ID || child.Title != "a part" || string(child.Payload) != "8" {
			a.Errorf("the child is %+v", child)
		}
		if again := a.ok("work_spawn", with(lease, "key", "part", "type", "plain", "payload", 8)).Task; again.ID != child.ID {
			a.Errorf("the same key made %s beside %s", again.ID, child.ID)
		}
		a.ok("work_checkpoint", with(lease, "name", "page", "snapshot", args{"page": 7}))
		a.ok("work_release", lease)
		a.no(pawl.CodeLeaseLost, "given back", "work_spawn", with(lease, "key", "late", "type", "plain"))

		fork := a.ok("work_fork", args{"task_id": task.ID, "checkpoint": 1}).Task
		if fork.ForkedFrom != task.ID || fork.ForkedAt == nil || *fork.ForkedAt != 1 || string(fork.Payload) != "7" {
			a.Errorf("the fork is %+v", fork)
		}
		a.no(pawl.CodeNotFound, "", "work_fork", args{"task_id": task.ID, "checkpoint": 99})
	})
}
