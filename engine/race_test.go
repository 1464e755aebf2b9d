package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// The tests use two engines, so that the two calls are two transactions and not one
// group.
func TestTheLastTwoItemsFinishedAtOnceSettleOnce(t *testing.T) {
	ends := []struct {
		name  string
		verbs [2]func(pawl.Service, pawl.Fence) error
		want  pawl.TaskState
	}{
		{"both complete", [2]func(pawl.Service, pawl.Fence) error{finish, finish}, pawl.TaskCompleted},
		{"one fails", [2]func(pawl.Service, pawl.Fence) error{finish, ruin}, pawl.TaskFailed},
		{"both fail", [2]func(pawl.Service, pawl.Fence) error{ruin, ruin}, pawl.TaskFailed},
		{"one is cancelled", [2]func(pawl.Service, pawl.Fence) error{finish, drop}, pawl.TaskCompleted},
	}
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
		for n := 0; n < times(400, 10_000); n += 100 {
			end := ends[n/100%len(ends)]
			if n < times(240, 6000) {
				end = ends[0]
			}
			var calls []pawl.NewTask
			for i := range 100 {
				calls = append(calls,
					pawl.NewTask{Type: fmt.Sprint("race", n), Title: fmt.Sprint(i), Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}})
			}
			made := need[[]pawl.Result[pawl.Task]](t)(svcs[0].CreateTasks(t.Context(), calls))
			held := map[string][]pawl.Fence{}
			for _, l := range leases(t, svcs[0], pawl.ClaimRequest{WorkerID: "w", Types: []string{fmt.Sprint("race", n)}}, 200) {
				held[l.TaskID] = append(held[l.TaskID], l.Fence())
			}
			race(t, svcs, end.verbs, made, held)
			checkSettled(t, svcs[0], fmt.Sprint("race", n), end.want, end.name)
		}
	})
}

// race makes both engines end one item each of every task, in step.
func race(
	t *testing.T,
	svcs [2]pawl.Service,
	verbs [2]func(pawl.Service, pawl.Fence) error,
	made []pawl.Result[pawl.Task],
	held map[string][]pawl.Fence,
) {
	t.Helper()
	step := [2]chan bool{make(chan bool, 1), make(chan bool, 1)}
	var wg sync.WaitGroup
	for side := range 2 {
		wg.Go(func() {
			for _, r := range made {
				step[side] <- true // the engines wait for each other at every task
				<-step[1-side]
				if err := verbs[side](svcs[side], held[r.Value.ID][side]); err != nil {
					t.Errorf("task %s, item %d: %v", r.Value.ID, side, err)
				}
			}
		})
	}
	wg.Wait()
}

func finish(svc pawl.Service, f pawl.Fence) error {
	_, err := pawl.Complete(context.Background(), svc, f, []byte(`1`))
	return err
}

func ruin(svc pawl.Service, f pawl.Fence) error {
	no := false
	_, err := first(svc.Fail(context.Background(), []pawl.FailCall{{Fence: f, Error: pawl.Failure{Message: "no"}, Retryable: &no}}))
	return err
}

func drop(svc pawl.Service, f pawl.Fence) error {
	item, err := svc.GetItem(context.Background(), f.ItemID)
	if err == nil {
		_, err = first(svc.CancelTasks(context.Background(), []pawl.TaskCall{{TaskID: item.TaskID, ItemIDs: []string{f.ItemID}}}))
	}
	return err
}

// checkSettled checks that all tasks of a type ended as they should, once. A second
// settling would count in their version. The hash chains are checked at the end.
func checkSettled(t *testing.T, svc pawl.Service, typ string, want pawl.TaskState, what string) {
	t.Helper()
	list := need[pawl.List[pawl.Task]](t)(svc.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{typ}}))
	if len(list.Items) != 100 {
		t.Fatalf("%s: %d tasks", what, len(list.Items))
	}
	for _, task := range list.Items {
		if task.State != want || task.Version != 1 || task.ItemsOpen != 0 {
			t.Fatalf("%s: task %s is %s, version %d, %d open", what, task.ID, task.State, task.Version, task.ItemsOpen)
		}
	}
}
