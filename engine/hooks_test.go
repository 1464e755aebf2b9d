package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// Run tries a task whose check fails, or whose hook the process lacks, later each time. A process with the hook takes it at
// once; so does any process when the hook was taken back alone. Doctor warns of a task that no process tries.
func TestAStepThatCannotBeTakenIsTriedLaterEachTime(t *testing.T) {
	calls := struct {
		sync.Mutex
		n map[string]int
	}{n: map[string]int{}}
	hooks := pawl.Hooks{
		Check: func(_ context.Context, task pawl.Task, _ []pawl.Item) ([]pawl.Complaint, error) {
			calls.Lock()
			defer calls.Unlock()
			calls.n[task.ID]++
			return nil, errors.New("no network")
		},
		AutoApprove: func(context.Context, pawl.Task, []pawl.Item) (bool, error) { return false, nil },
	}
	withType(t, `{"name":"report","approval":{"mode":"auto"}}`, hooks, func(o typeFixture) {
		called := func(id string) int {
			calls.Lock()
			defer calls.Unlock()
			return calls.n[id]
		}
		plain := o.Another(engine.Options{})
		begun, _ := plain.Spy()
		minute := func() int32 { // of a pass each 5 s
			before := begun()
			for range 12 {
				o.Advance(5 * time.Second)
				o.OK(o.Engine.AdvanceOwed(o.Context()))
				o.OK(plain.AdvanceOwed(o.Context()))
			}
			return begun() - before
		}
		idle := minute()
		task, ls := o.task(1)
		need[pawl.Moved](o.T)(first(plain.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}})))
		o.OK(o.Engine.AdvanceOwed(o.Context()))
		if n := called(task.ID); n != 1 {
			o.Fatalf("the process with the hook has called it %d times", n)
		}
		for range 5 {
			minute()
		}
		n := called(task.ID)
		if n < 4 || n > 8 {
			o.Errorf("the check was called %d times in five minutes", n)
		}
		if tried := minute() + minute() - 2*idle; tried > 4 {
			o.Errorf("the process without the hook tried %d times in two minutes", tried)
		}
		o.sweep()
		if called(task.ID) < n+1 {
			o.Error("a sweep has not called the check")
		}
		for range 12 { // no process with the hook runs any more
			o.Advance(time.Minute)
			o.OK(plain.AdvanceOwed(o.Context()))
		}
		report := need[pawl.DoctorReport](o.T)(o.Engine.Doctor(o.Context(), pawl.DoctorCall{}))
		told := func(w pawl.Warning) bool { return w.Code == "no_hook" && strings.Contains(w.Detail, "report") }
		if !slices.ContainsFunc(report.Warnings, told) {
			o.Errorf("warnings: %+v", report.Warnings)
		}
		o.Another(engine.Options{Hooks: map[string]pawl.Hooks{"report": {Without: []string{"Check"}}}})
		o.OK(plain.AdvanceOwed(o.Context()))
		if o.state(task.ID, pawl.TaskSubmitted).ReadyForApproval {
			o.Error("the hook AutoApprove was taken back too")
		}
		o.Another(engine.Options{Hooks: map[string]pawl.Hooks{"report": {Without: []string{"AutoApprove"}}}})
		o.OK(plain.AdvanceOwed(o.Context()))
		o.state(task.ID, pawl.TaskCompleted)
	})
}

// A check that failed does not delay the step that is owed after the task was rejected.
func TestAFailedCheckDoesNotDelayOtherSteps(t *testing.T) {
	hooks := pawl.Hooks{Check: func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
		return nil, errors.New("no network")
	}}
	withType(t, `{"name":"report","approval":{"mode":"manual"}}`, hooks, func(o typeFixture) {
		task, ls := o.task(1)
		need[pawl.Moved](o.T)(first(o.Engine.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}})))
		o.OK(o.Engine.AdvanceOwed(o.Context()))
		reject := pawl.RejectCall{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}
		need[pawl.Task](o.T)(first(o.Another(engine.Options{}).RejectTasks(o.Context(), []pawl.RejectCall{reject})))
		o.OK(o.Exec("UPDATE pawl.task_counters SET todo = 1")) // as if it had ended before the last items
		o.OK(o.Engine.AdvanceOwed(o.Context()))
		if n := o.count("SELECT COUNT(*) FROM pawl.task_counters WHERE todo = 1"); n != 0 {
			o.Error("the step after the rejection waits for the next check")
		}
	})
}

