package engine_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// A deadline that had passed before a retry is not applied to the item that it has queued.
func TestADeadlineBeforeARetryIsNotApplied(t *testing.T) {
	withType(t, `{"name":"report","max_attempts":1}`, pawl.Hooks{}, func(o typeFixture) {
		for _, n := range []int{1, 2} {
			at := o.Now().Add(time.Hour)
			nt := pawl.NewTask{Type: "report", Payload: []byte(`{}`), Deadline: &at}
			if n > 1 {
				nt.Items = []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}
			}
			task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, nt))
			o.failNow(o.take(task.ID, n)...)
			o.Advance(2 * time.Hour)
			o.retry(task.ID)
			o.sweep()
			o.state(task.ID, pawl.TaskQueued)
			o.finish(o.take(task.ID, n)...)
			o.state(task.ID, pawl.TaskCompleted)
		}
	})
	withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{}, func(o typeFixture) {
		at := o.Now().Add(time.Hour)
		task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Payload: []byte(`{}`), Deadline: &at}))
		o.submit(o.take(task.ID, 1)[0], `1`)
		o.Advance(2 * time.Hour)
		again := pawl.RejectCall{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}, AllowRework: true}
		need[pawl.Task](o.T)(first(o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{again})))
		o.sweep()
		o.state(task.ID, pawl.TaskQueued)
	})
}
