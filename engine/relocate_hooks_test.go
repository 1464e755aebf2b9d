package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A process of the target leaves the check of a task that has moved to a process with the hook, also when the application
// has not opened the target. Types of other namespaces keep what they had.
func TestHooksMoveWithANamespace(t *testing.T) {
	eachMove(t, true, func(t *testing.T, from, to *pawltest.Pawl) {
		thin := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
			return []pawl.Complaint{{Code: "thin", Message: "it is too thin"}}, nil
		}
		hooks := map[string]pawl.Hooks{"report": {Check: thin}, "other": {Check: thin}}
		app := from.Another(engine.Options{Hooks: hooks})
		put := func(e *engine.Engine, name string) string {
			t.Helper()
			need[pawl.TypeRef](t)(first(e.PutTypes(t.Context(), []pawl.Type{{Name: name, Acceptance: true}})))
			return need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: name, Payload: json.RawMessage(`1`)})).ID
		}
		submit := func(e *engine.Engine, id string, want pawl.TaskState) {
			t.Helper()
			l := leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: id}, 1)[0]
			need[pawl.Moved](t)(first(e.Submit(t.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}})))
			need[pawl.SweepStats](t)(e.Sweep(t.Context()))
			if task := need[pawl.Task](t)(e.GetTask(t.Context(), id)); task.State != want {
				t.Errorf("the task is %s, not %s", task.State, want)
			}
		}
		id := put(app, "report")
		moveAll(t, from, to, engine.Move{Namespace: "default"})
		submit(to.Engine, id, pawl.TaskSubmitted)
		submit(to.Engine, put(to.Engine, "other"), pawl.TaskCompleted)
	})
}
