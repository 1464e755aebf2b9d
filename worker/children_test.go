package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// spawn spawns children with the inputs 1 to n, and returns their ids, the last one first.
func spawn(ctx context.Context, n int) ([]string, error) {
	var ids []string
	for i := range n {
		c, err := pawl.Spawn(ctx, fmt.Sprint("child ", i+1), pawl.NewTask{Type: "double", Payload: fmt.Append(nil, i+1)})
		if err != nil {
			return nil, err
		}
		ids = append(ids, c.ID)
	}
	slices.Reverse(ids)
	return ids, nil
}

// sum waits for all of the children, and returns the sum of their results. Odd children may fail.
func sum(name string, wait pawl.ChildWait) func(context.Context, int) (int, error) {
	return func(ctx context.Context, n int) (int, error) {
		var err error
		if wait.IDs, err = spawn(ctx, n); err != nil {
			return 0, err
		}
		done, err := pawl.AwaitChildren(ctx, name, wait)
		if err != nil {
			return 0, err
		}
		total := 0
		for i, c := range done {
			if c.ID != wait.IDs[i] {
				return 0, pawl.Permanent(fmt.Errorf("result %d is that of %s", i, c.ID))
			}
			if c.State == pawl.TaskCompleted {
				var out int
				if err := json.Unmarshal(c.Result, &out); err != nil {
					return 0, err
				}
				total += out
			}
		}
		return total, nil
	}
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func doubleEven(_ context.Context, n int) (int, error) {
	if n%2 == 1 {
		return 0, pawl.Permanent(errors.New("odd"))
	}
	return 2 * n, nil
}

func TestAHandlerWaitsForItsChildren(t *testing.T) {
	for name, c := range map[string]struct {
		wait  pawl.ChildWait
		child func(context.Context, int) (int, error)
		state pawl.ItemState
		want  string
	}{
		"all":                    {pawl.ChildWait{}, double, pawl.ItemCompleted, "20"},
		"a failure fails":        {pawl.ChildWait{}, doubleEven, pawl.ItemFailed, ""},
		"a failure is no loss":   {pawl.ChildWait{Need: 2}, doubleEven, pawl.ItemCompleted, "12"},
		"failed ones have ended": {pawl.ChildWait{OnFailure: pawl.OnFailureContinue}, doubleEven, pawl.ItemCompleted, "12"},
		"any":                    {pawl.ChildWait{Need: pawl.NeedAny, OnFailure: pawl.OnFailureCancel}, doubleEven, pawl.ItemCompleted, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				task := p.Create(pawl.NewTask{Type: "sum", Payload: json.RawMessage(`4`), MaxAttempts: 1})
				startWorker(t, p, worker.Options{Concurrency: 1}, worker.Handle("sum", sum("children", c.wait)), worker.Handle("double", c.child))
				it := waitForState(t, p, task, c.state)
				if c.want != "" && !slices.Contains([]string{c.want, "12"}, string(it.Result)) || it.Failures > 1 {
					t.Errorf("%s, %d failures", it.Result, it.Failures)
				}
				if c.state == pawl.ItemFailed && it.Error.Code != pawl.FailedByChild {
					t.Errorf("failed with %+v", it.Error)
				}
			})
		})
	}
}

// The children that are left when a wait is lost are cancelled, and the handler goes on.
func TestTheOtherChildrenAreCancelled(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		handlers := []worker.Handler{worker.Handle("sum", sum("children", pawl.ChildWait{OnFailure: pawl.OnFailureCancel})),
			worker.Handle("double", func(ctx context.Context, n int) (int, error) { return doubleEven(ctx, 1) })}
		task := p.Create(pawl.NewTask{Type: "sum", Payload: json.RawMessage(`3`)})
		for range 3 { // the parent, a child that fails, the parent again
			pawltest.RunOne(t, p.Service, handlers...)
		}
		if it := only(t, p, task); it.State != pawl.ItemCompleted || string(it.Result) != "0" {
			t.Errorf("%+v", it)
		}
		l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{ParentIDs: []string{task.ID}})
		if err != nil {
			t.Fatal(err)
		}
		states := map[pawl.TaskState]int{}
		for _, c := range l.Items {
			states[c.State]++
		}
		if states[pawl.TaskFailed] != 1 || states[pawl.TaskCancelled] != 2 {
			t.Errorf("%v", states)
		}
	})
}

