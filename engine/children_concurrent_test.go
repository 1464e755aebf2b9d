package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Children are created, also unique and debounced ones, spawned and completed, while their
// parent waits for them and is then cancelled or deleted. No call fails for another reason than
// the parent's state, and no child outlives the parent.
func TestChildrenAgainstTheirParent(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		for n := range times(6, 300) {
			typ := fmt.Sprint("parent", n)
			l, ids := spawned(t, p.Engine, typ, 4)
			held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}}, 4)
			var wg sync.WaitGroup
			try := func(verb string, do func(ctx context.Context, svc pawl.Service) error, allowed ...pawl.Code) {
				for _, svc := range svcs {
					wg.Go(func() {
						err := do(context.Background(), svc)
						if code := pawl.CodeOf(err); err != nil && !slices.Contains(allowed, code) {
							t.Errorf("%s: %v", verb, err)
						}
					})
				}
			}
			for i := range 3 {
				child := pawl.NewTask{Type: "child of " + typ, ParentID: l.TaskID, Payload: fmt.Append(nil, i)}
				create := func(task pawl.NewTask) func(context.Context, pawl.Service) error {
					return func(ctx context.Context, svc pawl.Service) error {
						_, err := pawl.Create(ctx, svc, task)
						return err
					}
				}
				unique, late := child, child
				unique.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}
				late.Debounce = &pawl.Debounce{Key: "d", Seconds: 60}
				try("unique", create(unique), pawl.CodeConflict, pawl.CodeNotFound)
				try("debounce", create(late), pawl.CodeConflict, pawl.CodeNotFound)
				try("spawn", func(ctx context.Context, svc pawl.Service) error {
					_, err := first(svc.Spawn(ctx, []pawl.SpawnCall{{Fence: l.Fence(), Key: fmt.Sprint(i),
						Task: pawl.NewTask{Type: child.Type}}}))
					return err
				}, pawl.CodeConflict, pawl.CodeNotFound, pawl.CodeLeaseLost)
			}
			try("suspend", func(_ context.Context, svc pawl.Service) error {
				return awaitChildren(svc, l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureContinue})
			}, pawl.CodeConflict, pawl.CodeNotFound, pawl.CodeLeaseLost)
			for _, c := range held {
				try("complete", func(ctx context.Context, svc pawl.Service) error {
					_, err := first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: c.Fence(), Result: json.RawMessage(`1`)}}))
					return err
				}, pawl.CodeConflict, pawl.CodeNotFound, pawl.CodeLeaseLost)
			}
			end := pawl.TaskCall{TaskID: l.TaskID, Force: true}
			if n%2 == 0 {
				try("cancel", func(ctx context.Context, svc pawl.Service) error {
					_, err := first(svc.CancelTasks(ctx, []pawl.TaskCall{end}))
					return err
				}, pawl.CodeConflict)
			} else {
				try("delete", func(ctx context.Context, svc pawl.Service) error {
					_, err := first(svc.DeleteTasks(ctx, []pawl.TaskCall{end}))
					return err
				}, pawl.CodeNotFound)
			}
			wg.Wait()
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			left := need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(t.Context(),
				pawl.TaskFilter{Types: []string{"child of " + typ}, Page: pawl.Page{Limit: 100}}))
			for _, c := range left.Items {
				if !c.State.Ended() {
					t.Errorf("%s is %s, and its parent is gone", c.ID, c.State)
				}
			}
			if t.Failed() {
				return
			}
		}
	})
}

