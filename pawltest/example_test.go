package pawltest_test

import (
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A test makes a task, fails it once and completes it. A call that fails ends the test.
func ExampleCalls() {
	_ = func(t *testing.T) {
		p := pawltest.Open(t, pawltest.SQLite)
		task := p.Create(pawl.NewTask{Type: "pay"})
		p.FailWith(p.Claim("pay"), pawl.RetryAfter(0, errors.New("the bank does not answer")))
		p.Complete(p.Claim("pay"), `{"paid":true}`)
		if it := p.Items(task.ID)[0]; it.State != pawl.ItemCompleted || it.Attempt != 2 {
			t.Errorf("the item is %s in attempt %d", it.State, it.Attempt)
		}
		events := pawltest.Must[pawl.List[pawl.Event]](t)(p.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID}))
		t.Log(len(events.Items))
	}
}
