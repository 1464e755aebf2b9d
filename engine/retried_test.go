package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// chain creates a task with the item a, the item b that needs a, and the item c.
func (o typeFixture) chain() pawl.Task {
	o.Helper()
	return need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Items: []pawl.NewItem{
		{Key: "a", Input: []byte(`1`)}, {Key: "b", Input: []byte(`2`), After: []string{"a"}}, {Key: "c", Input: []byte(`3`)}}}))
}

// keyed returns the items of a task by their keys.
func (o typeFixture) keyed(taskID string) map[string]pawl.Item {
	o.Helper()
	out := map[string]pawl.Item{}
	for _, it := range need[pawl.List[pawl.Item]](o.T)(o.Engine.ListItems(o.Context(), pawl.ItemFilter{TaskID: taskID})).Items {
		out[it.Key] = it
	}
	return out
}

func (o typeFixture) take(taskID string, n int) []pawl.Lease {
	o.Helper()
	return leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: taskID, Limit: n}, n)
}

// failNow fails items for good, in one call.
func (o typeFixture) failNow(ls ...pawl.Lease) {
	o.Helper()
	no := false
	calls := make([]pawl.FailCall, len(ls))
	for i, l := range ls {
		calls[i] = pawl.FailCall{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}, Retryable: &no}
	}
	for _, r := range need[[]pawl.Result[pawl.Moved]](o.T)(o.Engine.Fail(o.Context(), calls)) {
		o.OK(r.Err)
	}
}

func (o typeFixture) finish(ls ...pawl.Lease) {
	o.Helper()
	for _, l := range ls {
		need[pawl.Moved](o.T)(pawl.Complete(o.Context(), o.Engine, l.Fence(), []byte(`1`)))
	}
}

func (o typeFixture) sweep() pawl.SweepStats {
	o.Helper()
	return need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
}

func (o typeFixture) retry(taskID string, items ...string) {
	o.Helper()
	need[pawl.Task](o.T)(first(o.Engine.RetryTasks(o.Context(), []pawl.TaskCall{{TaskID: taskID, ItemIDs: items}})))
}

// A type cancels the other items of a task when one has failed. A failure that is older than a retry cancels none of the
// items that the retry has queued; a later one does.
func TestAFailureBeforeARetryCancelsNothing(t *testing.T) {
	const def = `{"name":"report","on_item_failure":"cancel","max_attempts":1}`
	t.Run("what failed with it", func(t *testing.T) {
		withType(t, def, pawl.Hooks{}, func(o typeFixture) {
			task := o.chain()
			for _, l := range o.take(task.ID, 2) {
				if l.Key == "a" {
					o.failNow(l)
				}
			}
			o.state(task.ID, pawl.TaskFailed)
			o.retry(task.ID)
			o.sweep()
			ids := o.keyed(task.ID)
			o.item(ids["a"].ID, pawl.ItemQueued)
			o.item(ids["b"].ID, pawl.ItemFailed)
			o.finish(o.take(task.ID, 1)...)
			o.sweep()
			o.finish(o.take(task.ID, 1)...)
			o.state(task.ID, pawl.TaskCompleted)
		})
	})
	t.Run("another item", func(t *testing.T) {
		withType(t, def, pawl.Hooks{}, func(o typeFixture) {
			task, ls := o.task(3)
			o.failNow(ls[0], ls[1])
			o.item(ls[2].ID, pawl.ItemCancelled)
			o.retry(task.ID, ls[0].ID)
			o.sweep()
			o.item(ls[0].ID, pawl.ItemQueued)
			o.retry(task.ID, ls[1].ID)
			o.failNow(o.take(task.ID, 1)...)
			if n := o.count("SELECT COUNT(*) FROM pawl.item_rows WHERE state = 'cancelled'"); n != 2 {
				o.Errorf("%d items are cancelled after a failure that is newer than the retry", n)
			}
			o.state(task.ID, pawl.TaskFailed)
		})
	})
}

// Failed items of a type do not count. One that failed with a dependency runs all the same when that has completed after a
// retry, also if nothing else of the task is left; and where none can run, the task is settled at once.
func TestWhatFailedWithARetriedItemRunsBeforeItsTaskEnds(t *testing.T) {
	withType(t, `{"name":"report","on_item_failure":"ignore","max_attempts":1}`, pawl.Hooks{}, func(o typeFixture) {
		for _, again := range []bool{true, false} {
			task := o.chain()
			ls := map[string]pawl.Lease{}
			for _, l := range o.take(task.ID, 2) {
				ls[l.Key] = l
			}
			ids := o.keyed(task.ID)
			if again {
				o.failNow(ls["a"])
				o.item(ids["b"].ID, pawl.ItemFailed)
				o.retry(task.ID)
				ls["a"] = o.take(task.ID, 1)[0]
				o.finish(ls["c"], ls["a"])
				o.item(ids["b"].ID, pawl.ItemQueued)
				o.sound("it runs again")
				o.finish(o.take(task.ID, 1)...)
			} else {
				need[pawl.Task](o.T)(first(o.Engine.CancelTasks(o.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{ids["b"].ID}}})))
				o.failNow(ls["c"])
				o.finish(ls["a"])
			}
			o.state(task.ID, pawl.TaskCompleted)
			if b := o.item(ids["b"].ID, map[bool]pawl.ItemState{true: pawl.ItemCompleted, false: pawl.ItemCancelled}[again]); b.Attempt > 1 {
				o.Errorf("it ran %d times", b.Attempt)
			}
			if got := o.events(task.ID); !strings.HasSuffix(got, " completed completed") {
				o.Error(got)
			}
			if s := o.sweep(); s.Errors != 0 {
				o.Errorf("%d errors in a sweep", s.Errors)
			}
			o.sound("ended")
		}
	})
}