func TestWithoutIsChecked(t *testing.T) {
	check := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) { return nil, nil }
	for _, h := range []pawl.Hooks{
		{Without: []string{"Apply"}}, {Check: check, Without: []string{"Check"}},
		{BeforeApply: func(context.Context, pawl.Application) error { return nil }},
		{AfterApply: func(context.Context, pawl.Task, pawl.Applied) {}},
	} {
		_, err := engine.OpenWith(t.Context(), "sqlite:"+t.TempDir()+"/db", engine.Options{Hooks: map[string]pawl.Hooks{"report": h}})
		if pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%v: %v", h.Without, err)
		}
	}
}

// Tasks that the hook Apply failed to apply are a group of failures, which is found and retried as one of items.
func TestTasksThatAHookFailedAreAGroupOfFailures(t *testing.T) {
	apply := func(context.Context, pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{}, errors.New("port 5432 is closed")
	}
	withType(t, `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
		ids := map[string]bool{}
		for n := range 3 {
			task, ls := o.task(1 + n%2)
			for _, l := range ls {
				o.submit(l, `1`)
			}
			o.state(task.ID, pawl.TaskFailed)
			ids[task.ID] = true
		}
		list := func() []pawl.FailureGroup {
			return need[pawl.List[pawl.FailureGroup]](o.T)(o.Engine.ListFailures(o.Context(), pawl.FailureFilter{})).Items
		}
		groups := list()
		if len(groups) != 1 {
			o.Fatalf("groups: %+v", groups)
		}
		g := groups[0]
		if g.Type != "report" || g.Count != 3 || g.Failed != 3 || g.Error != "port <n> is closed" || g.ItemID != "" || !ids[g.TaskID] {
			o.Errorf("the group: %+v", g)
		}
		found := need[pawl.List[pawl.Task]](o.T)(o.Engine.ListTasks(o.Context(), pawl.TaskFilter{Failure: g.Failure})).Items
		if len(found) != 3 {
			o.Errorf("its tasks: %+v", found)
		}
		call := pawl.BulkCall{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{Failure: g.Failure}}
		bulk := need[pawl.Task](o.T)(o.Engine.Bulk(o.Context(), call))
		o.sweep()
		if r := bulkResult(o.T, o.Pawl, bulk.ID); r.Changed != 3 {
			o.Errorf("the retry: %+v", r)
		}
		if left := list(); len(left) != 1 || left[0].Count != 3 {
			o.Errorf("they failed again: %+v", left)
		}
	})
}

// A task that its check complains about, or whose check fails each time, is undecided, and expires.
func TestATaskThatIsNotReadyExpires(t *testing.T) {
	for name, failed := range map[string]error{"complaints": nil, "failing": errors.New("no answer")} {
		t.Run(name, func(t *testing.T) {
			check := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
				return []pawl.Complaint{{Code: "thin", Message: "it is too thin"}}, failed
			}
			def := `{"name":"report","acceptance":true,"approval":{"mode":"manual","expires_seconds":3600,"on_expiry":"reject"}}`
			withType(t, def, pawl.Hooks{Check: check}, func(o typeFixture) {
				task, ls := o.task(1)
				need[pawl.Moved](o.T)(first(o.Engine.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}})))
				for range 3 { // a check that fails is repeated
					o.Advance(19 * time.Minute)
					need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
					o.state(task.ID, pawl.TaskSubmitted)
				}
				o.Advance(4 * time.Minute)
				need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
				o.state(task.ID, pawl.TaskRejected)
			})
		})
	}
}
