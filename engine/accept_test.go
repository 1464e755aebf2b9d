package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// typeFixture is a Pawl database with one registered type that needs acceptance.
type typeFixture struct {
	*testing.T
	*pawltest.Pawl
}

func withType(t *testing.T, def string, hooks pawl.Hooks, fn func(o typeFixture)) {
	t.Helper()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"report": hooks}})
			o := typeFixture{t, p}
			var typ pawl.Type
			o.OK(json.Unmarshal([]byte(def), &typ))
			need[pawl.TypeRef](t)(first(p.Engine.PutTypes(t.Context(), []pawl.Type{typ})))
			fn(o)
		})
	}
}

// task creates a task of n items and claims all of them.
func (o typeFixture) task(n int) (pawl.Task, []pawl.Lease) {
	o.Helper()
	nt := pawl.NewTask{Type: "report", Payload: []byte(`{}`)}
	for i := range n {
		if n > 1 {
			nt.Items = append(nt.Items, pawl.NewItem{Input: fmt.Appendf(nil, "%d", i)})
		}
	}
	task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, nt))
	return task, leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: n}, n)
}

func (o typeFixture) submit(l pawl.Lease, result string) {
	o.Helper()
	need[pawl.Moved](o.T)(first(o.Engine.Submit(o.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(result)}})))
}

func (o typeFixture) state(taskID string, want pawl.TaskState) pawl.Task {
	o.Helper()
	t := need[pawl.Task](o.T)(o.Engine.GetTask(o.Context(), taskID))
	if t.State != want {
		o.Fatalf("the task is %s, not %s (error %v)", t.State, want, t.Error)
	}
	return t
}

func (o typeFixture) item(id string, want pawl.ItemState) pawl.Item {
	o.Helper()
	it := need[pawl.Item](o.T)(o.Engine.GetItem(o.Context(), id))
	if it.State != want {
		o.Fatalf("the item is %s, not %s", it.State, want)
	}
	return it
}

// events returns the names of a task's events, oldest first.
func (o typeFixture) events(taskID string) string {
	o.Helper()
	l := need[pawl.List[pawl.Event]](o.T)(
		o.Engine.ListEvents(o.Context(), pawl.EventFilter{TaskID: taskID, Asc: true, Page: pawl.Page{Limit: 1000}}))
	var names []string
	for _, e := range l.Items {
		names = append(names, e.Event)
	}
	return strings.Join(names, " ")
}

const strictReport = `{"name":"report","result_schema":{"type":"object","required":["title"],` +
	`"properties":{"title":{"type":"string"}}},"approval":{"mode":"manual"}}`