// The same when an item that nothing depends on is the last to end before the dependents are looked at, however it ends.
func TestWhatFailedWithARetriedItemRunsAfterAnotherEnd(t *testing.T) {
	for name, end := range map[string]func(typeFixture, ownTx, pawl.Lease) error{
		"complete": func(o typeFixture, in ownTx, l pawl.Lease) error {
			_, err := first(in.Complete(o.Context(), []pawl.CompleteCall{{Fence: l.Fence(), Result: []byte(`1`)}}))
			return err
		},
		"fail": func(o typeFixture, in ownTx, l pawl.Lease) error {
			no := false
			_, err := first(in.Fail(o.Context(), []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}, Retryable: &no}}))
			return err
		},
		"cancel": func(o typeFixture, in ownTx, l pawl.Lease) error {
			_, err := first(in.CancelTasks(o.Context(), []pawl.TaskCall{{TaskID: l.TaskID, ItemIDs: []string{l.ID}}}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			withType(t, `{"name":"report","on_item_failure":"ignore","max_attempts":1}`, pawl.Hooks{}, func(o typeFixture) {
				task := o.chain()
				ls := map[string]pawl.Lease{}
				for _, l := range o.take(task.ID, 2) {
					ls[l.Key] = l
				}
				o.failNow(ls["a"])
				o.retry(task.ID)
				a, ids := o.take(task.ID, 1)[0], o.keyed(task.ID)
				o.item(ids["b"].ID, pawl.ItemFailed)
				tx := beginOwn(o.T, o.Pawl)
				need[pawl.Moved](o.T)(pawl.Complete(o.Context(), tx, a.Fence(), []byte(`1`)))
				o.OK(end(o, tx, ls["c"]))
				o.OK(tx.commit())
				o.state(task.ID, pawl.TaskInProgress)
				o.sweep()
				o.item(ids["b"].ID, pawl.ItemQueued)
				o.finish(o.take(task.ID, 1)...)
				o.sweep()
				o.state(task.ID, pawl.TaskCompleted)
				o.sound("ended")
			})
		})
	}
}

// The last item settles a task of which another failed before, also if nothing sweeps, and however it ends.
func TestTheLastItemEndsATaskThatIgnoresAFailure(t *testing.T) {
	for name, end := range map[string]func(typeFixture, ...pawl.Lease){"complete": typeFixture.finish, "fail": typeFixture.failNow} {
		t.Run(name, func(t *testing.T) {
			withType(t, `{"name":"report","on_item_failure":"ignore","max_attempts":1}`, pawl.Hooks{}, func(o typeFixture) {
				task := o.chain()
				ls := map[string]pawl.Lease{}
				for _, l := range o.take(task.ID, 2) {
					ls[l.Key] = l
				}
				o.failNow(ls["c"])
				o.finish(ls["a"])
				end(o, o.take(task.ID, 1)...)
				o.state(task.ID, pawl.TaskCompleted)
				o.sound("ended")
			})
		})
	}
}

// Sweeps leave what failed with a dependency alone when its task has ended.
func TestASweepEndsBesideDependentsOfAnEndedTask(t *testing.T) {
	withType(t, `{"name":"report","on_item_failure":"ignore","max_attempts":1}`, pawl.Hooks{}, func(o typeFixture) {
		if o.Database != pawltest.Postgres {
			return // a cancel and a completion in one transaction, after which the dependents are looked at
		}
		task := o.chain()
		ls := map[string]pawl.Lease{}
		for _, l := range o.take(task.ID, 2) {
			ls[l.Key] = l
		}
		o.failNow(ls["a"])
		tx, commit := transaction(o.T, o.Pawl)
		in := o.Engine.In(tx)
		need[pawl.Task](o.T)(first(in.CancelTasks(o.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{ls["a"].ID}}})))
		need[pawl.Moved](o.T)(pawl.Complete(o.Context(), in, ls["c"].Fence(), []byte(`1`)))
		commit()
		o.state(task.ID, pawl.TaskCompleted)
		ctx, cancel := context.WithTimeout(o.Context(), 20*time.Second)
		defer cancel()
		if s := need[pawl.SweepStats](o.T)(o.Engine.Sweep(ctx)); s.GivenUp+s.Errors != 0 {
			o.Errorf("%d given up, %d errors", s.GivenUp, s.Errors)
		}
	})
}
