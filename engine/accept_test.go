package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

func TestARefusedResultLeavesTheLease(t *testing.T) {
	withType(t, strictReport, pawl.Hooks{}, func(o typeFixture) {
		task, ls := o.task(1)
		_, err := first(o.Engine.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte(`{"title":7}`)}}))
		if fs := pawl.FieldsOf(err); pawl.CodeOf(err) != pawl.CodeInvalid || len(fs) != 1 || fs[0].Pointer != "/result/title" {
			o.Fatalf("refused by %v", err)
		}
		if it := o.item(ls[0].ID, pawl.ItemLeased); it.Error == nil || it.Error.Code != "refused" {
			o.Errorf("the item's error is %+v", it.Error)
		}
		o.submit(ls[0], `{"title":"x"}`)
		if it := o.item(ls[0].ID, pawl.ItemSubmitted); it.Error != nil {
			o.Errorf("the error stays: %+v", it.Error)
		}
		if v := o.state(task.ID, pawl.TaskSubmitted); v.Version != 1 {
			o.Errorf("version %d", v.Version)
		}
		if got := o.events(task.ID); got != "proposed leased submitted ready_for_approval" {
			o.Error(got)
		}
		if _, err := first(o.Engine.Complete(o.Context(), []pawl.CompleteCall{{Fence: ls[0].Fence()}})); pawl.CodeOf(err) != pawl.CodeConflict {
			o.Errorf("complete: %v", err)
		}
	})
}

func TestAnApprovedTaskIsApplied(t *testing.T) {
	for n := range 2 {
		t.Run(fmt.Sprint("items", 1+2*n), func(t *testing.T) {
			applies, tasks := 0, 0
			var mu sync.Mutex
			t.Cleanup(func() {
				if applies != tasks {
					t.Errorf("%d tasks applied %d times", tasks, applies)
				}
			})
			withType(
				t,
				`{"name":"report","approval":{"mode":"manual"},"apply":{"mode":"go"}}`,
				pawl.Hooks{Apply: func(ctx context.Context, a pawl.Application) (pawl.Applied, error) {
					mu.Lock()
					defer mu.Unlock()
					applies++
					return pawl.Applied{Result: []byte(`{"done":true}`), Diff: &pawl.Diff{Summary: fmt.Sprint(len(a.Items), " reports")}}, nil
				}},
				func(o typeFixture) {
					mu.Lock()
					tasks++
					mu.Unlock()
					task, ls := o.task(1 + 2*n)
					for _, l := range ls {
						o.state(task.ID, pawl.TaskState(
							[]string{"checked_out", "in_progress"}[min(1, slices.IndexFunc(ls, func(x pawl.Lease) bool { return x.ID == l.ID }))]))
						o.submit(l, `1`)
					}
					o.state(task.ID, pawl.TaskSubmitted)
					got := need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(pawl.As(o.Context(), pawl.Caller{ActorType: "user", ActorID: "eve"}),
						[]pawl.ApproveCall{{TaskID: task.ID, Comment: "fine"}})))
					if got.State != pawl.TaskCompleted || got.AppliedAt == nil || got.CompletedAt == nil || got.Version != 4 {
						o.Errorf("after the approval: %+v", got)
					}
					for _, l := range ls {
						if it := o.item(l.ID, pawl.ItemCompleted); it.AcceptedAt == nil {
							o.Error("no accepted_at")
						}
					}
					r := need[pawl.TaskResult](o.T)(o.Engine.TaskResult(o.Context(), task.ID))
					if string(r.Payload) != `{"done":true}` {
						o.Errorf("result %s", r.Payload)
					}
					l := need[pawl.List[pawl.Event]](o.T)(o.Engine.ListEvents(o.Context(), pawl.EventFilter{TaskID: task.ID, Event: "applied"}))
					if len(l.Items) != 1 || !strings.Contains(string(l.Items[0].Diff), fmt.Sprint(len(ls), " reports")) {
						o.Errorf("applied: %+v", l.Items)
					}
					_, err := first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}}))
					var e *pawl.Error
					if !errors.As(err, &e) || e.Code != pawl.CodeConflict || e.Holder != "user/eve" || e.State != "completed" {
						o.Errorf("a second approval: %+v", err)
					}
				},
			)
		})
	}
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