func TestAnApprovedTaskIsApplied(t *testing.T) {
	var mu sync.Mutex
	applies := map[string]int{}
	apply := func(_ context.Context, a pawl.Application) (pawl.Applied, error) {
		mu.Lock()
		defer mu.Unlock()
		applies[a.Task.ID]++
		return pawl.Applied{Result: []byte(`{"done":true}`), Diff: &pawl.Diff{Summary: fmt.Sprint(len(a.Items), " reports")}}, nil
	}
	withType(t, `{"name":"report","approval":{"mode":"manual"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
		for _, n := range []int{1, 3} {
			task, ls := o.task(n)
			for i, l := range ls {
				o.state(task.ID, []pawl.TaskState{pawl.TaskCheckedOut, pawl.TaskInProgress}[min(i, 1)])
				o.submit(l, `1`)
			}
			o.state(task.ID, pawl.TaskSubmitted)
			got := need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID, Comment: "fine"}})))
			if got.State != pawl.TaskCompleted || got.AppliedAt == nil || got.CompletedAt == nil || got.Version != 4 {
				o.Errorf("after the approval: %+v", got)
			}
			for _, l := range ls {
				if it := o.item(l.ID, pawl.ItemCompleted); it.AcceptedAt == nil {
					o.Error("no accepted_at")
				}
			}
			if r := need[pawl.TaskResult](o.T)(o.Engine.TaskResult(o.Context(), task.ID)); string(r.Payload) != `{"done":true}` {
				o.Errorf("result %s", r.Payload)
			}
			if diff := o.applied(task.ID); !strings.Contains(diff, fmt.Sprint(n, " reports")) {
				o.Errorf("applied: %s", diff)
			}
			mu.Lock()
			if applies[task.ID] != 1 {
				o.Errorf("it was applied %d times", applies[task.ID])
			}
			mu.Unlock()
		}
	})
}

// applied returns the diff of the only event applied of a task.
func (o typeFixture) applied(taskID string) string {
	o.Helper()
	l := need[pawl.List[pawl.Event]](o.T)(o.Engine.ListEvents(o.Context(), pawl.EventFilter{TaskID: taskID, Event: "applied"}))
	if len(l.Items) != 1 {
		o.Fatalf("%d events applied", len(l.Items))
	}
	return string(l.Items[0].Diff)
}

func TestAFailedApplyIsRetried(t *testing.T) {
	var mu sync.Mutex
	broken := map[string]bool{}
	withType(
		t,
		`{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`,
		pawl.Hooks{Apply: func(ctx context.Context, a pawl.Application) (pawl.Applied, error) {
			mu.Lock()
			defer mu.Unlock()
			if !broken[a.Task.ID] {
				broken[a.Task.ID] = true
				panic("half-way")
			}
			return pawl.Applied{}, nil
		}},
		func(o typeFixture) {
			task, ls := o.task(1)
			o.submit(ls[0], `1`)
			if f := o.state(task.ID, pawl.TaskFailed); f.FailedIn != "apply" || f.Error == nil || !strings.Contains(f.Error.Message, "half-way") {
				o.Errorf("failed as %+v, error %+v", f, f.Error)
			}
			o.item(ls[0].ID, pawl.ItemAccepted)
			need[pawl.Task](o.T)(pawl.Retry(o.Context(), o.Engine, task.ID))
			if d := o.state(task.ID, pawl.TaskCompleted); d.FailedIn != "" || d.Error != nil {
				o.Errorf("completed with %q %+v", d.FailedIn, d.Error)
			}
			if got := o.events(task.ID); got != "proposed leased submitted ready_for_approval approved accepted failed retried applied "+
				"completed completed" {
				o.Error(got)
			}
		},
	)
}

func TestTwoDecideAtOnce(t *testing.T) {
	withType(t, strictReport, pawl.Hooks{}, func(o typeFixture) {
		other := o.Another(engine.Options{})
		for range times(10, 200) {
			task, ls := o.task(1)
			o.submit(ls[0], `{"title":"a"}`)
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				wg.Go(func() {
					svc := []pawl.Service{o.Engine, other}[i%2]
					if i < 2 {
						_, errs[i] = first(svc.ApproveTasks(context.Background(), []pawl.ApproveCall{{TaskID: task.ID}}))
					} else {
						_, errs[i] = first(svc.RejectTasks(context.Background(), []pawl.RejectCall{{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "no",
							Message: "no"}}}}))
					}
				})
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				switch pawl.CodeOf(err) {
				case "":
					won++
				case pawl.CodeConflict:
				default:
					o.Errorf("%v", err)
				}
			}
			if won != 1 {
				o.Fatalf("%d of 4 decided", won)
			}
		}
	})
}

func TestADiffOfBeforeAndAfterGetsItsOperations(t *testing.T) {
	apply := func(_ context.Context, a pawl.Application) (done pawl.Applied, err error) {
		err = json.Unmarshal([]byte(`{"diff":`+string(a.Task.Payload)+`}`), &done)
		return done, err
	}
	withType(t, `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
		for name, c := range map[string]struct{ diff, want string }{
			"worked out": {`{"before":{"a":1,"l":[1,2]},"after":{"a":2,"l":[1],"n":null}}`, `{"before":{"a":1,"l":[1,2]},` +
				`"after":{"a":2,"l":[1],"n":null},"operations":[{"value":2,"op":"replace","path":"/a"},{"op":"remove","path":"/l/1"},` +
				`{"value":null,"op":"add","path":"/n"}],"counts":{"add":1,"remove":1,"replace":1}}`},
			"large numbers": {`{"before":12345678901234567890,"after":12345678901234567891}`, `{"before":12345678901234567890,` +
				`"after":12345678901234567891,"operations":[{"value":12345678901234567891,"op":"replace","path":""}],"counts":{"replace":1}}`},
			"nothing changed": {`{"before":{"a":1},"after":{"a":1}}`, `{"before":{"a":1},"after":{"a":1},"operations":[]}`},
			"said by who applied": {`{"before":1,"after":2,"operations":[{"op":"test","path":"","value":1}],"counts":{"pages":7}}`,
				`{"before":1,"after":2,"operations":[{"op":"test","path":"","value":1}],"counts":{"pages":7}}`},
			"before without after": {`{"summary":"gone","before":{"a":1}}`, `{"summary":"gone","before":{"a":1}}`},
		} {
			task := o.Create(pawl.NewTask{Type: "report", Payload: []byte(c.diff)})
			o.submit(o.Claim("report"), `1`)
			if got := o.applied(task.ID); got != c.want {
				o.Errorf("%s: %s", name, got)
			}
		}
	})
}