// A child is removed while an item is suspended for it: the suspend is refused, or the child counts
// as completed.
func TestAChildIsDeletedDuringTheSuspend(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		for n := range times(12, 500) {
			typ := fmt.Sprint("parent", n)
			l, ids := spawned(t, p.Engine, typ, 1)
			c := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}}, 1)[0]
			need[pawl.Moved](t)(first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: c.Fence()}})))
			var suspended error
			var wg sync.WaitGroup
			wg.Go(func() {
				suspended = awaitChildren(svcs[0], l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureContinue})
			})
			wg.Go(func() {
				_, err := first(svcs[1].DeleteTasks(context.Background(), []pawl.TaskCall{{TaskID: ids[0]}}))
				if err != nil {
					t.Errorf("delete: %v", err)
				}
			})
			wg.Wait()
			if suspended != nil {
				if pawl.CodeOf(suspended) != pawl.CodeNotFound {
					t.Fatal(suspended)
				}
				continue
			}
			got := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID)).Children
			if got.Ended != 1 || got.Failed != 0 || !got.Over || got.Items[0].State != pawl.TaskCompleted {
				t.Fatalf("round %d: the deleted child counts as %+v", n, got)
			}
		}
	})
}

// A task whose payload is replaced by others that have its unique key, beside creates of its
// children, a claim and a cancel. No call fails for another reason than the task's state.
func TestAUniqueTaskIsReplacedBesideItsChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		for n := range times(10, 300) {
			typ := fmt.Sprint("held", n)
			held := func(payload int) pawl.NewTask {
				return pawl.NewTask{Type: typ, Payload: fmt.Append(nil, payload),
					Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}}
			}
			parent := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, held(0)))
			var made atomic.Int32
			var wg sync.WaitGroup
			for i := range 4 {
				svc := svcs[i%2]
				wg.Go(func() {
					got, err := pawl.Create(context.Background(), svc, held(i+1))
					if err != nil && pawl.CodeOf(err) != pawl.CodeConflict {
						t.Errorf("replace: %v", err)
					}
					if err == nil && got.ID != parent.ID && n%3 < 2 {
						t.Errorf("another task than %s has the key: %s", parent.ID, got.ID)
					}
				})
				wg.Go(func() {
					child := pawl.NewTask{Type: "child", ParentID: parent.ID}
					if i > 1 { // a unique child, which takes another key first
						child.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: fmt.Sprint(n, i), OnConflict: pawl.OnConflictReplace}
					}
					_, err := pawl.Create(context.Background(), svc, child)
					if err == nil {
						made.Add(1)
					} else if pawl.CodeOf(err) != pawl.CodeConflict || n%3 < 2 {
						t.Errorf("child: %v", err)
					}
				})
			}
			switch n % 3 {
			case 1:
				wg.Go(func() {
					if _, err := svcs[1].Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}); err != nil {
						t.Errorf("claim: %v", err)
					}
				})
			case 2:
				wg.Go(func() {
					if err := cancelTask(svcs[1], parent.ID); err != nil {
						t.Errorf("cancel: %v", err)
					}
				})
			}
			wg.Wait()
			if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), parent.ID)); int32(got.Children) != made.Load() {
				t.Errorf("round %d: %d children are counted, %d were made", n, got.Children, made.Load())
			}
			if t.Failed() {
				return
			}
		}
		if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
			t.Errorf("%+v", breaches)
		}
	})
}

// A child that failed is counted after the parent is locked, not before: what holds the parent
// gets the wait too.
func TestTheParentIsLockedBeforeItsWait(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if p.Database == pawltest.SQLite {
			return // one transaction writes at a time
		}
		l, ids := spawned(t, p.Engine, "parent", 2)
		ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids}))
		no := false
		c := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of parent"}}, 1)[0]
		var wg sync.WaitGroup
		ok(t, p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			if err := store.LockTaskRow(ctx, tx, pawl.DefaultNamespace, l.TaskID); err != nil {
				return err
			}
			counting := make(chan struct{})
			wg.Go(func() {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, err := first(p.Engine.Fail(context.Background(), []pawl.FailCall{{Fence: c.Fence(), Retryable: &no,
						Error: pawl.Failure{Code: "no", Message: "no"}}}))
					if err != nil {
						t.Errorf("fail: %v", err)
					}
				}()
				waitForLock(t, p)
				close(counting)
				<-ended
			})
			<-counting
			_, err := tx.Exec(ctx, `SELECT 1 FROM `+p.Schema+`.child_waits FOR UPDATE NOWAIT`)
			return err
		}))
		wg.Wait()
		if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), l.TaskID)); got.State != pawl.TaskFailed {
			t.Errorf("the parent is %s", got.State)
		}
	})
}

