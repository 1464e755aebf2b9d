package engine_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// reports is a database with a type whose tasks are approved. It is SQLite, which makes and submits ten thousand items
// in seconds: what follows a decision is the same code on both databases.
func reports(t *testing.T) typeFixture {
	o := typeFixture{t, pawltest.Open(t, pawltest.SQLite)}
	typ := pawl.Type{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}
	need[pawl.TypeRef](t)(first(o.Engine.PutTypes(t.Context(), []pawl.Type{typ})))
	return o
}

// submitted creates a task of n items, all of them with submitted results.
func (o typeFixture) submitted(n int) pawl.Task {
	o.Helper()
	task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Items: make([]pawl.NewItem, n)}))
	for left := n; left > 0; {
		ls := need[[]pawl.Lease](o.T)(o.Engine.Claim(o.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: 1000}))
		calls := make([]pawl.SubmitCall, len(ls))
		for i, l := range ls {
			calls[i] = pawl.SubmitCall{Fence: l.Fence(), Result: []byte(`1`)}
		}
		for _, r := range need[[]pawl.Result[pawl.Moved]](o.T)(o.Engine.Submit(o.Context(), calls)) {
			o.OK(r.Err)
		}
		if left -= len(ls); len(ls) == 0 {
			o.Fatalf("%d items are not claimed", left)
		}
	}
	return o.state(task.ID, pawl.TaskSubmitted)
}

// dying runs fn with an engine whose process dies when it locks a task for a decision the second time: when
// it would move what the transaction of the first decision has left.
func (o typeFixture) dying(fn func(e *engine.Engine)) {
	o.Helper()
	var decisions atomic.Int32
	e := o.Another(engine.Options{Statement: func(query string) {
		if strings.Contains(query, "k.ready_for_approval, k.todo") && decisions.Add(1) == 2 {
			runtime.Goexit()
		}
	}})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		fn(e)
		o.Error("the process did not die")
	}()
	<-gone
}

// A process dies after the transaction of a rejection, which moves a part of the items. A sweep moves the others.
func TestARejectionOfManyItemsGoesOnAfterACrash(t *testing.T) {
	o := reports(t)
	task := o.submitted(store.DecideBatch + 1)
	o.dying(func(e *engine.Engine) {
		no := []pawl.Complaint{{Code: "no", Message: "no"}}
		_, err := first(e.RejectTasks(t.Context(), []pawl.RejectCall{{TaskID: task.ID, Errors: no}}))
		t.Errorf("the rejection answered: %v", err)
	})
	submitted := func() int { return o.count("SELECT COUNT(*) FROM pawl.item_rows WHERE state = 'submitted'") }
	if o.state(task.ID, pawl.TaskRejected); submitted() != 1 {
		t.Errorf("%d items are left by the decision", submitted())
	}
	need[pawl.SweepStats](t)(o.Engine.Sweep(t.Context()))
	if n := submitted(); n != 0 {
		t.Errorf("%d items of a rejected task are submitted", n)
	}
	if n := o.count("SELECT COUNT(*) FROM pawl.task_counters WHERE todo = 1"); n != 0 {
		t.Errorf("%d tasks wait for a step", n)
	}
}
