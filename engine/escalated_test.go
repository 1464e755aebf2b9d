package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// An escalation ends with its round: after a rework those decide who may decide first.
func TestAnEscalationEndsWithItsRound(t *testing.T) {
	const def = `{"name":"report","approval":{"mode":"manual","expires_seconds":60,"by":["user/boss"],"on_expiry":"escalate",` +
		`"escalate_to":["user/deputy"]}}`
	withType(t, def, pawl.Hooks{}, func(o typeFixture) {
		for _, n := range []int{1, 2} {
			task, ls := o.task(n)
			for _, l := range ls {
				o.submit(l, `1`)
			}
			o.Advance(2 * time.Minute)
			o.sweep()
			deputy := pawl.As(o.Context(), pawl.Caller{ActorType: "user", ActorID: "deputy"})
			again := pawl.RejectCall{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}, AllowRework: true}
			need[pawl.Task](o.T)(first(o.Engine.RejectTasks(deputy, []pawl.RejectCall{again})))
			for _, l := range o.take(task.ID, n) {
				o.submit(l, `2`)
			}
			approve := func() error {
				return second(first(o.Engine.ApproveTasks(deputy, []pawl.ApproveCall{{TaskID: task.ID}})))
			}
			if err := approve(); pawl.CodeOf(err) != pawl.CodeForbidden {
				o.Errorf("the deputy approves in the next round: %v", err)
			}
			o.Advance(2 * time.Minute)
			o.sweep()
			o.OK(approve())
		}
	})
}

// Approvals that cannot be handled keep no younger ones from their end.
func TestOverdueApprovalsThatFailStopNoOthers(t *testing.T) {
	withType(t, `{"name":"report","approval":{"mode":"manual","expires_seconds":60,"on_expiry":"reject"}}`, pawl.Hooks{}, func(o typeFixture) {
		const stuck = 100
		for range stuck {
			_, ls := o.task(1)
			o.submit(ls[0], `1`)
		}
		o.OK(o.Exec("UPDATE pawl.tasks SET type_version = 99")) // no such version
		o.Advance(time.Second)
		task, ls := o.task(1)
		o.submit(ls[0], `1`)
		o.Advance(2 * time.Minute)
		o.sweep()
		o.state(task.ID, pawl.TaskRejected)
		if n := o.count("SELECT COUNT(*) FROM pawl.task_counters WHERE decide_by IS NOT NULL"); n != stuck {
			o.Errorf("%d of %d are left", n, stuck)
		}
		o.OK(o.Exec("UPDATE pawl.tasks SET type_version = 1"))
	})
}

// A check that fails once, as when its network is down, is repeated by the next pass. Its failure is told meanwhile.
func TestACheckThatFailsIsRepeated(t *testing.T) {
	for name, fails := range map[string]func() error{
		"error": func() error { return errors.New("no network") },
		"panic": func() error { panic("no network") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			calls := map[string]int{}
			hooks := pawl.Hooks{Check: func(_ context.Context, task pawl.Task, _ []pawl.Item) ([]pawl.Complaint, error) {
				mu.Lock()
				defer mu.Unlock()
				if calls[task.ID]++; calls[task.ID] <= 2 {
					return nil, fails()
				}
				return nil, nil
			}}
			withType(t, `{"name":"report","approval":{"mode":"manual"}}`, hooks, func(o typeFixture) {
				task, ls := o.task(1)
				o.submit(ls[0], `1`)
				for range 2 {
					if e := o.state(task.ID, pawl.TaskSubmitted).Error; e == nil || !strings.Contains(e.Message, "no network") {
						o.Errorf("the failure of the check is told as %+v", e)
					}
					_, err := first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}}))
					if pawl.CodeOf(err) != pawl.CodeConflict {
						o.Errorf("approved before it was checked: %v", err)
					}
					o.sweep()
				}
				need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}})))
				if e := o.state(task.ID, pawl.TaskCompleted).Error; e != nil {
					o.Errorf("the failure stays: %+v", e)
				}
			})
		})
	}
}