func TestAWorkerApplies(t *testing.T) {
	withType(t, `{"name":"report","acceptance":true,"apply":{"mode":"item","max_attempts":1}}`, pawl.Hooks{}, func(o typeFixture) {
		task, ls := o.task(2)
		for _, l := range ls {
			o.submit(l, `1`)
		}
		o.state(task.ID, pawl.TaskApproved)
		leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "any", Limit: 10}, 0)
		l := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "hand", Types: []string{"report.apply"}}, 1)[0]
		need[pawl.Moved](o.T)(first(o.Engine.Fail(o.Context(), []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "disk full"}}})))
		if f := o.state(task.ID, pawl.TaskFailed); f.FailedIn != "apply" || f.Error.Message != "disk full" {
			o.Errorf("failed as %+v", f)
		}
		need[pawl.Task](o.T)(pawl.Retry(o.Context(), o.Engine, task.ID))
		o.state(task.ID, pawl.TaskApproved)
		l = leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "hand", Types: []string{"report.apply"}}, 1)[0]
		need[pawl.Moved](o.T)(first(
			o.Engine.Complete(o.Context(), []pawl.CompleteCall{{Fence: l.Fence(), Result: []byte(`{"result":[1,2],"diff":{"summary":"two"}}`)}})))
		o.state(task.ID, pawl.TaskCompleted)
		if r := need[pawl.TaskResult](o.T)(o.Engine.TaskResult(o.Context(), task.ID)); string(r.Payload) != `[1,2]` {
			o.Errorf("result %s", r.Payload)
		}
	})
}

func TestRejectedForReworkAndForGood(t *testing.T) {
	withType(t, strictReport, pawl.Hooks{}, func(o typeFixture) {
		for n := range 2 {
			task, ls := o.task(1 + 2*n)
			for _, l := range ls {
				o.submit(l, `{"title":"a"}`)
			}
			why := []pawl.Complaint{{Code: "thin", Message: "too thin", Field: "/title"}}
			_, err := first(o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{{TaskID: task.ID}}))
			if pawl.CodeOf(err) != pawl.CodeInvalid {
				o.Errorf("without reasons: %v", err)
			}
			for round := range pawl.MaxRework {
				got := need[pawl.Task](o.T)(first(
					o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{{TaskID: task.ID, Errors: why, AllowRework: true, ItemIDs: []string{ls[0].ID}}})))
				if want := []pawl.TaskState{pawl.TaskQueued, pawl.TaskInProgress}[n]; got.State != want {
					o.Errorf("back to %s, not %s", got.State, want)
				}
				if _, err := first(o.Engine.Submit(o.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(),
					Result: []byte(`{"title":"late"}`)}})); pawl.CodeOf(
					err,
				) != pawl.CodeLeaseLost {
					o.Errorf("the old claim hands in: %v", err)
				}
				ls[0] = leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w2", Limit: 10}, 1)[0]
				if it := o.item(ls[0].ID, pawl.ItemLeased); it.Rework != round+1 || it.Error == nil || it.Error.Message != "too thin" {
					o.Errorf("the next worker reads rework %d, %+v", it.Rework, it.Error)
				}
				o.submit(ls[0], `{"title":"b"}`)
				o.state(task.ID, pawl.TaskSubmitted)
			}
			if _, err := first(o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{{TaskID: task.ID, Errors: why, AllowRework: true,
				ItemIDs: []string{ls[0].ID}}})); pawl.CodeOf(
				err,
			) != pawl.CodeConflict {
				o.Errorf("sent back once too often: %v", err)
			}
			got := need[pawl.Task](o.T)(first(o.Engine.RejectTasks(o.Context(), []pawl.RejectCall{{TaskID: task.ID, Errors: why}})))
			if got.State != pawl.TaskRejected || got.Error == nil {
				o.Errorf("for good: %s, %+v", got.State, got.Error)
			}
			for _, l := range ls {
				o.item(l.ID, pawl.ItemRejected)
			}
		}
	})
}

