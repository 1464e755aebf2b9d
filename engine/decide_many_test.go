package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// reports is a database with a type whose tasks are approved. It is SQLite: what follows a decision is the same code on
// both databases.
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

// A process dies after the transaction of a decision, which moves a part of the items. A sweep moves the others. Until
// then a cancel is refused and moves none of them. It is not parallel: its transactions move fewer items.
func TestADecisionAboutManyItemsGoesOnAfterACrash(t *testing.T) {
	t.Cleanup(func(was int) func() { return func() { store.DecideBatch = was } }(store.DecideBatch))
	store.DecideBatch = times(400, store.DecideBatch)
	for to, decide := range map[pawl.TaskState]func(ctx context.Context, e *engine.Engine, task string) error{
		pawl.TaskRejected: func(ctx context.Context, e *engine.Engine, task string) error {
			no := []pawl.Complaint{{Code: "no", Message: "no"}}
			_, err := first(e.RejectTasks(ctx, []pawl.RejectCall{{TaskID: task, Errors: no}}))
			return err
		},
		pawl.TaskCompleted: func(ctx context.Context, e *engine.Engine, task string) error {
			_, err := first(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task}}))
			return err
		},
	} {
		t.Run(string(to), func(t *testing.T) {
			const more = 300 // a cancel of a task moves all but the last 250 of its items ahead
			o := reports(t)
			task := o.submitted(store.DecideBatch + more)
			o.dying(func(e *engine.Engine) { t.Errorf("the decision answered: %v", decide(t.Context(), e, task.ID)) })
			left := func() int {
				return o.count("SELECT COUNT(*) FROM pawl.item_rows WHERE state IN ('submitted', 'accepted')")
			}
			if o.state(task.ID, to); left() != more {
				t.Errorf("%d items are left by the decision", left())
			}
			filter := pawl.ItemFilter{TaskID: task.ID, States: map[pawl.TaskState][]pawl.ItemState{
				pawl.TaskRejected: {pawl.ItemSubmitted}, pawl.TaskCompleted: {pawl.ItemAccepted}}[to]}
			one := need[pawl.List[pawl.Item]](t)(o.Engine.ListItems(t.Context(), filter)).Items[0].ID
			for _, items := range [][]string{{one}, nil} {
				_, err := first(o.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: items}}))
				if no := (*pawl.Error)(nil); !errors.As(err, &no) || no.Code != pawl.CodeConflict || no.State != string(to) || left() != more {
					t.Errorf("a cancel of %d named items: %v, %d items are left", len(items), err, left())
				}
			}
			need[pawl.SweepStats](t)(o.Engine.Sweep(t.Context()))
			if n := o.count("SELECT COUNT(*) FROM pawl.item_rows WHERE state <> '" + string(to) + "'"); n != 0 {
				t.Errorf("%d items of the task are not %s", n, to)
			}
			if n := o.count("SELECT COUNT(*) FROM pawl.task_counters WHERE todo = 1"); n != 0 {
				t.Errorf("%d tasks wait for a step", n)
			}
		})
	}
}

// A task is complete whose type ignores failed items. A cancel is refused, and moves none of them.
func TestACancelMovesNoItemsOfAnEndedTask(t *testing.T) {
	withType(t, `{"name":"report","on_item_failure":"ignore"}`, pawl.Hooks{}, func(o typeFixture) {
		task, ls := o.task(300)
		var fails []pawl.FailCall
		no := false
		for _, l := range ls[1:] {
			fails = append(fails, pawl.FailCall{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}, Retryable: &no})
		}
		need[[]pawl.Result[pawl.Moved]](o.T)(o.Engine.Fail(o.Context(), fails))
		need[pawl.Moved](o.T)(pawl.Complete(o.Context(), o.Engine, ls[0].Fence(), nil))
		o.state(task.ID, pawl.TaskCompleted)
		for _, items := range [][]string{{ls[1].ID}, nil} {
			_, err := first(o.Engine.CancelTasks(o.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: items}}))
			if !errors.Is(err, pawl.ErrConflict) {
				o.Errorf("a cancel of %d named items: %v", len(items), err)
			}
			if n := o.count("SELECT COUNT(*) FROM pawl.item_rows WHERE state = 'failed'"); n != len(fails) {
				o.Errorf("after a cancel of %d named items %d items are failed, want %d", len(items), n, len(fails))
			}
		}
	})
}
