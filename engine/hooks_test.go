package engine_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// A process without the hook Apply leaves a task to a process that has it, and fails none.
func TestAProcessWithoutTheHookAppliesNothing(t *testing.T) {
	for mode, def := range map[string]string{
		"manual": `{"name":"report","approval":{"mode":"manual"},"apply":{"mode":"go"}}`,
		"auto":   `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`,
	} {
		t.Run(mode, func(t *testing.T) {
			apply := func(context.Context, pawl.Application) (pawl.Applied, error) {
				return pawl.Applied{Result: []byte(`"applied"`)}, nil
			}
			withType(t, def, pawl.Hooks{Apply: apply}, func(o typeFixture) {
				plain := o.Another(engine.Options{})
				task, ls := o.task(1)
				need[pawl.Moved](o.T)(first(plain.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}})))
				if mode == "manual" {
					_, err := first(plain.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}}))
					if pawl.CodeOf(err) != pawl.CodeUnavailable {
						o.Errorf("an approval without the hook: %v", err)
					}
					o.state(task.ID, pawl.TaskSubmitted)
					need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}})))
				} else {
					need[pawl.SweepStats](o.T)(plain.Sweep(o.Context()))
					o.state(task.ID, pawl.TaskApproved)
					need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
				}
				o.state(task.ID, pawl.TaskCompleted)
			})
		})
	}
}
