package engine_test

import (
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