// A task whose results did not pass the check is not ready, and cannot be approved.
func TestWhatDidNotPassTheCheckIsNotApproved(t *testing.T) {
	refuse := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
		return []pawl.Complaint{{Code: "thin", Message: "thin"}}, nil
	}
	withType(t, strictReport, pawl.Hooks{Check: refuse}, func(o typeFixture) {
		task, ls := o.task(1)
		o.submit(ls[0], `{"title":"x"}`)
		_, err := first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}}))
		if pawl.CodeOf(err) != pawl.CodeConflict {
			o.Errorf("approve: %v", err)
		}
		o.state(task.ID, pawl.TaskSubmitted)
	})
}

// A call that is undone in a caller's transaction, because the key of its provenance was used, calls
// no hook after the commit.
func TestWhatIsUndoneCallsNoHookAfterwards(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			checks, applied := 0, 0
			hooks := pawl.Hooks{
				Check: func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
					if checks++; checks%2 == 1 {
						return []pawl.Complaint{{Code: "thin", Message: "thin"}}, nil
					}
					return nil, nil
				},
				Apply:      func(context.Context, pawl.Application) (pawl.Applied, error) { return pawl.Applied{}, nil },
				AfterApply: func(context.Context, pawl.Task, pawl.Applied) { applied++ },
			}
			p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"report": hooks}})
			ctx := t.Context()
			need[pawl.TypeRef](t)(first(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalAuto},
				Apply: pawl.Apply{Mode: pawl.ApplyGo}}})))
			task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "report"}))
			submit := func(svc pawl.Service) error {
				l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
				keyed := pawl.WithProvenance(ctx, pawl.Provenance{IdempotencyKey: "k"})
				_, err := first(svc.Submit(keyed, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}}))
				return err
			}
			ok(t, submit(p.Engine))
			need[pawl.Task](t)(first(p.Engine.RejectTasks(ctx, []pawl.RejectCall{{TaskID: task.ID, AllowRework: true,
				Errors: []pawl.Complaint{{Code: "thin", Message: "thin"}}}})))
			tx := beginOwn(t, p)
			if err := submit(tx); !errors.Is(err, pawl.ErrKeyReused) {
				t.Errorf("submitted with a key that was used: %v", err)
			}
			ok(t, tx.commit())
			tx.Committed()
			if applied != 0 {
				t.Errorf("%d calls of AfterApply", applied)
			}
		})
	}
}