func TestParts(t *testing.T) {
	const def = `{"name":"report","approval":{"mode":"manual"},"assembly":{"mode":"concat"},"parts":[{"key":"head","required":true,` +
		`"schema":{"type":"string"}},{"key":"rows","repeatable":true}]}`
	withType(t, def, pawl.Hooks{}, func(o typeFixture) {
		_, ls := o.task(1)
		put := func(key string, seq *int, payload string) (pawl.ItemPart, error) {
			return first(o.Engine.SubmitParts(o.Context(), []pawl.PartCall{{Fence: ls[0].Fence(), Key: key, Seq: seq, Payload: []byte(payload)}}))
		}
		one, two := 1, 2
		need[pawl.ItemPart](o.T)(put("rows", &two, `[3]`))
		a := need[pawl.ItemPart](o.T)(put("rows", &one, `[1,2]`))
		if again := need[pawl.ItemPart](o.T)(put("rows", &one, `[1,2]`)); again.ID != a.ID {
			o.Error("the same again is another part")
		}
		if _, err := put("rows", nil, `[]`); pawl.CodeOf(err) != pawl.CodeInvalid {
			o.Errorf("no seq: %v", err)
		}
		if _, err := put("tail", nil, `1`); pawl.CodeOf(err) != pawl.CodeInvalid {
			o.Errorf("unknown key: %v", err)
		}
		if _, err := put("head", nil, `1`); pawl.CodeOf(err) != pawl.CodeInvalid {
			o.Errorf("not fitting: %v", err)
		}
		finish := func(mode string) error {
			_, err := first(o.Engine.Finalize(o.Context(), []pawl.FinalizeCall{{Fence: ls[0].Fence(), Mode: mode}}))
			return err
		}
		if err := finish(""); pawl.CodeOf(err) != pawl.CodeInvalid {
			o.Errorf("finalized with a rejected part: %v", err)
		}
		need[pawl.ItemPart](o.T)(put("head", nil, `"good"`))
		if _, err := put("head", nil, `2`); pawl.CodeOf(err) != pawl.CodeInvalid {
			o.Errorf("not fitting: %v", err)
		}
		it := o.item(ls[0].ID, pawl.ItemInProgress)
		if string(it.PartsState) != `{"head":{"status":"validated","count":1},"rows":{"status":"validated","count":2}}` {
			o.Errorf("parts_state %s", it.PartsState)
		}
		o.OK(finish(""))
		it = o.item(ls[0].ID, pawl.ItemSubmitted)
		if string(it.AssembledResult) != `{"head":"good","rows":[1,2,3]}` || string(it.Result) != string(it.AssembledResult) {
			o.Errorf("assembled %s", it.AssembledResult)
		}
		if _, err := put("head", nil, `"late"`); pawl.CodeOf(err) != pawl.CodeConflict {
			o.Errorf("a part after finalize: %v", err)
		}
		all := need[pawl.List[pawl.ItemPart]](o.T)(o.Engine.ListParts(o.Context(), pawl.PartFilter{ItemID: ls[0].ID, All: true}))
		var kept []string
		for _, p := range all.Items {
			kept = append(kept, fmt.Sprint(p.Key, " ", p.Status, " ", p.SupersededAt != nil))
		}
		if got := strings.Join(kept, ", "); got != "rows validated false, rows validated false, head rejected true, head validated false, "+
			"head rejected true" {
			o.Error(got)
		}
	})
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

func TestAnApprovalThatNobodyGave(t *testing.T) {
	withType(
		t,
		`{"name":"report","approval":{"mode":"manual","expires_seconds":60,"by":["user/boss"],"on_expiry":"escalate",`+
			`"escalate_to":["user/deputy"]}}`,
		pawl.Hooks{},
		func(o typeFixture) {
			task, ls := o.task(1)
			o.submit(ls[0], `1`)
			as := func(who string) error {
				_, err := first(
					o.Engine.ApproveTasks(pawl.As(o.Context(), pawl.Caller{ActorType: "user", ActorID: who}), []pawl.ApproveCall{{TaskID: task.ID}}))
				return err
			}
			if err := as("deputy"); pawl.CodeOf(err) != pawl.CodeForbidden {
				o.Errorf("before the escalation: %v", err)
			}
			o.Advance(time.Minute)
			need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
			need[pawl.SweepStats](o.T)(o.Engine.Sweep(o.Context()))
			o.OK(as("deputy"))
			if got := o.events(task.ID); strings.Count(got, "approval_expired") != 1 || strings.Count(got, "escalated") != 1 {
				o.Error(got)
			}
		},
	)
}

func TestAThousandItemsAreApprovedAndAppliedTogether(t *testing.T) {
	withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{}, func(o typeFixture) {
		task, ls := o.task(1000)
		for _, l := range ls {
			o.submit(l, `1`)
		}
		need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}})))
		o.state(task.ID, pawl.TaskCompleted)
	})
}

func TestADiffOfBeforeAndAfterGetsItsOperations(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			apply := func(context.Context, pawl.Application) (done pawl.Applied, err error) {
				return done, json.Unmarshal([]byte(`{"diff":`+c.diff+`}`), &done)
			}
			withType(t, `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
				task, ls := o.task(1)
				o.submit(ls[0], `1`)
				l := need[pawl.List[pawl.Event]](o.T)(o.Engine.ListEvents(o.Context(), pawl.EventFilter{TaskID: task.ID, Event: "applied"}))
				if len(l.Items) != 1 || string(l.Items[0].Diff) != c.want {
					o.Errorf("applied: %+v", l.Items)
				}
			})
		})
	}
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