// Results that do not fit into one checkpoint are saved in parts.
func TestManyLargeResultsOfChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 40
		large := strings.Repeat("<", 10_000) // six bytes each in JSON as Go writes it
		runs := 0
		parent := worker.Handle("sum", func(ctx context.Context, _ json.RawMessage) (int, error) {
			ids, err := spawn(ctx, n)
			if err != nil {
				return 0, err
			}
			done, err := pawl.AwaitChildren(ctx, "all", pawl.ChildWait{IDs: ids})
			if err != nil {
				return 0, err
			}
			for i, c := range done {
				var got string
				if err := json.Unmarshal(c.Result, &got); err != nil || got != large || c.ID != ids[i] {
					return 0, pawl.Permanent(fmt.Errorf("result %d: %.20s, %v", i, c.Result, err))
				}
			}
			if runs++; runs == 1 {
				return 0, pawl.Snooze(0)
			}
			return len(done), nil
		})
		child := worker.Handle("double", func(context.Context, int) (string, error) { return large, nil })
		task := p.Create(pawl.NewTask{Type: "sum"})
		startWorker(t, p, worker.Options{}, parent, child)
		if it := waitForState(t, p, task, pawl.ItemCompleted); string(it.Result) != "40" || runs != 2 {
			t.Errorf("%s after %d runs", it.Result, runs)
		}
	})
}

// spawnRefused refuses every child with an error that is not about the lease.
type spawnRefused struct {
	pawl.Service
	err error
}

func (s spawnRefused) Spawn(context.Context, []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	return []pawl.Result[pawl.Task]{{Err: s.err}}, nil
}

// A refusal about a child or the parent reaches the handler, which decides what becomes of the
// item: the claim goes on.
func TestARefusalAboutAChildEndsNoClaim(t *testing.T) {
	spawns := func(ctx context.Context) error {
		_, err := pawl.Spawn(ctx, "key", pawl.NewTask{Type: "double"})
		return err
	}
	for name, c := range map[string]struct {
		refusal error
		call    func(context.Context) error
		want    pawl.Code
	}{
		"conflict":  {&pawl.Error{Code: pawl.CodeConflict, State: string(pawl.TaskFailed), Allowed: []string{}}, spawns, pawl.CodeConflict},
		"not found": {pawl.NotFound("task", "tsk_none"), spawns, pawl.CodeNotFound},
		"await": {nil, func(ctx context.Context) error {
			l, err := pawl.ItemFrom(ctx)
			if err == nil {
				_, err = pawl.AwaitChildren(ctx, "name", pawl.ChildWait{IDs: []string{l.TaskID}})
			}
			return err
		}, pawl.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				var svc pawl.Service = p.Service
				if c.refusal != nil {
					svc = spawnRefused{svc, c.refusal}
				}
				task := p.Create(pawl.NewTask{Type: "parent"})
				pawltest.RunOne(t, svc, worker.Handle("parent", func(ctx context.Context, _ json.RawMessage) (string, error) {
					err := c.call(ctx)
					if pawl.CodeOf(err) != c.want || ctx.Err() != nil {
						return "", pawl.Permanent(fmt.Errorf("%v, and the context has %v", err, context.Cause(ctx)))
					}
					return "went on", nil
				}))
				if it := only(t, p, task); it.State != pawl.ItemCompleted {
					t.Errorf("%+v, %+v", it, it.Error)
				}
			})
		})
	}
}
