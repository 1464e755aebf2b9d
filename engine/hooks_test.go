package engine_test

import (
	"context"
	"strings"
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

// A process without the hook Check or AutoApprove of a type, which another process has, leaves the decision to that one,
// until an engine is opened with an empty entry for the type.
func TestAProcessWithoutTheHookDecidesNothing(t *testing.T) {
	refuse := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
		return []pawl.Complaint{{Code: "thin", Message: "it is too thin"}}, nil
	}
	wait := func(context.Context, pawl.Task, []pawl.Item) (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		def   string
		hooks pawl.Hooks
		ready bool // after a process with the hook
	}{
		"check":        {`{"name":"report","acceptance":true}`, pawl.Hooks{Check: refuse}, false},
		"auto approve": {`{"name":"report","approval":{"mode":"auto"}}`, pawl.Hooks{AutoApprove: wait}, true},
	} {
		t.Run(name, func(t *testing.T) {
			withType(t, c.def, c.hooks, func(o typeFixture) {
				plain := o.Another(engine.Options{Hooks: map[string]pawl.Hooks{"other": {}}})
				submitted := func(want bool) string {
					o.Helper()
					task, ls := o.task(1)
					need[pawl.Moved](o.T)(first(plain.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}})))
					need[pawl.SweepStats](o.T)(plain.Sweep(o.Context()))
					if want {
						o.state(task.ID, pawl.TaskCompleted)
					} else if o.state(task.ID, pawl.TaskSubmitted).ReadyForApproval {
						o.Error("a process without the hook has checked the task")
					}
					return task.ID
				}
				id := submitted(false)
				why := need[pawl.Why](o.T)(plain.Why(o.Context(), id))
				if !strings.Contains(why.Detail, "a process that has the hooks") {
					o.Errorf("why: %s", why.Detail)
				}
				need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
				if task := o.state(id, pawl.TaskSubmitted); task.ReadyForApproval != c.ready || c.ready != (task.Error == nil) {
					o.Errorf("after a process with the hook: ready %v, error %v", task.ReadyForApproval, task.Error)
				}
				o.Another(engine.Options{Hooks: map[string]pawl.Hooks{"report": {}}})
				submitted(true)
			})
		})
	}
}
