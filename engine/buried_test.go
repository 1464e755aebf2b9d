package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// A task that could not be planned or applied is dead-lettered after its time, whatever applies it.
func TestATaskThatWasNotAppliedIsDeadLettered(t *testing.T) {
	broken := pawl.Hooks{Apply: func(context.Context, pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{}, errors.New("disk full")
	}}
	for name, def := range map[string]string{
		"by a hook":   `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`,
		"by a worker": `{"name":"report","acceptance":true,"apply":{"mode":"item","max_attempts":1}}`,
		"planned":     `{"name":"report","plan":{"mode":"item","max_attempts":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			withType(t, def, broken, func(o typeFixture) {
				for _, n := range []int{1, 2} {
					var task pawl.Task
					if name == "planned" {
						task = need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Payload: []byte(`1`)}))
					} else {
						var ls []pawl.Lease
						task, ls = o.task(n)
						for _, l := range ls {
							o.submit(l, `1`)
						}
					}
					aside := map[string]string{"by a worker": "report.apply", "planned": "report.plan"}[name]
					fail := func() {
						o.Helper()
						if aside != "" {
							l := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{aside}}, 1)[0]
							need[pawl.Moved](o.T)(pawl.Fail(o.Context(), o.Engine, l.Fence(), pawl.Permanent(errors.New("disk full"))))
						}
						o.state(task.ID, pawl.TaskFailed)
					}
					fail()
					o.Advance(49 * time.Hour)
					if s := o.sweep(); s.Buried != 1 {
						o.Errorf("%d were dead-lettered", s.Buried)
					}
					if d := o.state(task.ID, pawl.TaskDeadLettered); d.Error == nil || d.Error.Message != "disk full" || d.FailedIn == "" {
						o.Errorf("dead-lettered as %q, %+v", d.FailedIn, d.Error)
					}
					o.sound("dead-lettered")
					o.retry(task.ID)
					fail()
					need[pawl.Task](o.T)(first(o.Engine.CancelTasks(o.Context(), []pawl.TaskCall{{TaskID: task.ID}})))
				}
			})
		})
	}
}
