package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
)

// spawned returns the lease of a parent's item and the ids of n children.
func spawned(t *testing.T, svc pawl.Service, typ string, n int) (pawl.Lease, []string) {
	t.Helper()
	need[pawl.Task](t)(pawl.Create(t.Context(), svc, pawl.NewTask{Type: typ}))
	l := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, LeaseSeconds: 600}, 1)[0]
	var ids []string
	for some := range slices.Chunk(make([]int, n), 1000) {
		tasks := make([]pawl.NewTask, len(some))
		for i := range tasks {
			tasks[i] = pawl.NewTask{Type: "child of " + typ, ParentID: l.TaskID}
		}
		for _, r := range need[[]pawl.Result[pawl.Task]](t)(svc.CreateTasks(t.Context(), tasks)) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			ids = append(ids, r.Value.ID)
		}
	}
	return l, ids
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func awaitChildren(svc pawl.Service, l pawl.Lease, w pawl.ChildWait) error {
	_, err := first(svc.Suspend(context.Background(), []pawl.SuspendCall{{Fence: l.Fence(), Children: &w}}))
	return err
}

// Children end while the item is suspended for them, in other engines: the end is either seen by
// the suspend, or it finds the wait.
func TestAChildThatEndsDuringTheSuspendIsNotLost(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [3]pawl.Service{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		for n := range times(15, 500) {
			typ := fmt.Sprint("parent", n)
			l, ids := spawned(t, p.Engine, typ, 2)
			held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}}, 2)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := awaitChildren(svcs[2], l, pawl.ChildWait{IDs: ids}); err != nil {
					t.Errorf("suspend: %v", err)
				}
			})
			for i, c := range held {
				wg.Go(func() {
					if _, err := first(svcs[i].Complete(context.Background(), []pawl.CompleteCall{{Fence: c.Fence()}})); err != nil {
						t.Errorf("complete: %v", err)
					}
				})
			}
			wg.Wait()
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 1)
		}
	})
}

// The suspend has stored the wait and is not committed, while the last child completes and is
// looked for.
func TestAChildEndsBeforeTheSuspendCommits(t *testing.T) {
	p, svcs := onPostgres(t)
	l, ids := spawned(t, p.Engine, "parent", 1)
	child := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of parent"}}, 1)[0]
	g := newGate(t, p)
	g.close("INSERT INTO awaited_children (child_id, item_id) VALUES (id($1), id($2))", ids[0], l.ID) // the suspend waits for its end
	suspended := started(func() error { return awaitChildren(svcs[0], l, pawl.ChildWait{IDs: ids}) })
	g.waiting(1)
	if _, err := first(svcs[1].Complete(t.Context(), []pawl.CompleteCall{{Fence: child.Fence()}})); err != nil {
		t.Fatal(err)
	}
	g.open()
	if err := <-suspended; err != nil {
		t.Fatal(err)
	}
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"parent"}}, 1)
}

// An item goes on from a wait with on_failure = cancel, and waits again, before the other children
// are cancelled.
func TestTheCancelsOfAWaitBesideTheNextOne(t *testing.T) {
	p, svcs := onPostgres(t)
	l, ids := spawned(t, p.Engine, "parent", 5)
	ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids[:3], OnFailure: pawl.OnFailureCancel}))
	var failing pawl.Lease
	for _, c := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of parent"}, Limit: 5}, 5) {
		if c.TaskID == ids[0] {
			failing = c
		}
	}
	g := newGate(t, p)
	g.close("SELECT id FROM tasks WHERE id = id($1) FOR UPDATE", min(ids[1], ids[2]))
	no := false
	_, err := first(svcs[0].Fail(t.Context(), []pawl.FailCall{{Fence: failing.Fence(), Retryable: &no}}))
	ok(t, err) // the next pass cancels the locked child
	l = leases(t, svcs[1], pawl.ClaimRequest{WorkerID: "w", Types: []string{"parent"}}, 1)[0]
	ok(t, awaitChildren(svcs[1], l, pawl.ChildWait{IDs: ids[3:], OnFailure: pawl.OnFailureCancel}))
	g.open()
	need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
	for i, id := range ids[1:] {
		if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), id)); (got.State == pawl.TaskCancelled) != (i < 2) {
			t.Errorf("child %d is %s", i+1, got.State)
		}
	}
}

// Items of one task spawn the same keys at the same time.
func TestAKeyHasOneChild(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Items: items(2)}))
		held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 2}, 2)
		for n := range times(12, 300) {
			var ids [2]string
			var wg sync.WaitGroup
			for i, l := range held {
				wg.Go(func() {
					c, err := first(svcs[i].Spawn(context.Background(),
						[]pawl.SpawnCall{{Fence: l.Fence(), Key: fmt.Sprint(n), Task: pawl.NewTask{Type: "child"}}}))
					if ids[i] = c.ID; err != nil {
						t.Errorf("spawn: %v", err)
					}
				})
			}
			wg.Wait()
			if ids[0] != ids[1] {
				t.Fatalf("key %d has the children %q", n, ids)
			}
		}
	})
}

// A fan-out: each end of a child costs the same, however many there are.
func TestManyChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		n := times(400, 10_000)
		l, ids := spawned(t, p.Engine, "parent", n)
		if err := awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids}); err != nil {
			t.Fatal(err)
		}
		began := clock.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					held, err := p.Engine.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of parent"}, Limit: 100})
					if err != nil || len(held) == 0 {
						return
					}
					calls := make([]pawl.CompleteCall, len(held))
					for i := range held {
						calls[i] = pawl.CompleteCall{Fence: held[i].Fence(), Result: []byte(`1`)}
					}
					if _, err := p.Engine.Complete(context.Background(), calls); err != nil {
						t.Errorf("complete: %v", err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d children ended in %s", n, clock.Now().Sub(began))
		leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"parent"}}, 1)
		state := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID))
		if state.Children == nil || state.Children.Ended != n || len(state.Children.Items) != n {
			t.Errorf("resume has not %d children: %+v", n, state.Children)
		}
	})
}

// The process that completed a child died before it counted the child: a pass counts it. A pass
// goes on with a cancel, too.
func TestAPassCountsChildrenThatEnded(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l, ids := spawned(t, p.Engine, "parent", 2)
		if err := awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureContinue}); err != nil {
			t.Fatal(err)
		}
		ok(t, p.Exec("UPDATE pawl.awaited_children SET state = 'completed'")) // their ends are not counted
		for _, c := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of parent"}, Limit: 2}, 2) {
			need[pawl.Moved](t)(first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: c.Fence()}})))
		}
		ok(t, p.Exec("UPDATE pawl.awaited_children SET state = NULL"))
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		state := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID))
		if state.Children.Ended != 2 || !state.Children.Over {
			t.Errorf("after the pass: %+v", state.Children)
		}
		child := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "late", ParentID: l.TaskID}))
		ok(t, p.Exec("UPDATE pawl.parents SET todo = 1"))
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), child.ID)); got.State != pawl.TaskCancelled {
			t.Errorf("the child is %s", got.State)
		}
	})
}