// waitForLock returns when a transaction waits for a lock of the test's schema.
func waitForLock(t *testing.T, p *pawltest.Pawl) {
	for range 500 {
		waiting := 0
		err := p.Engine.DB().View(context.Background(), func(ctx context.Context, tx store.Tx) error {
			_, err := store.Row(ctx, tx, []any{&waiting}, `SELECT CAST(count(*) AS bigint) FROM pg_stat_activity
				WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, p.Schema)
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
		if waiting > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nothing waited for the parent")
}

// Many children end, some of them badly, while their parent is cancelled, deleted, retried or
// forked. Each child counts once, and the parent does not wait for ever.
func TestChildrenEndWhileTheirParentIsChanged(t *testing.T) {
	no := false
	bad := pawl.Failure{Code: "no", Message: "no"}
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		for n := range times(8, 400) {
			typ := fmt.Sprint("parent", n)
			l, ids := spawned(t, p.Engine, typ, 12)
			policy := []string{pawl.OnFailureFail, pawl.OnFailureContinue, pawl.OnFailureCancel}[n%3]
			ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids, OnFailure: policy}))
			var wg sync.WaitGroup
			for i, c := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}, Limit: 12}, 12) {
				wg.Go(func() {
					var err error
					if i%3 == 0 {
						_, err = first(svcs[i%2].Fail(context.Background(), []pawl.FailCall{{Fence: c.Fence(), Error: bad, Retryable: &no}}))
					} else {
						_, err = first(svcs[i%2].Complete(context.Background(), []pawl.CompleteCall{{Fence: c.Fence()}}))
					}
					if err != nil && !slices.Contains([]pawl.Code{pawl.CodeConflict, pawl.CodeNotFound, pawl.CodeLeaseLost}, pawl.CodeOf(err)) {
						t.Errorf("the end of a child: %v", err)
					}
				})
			}
			verb := []string{"cancel", "delete", "retry", "fork"}[n/3%4]
			for _, svc := range svcs {
				wg.Go(func() {
					call := []pawl.TaskCall{{TaskID: l.TaskID, Force: verb == "delete"}}
					var err error
					switch verb {
					case "cancel":
						_, err = first(svc.CancelTasks(context.Background(), call))
					case "delete":
						_, err = first(svc.DeleteTasks(context.Background(), call))
					case "retry":
						_, err = first(svc.RetryTasks(context.Background(), call))
					case "fork":
						_, err = first(svc.ForkTasks(context.Background(), []pawl.TaskFork{{TaskID: l.TaskID}}))
					}
					if err != nil && !slices.Contains([]pawl.Code{pawl.CodeConflict, pawl.CodeNotFound}, pawl.CodeOf(err)) {
						t.Errorf("%s: %v", verb, err)
					}
				})
			}
			wg.Wait()
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			task, err := p.Engine.GetTask(t.Context(), l.TaskID)
			if verb == "delete" {
				if pawl.CodeOf(err) != pawl.CodeNotFound {
					t.Errorf("after the delete: %+v, %v", task, err)
				}
				continue
			}
			ok(t, err)
			wait := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID)).Children
			item := need[pawl.Item](t)(p.Engine.GetItem(t.Context(), l.ID))
			if !task.State.Ended() && item.State != pawl.ItemQueued && (item.State != pawl.ItemFailed || policy != pawl.OnFailureFail) {
				t.Errorf("%s, %s: the parent is %s, and its item %s", verb, policy, task.State, item.State)
			}
			over := wait == nil || wait.Over || verb != "fork" || policy == pawl.OnFailureFail
			if !over || wait != nil && (wait.Ended > len(ids) || wait.Ended != len(wait.Items)) {
				t.Errorf("%s, %s: children %+v", verb, policy, wait)
			}
			if t.Failed() {
				return
			}
		}
	})
}
