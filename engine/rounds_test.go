package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// refusedOnly returns err, or nil if err is a conflict.
func refusedOnly(err error) error {
	if pawl.CodeOf(err) == pawl.CodeConflict {
		return nil
	}
	return err
}

// Two engines change one task at once, many times. Whichever is first, the outcome is one
// of the right ones and the rules hold (pawltest checks them).
func TestTwoEnginesChangeOneTask(t *testing.T) {
	seven := 7
	chained := []pawl.NewItem{{Input: []byte(`1`), Key: "a"}, {Input: []byte(`2`), Key: "b", After: []string{"a"}}}
	type pair = func(p pawl.Service, q pawl.Service, task pawl.Task) (func() error, func() error)
	for _, race := range []struct {
		name string
		make pawl.NewTask
		pair pair
		want func(now pawl.Task, states string) bool
	}{
		{"cancel and add to many", pawl.NewTask{Items: items(2)}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return cancelTask(p, task.ID) }, func() error { return refusedOnly(addTo(q, task.ID, oneMore)) }
		}, func(now pawl.Task, states string) bool {
			return states == "cancelled cancelled cancelled" || states == "cancelled cancelled cancelled cancelled"
		}},
		{"cancel and add to one", pawl.NewTask{}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return cancelTask(p, task.ID) }, func() error { return refusedOnly(addTo(q, task.ID, oneMore)) }
		}, func(now pawl.Task, states string) bool {
			return states == "cancelled cancelled" || states == "cancelled cancelled cancelled"
		}},
		{"add and add to one", pawl.NewTask{}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return addTo(p, task.ID, oneMore) }, func() error { return addTo(q, task.ID, oneMore) }
		}, func(now pawl.Task, states string) bool { return now.Items == 3 && now.ItemsOpen == 3 }},
		{"add while the item moves", pawl.NewTask{}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return addTo(p, task.ID, oneMore) }, func() error { return moveAbout(q, task) }
		}, func(now pawl.Task, states string) bool { return now.Items == 2 && now.ItemsOpen == 2 }},
		{"wait for what moves", pawl.NewTask{Items: chained[:1]}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return addTo(p, task.ID, pawl.NewItem{Input: []byte(`3`), After: []string{"a"}}) },
				func() error { return moveAbout(q, task) }
		}, func(now pawl.Task, states string) bool { return now.Items == 2 && now.ItemsOpen == 2 }},
		{"complete and reprioritize", pawl.NewTask{Items: chained}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return finishFirst(p, task) }, func() error {
				_, err := first(q.UpdateTasks(context.Background(), []pawl.TaskUpdate{{TaskID: task.ID, Priority: &seven}}))
				return err
			}
		}, func(now pawl.Task, states string) bool { return states == "in_progress completed queued" }},
		{"complete and wait for what waits", pawl.NewTask{Items: chained}, func(p, q pawl.Service, task pawl.Task) (func() error, func() error) {
			return func() error { return finishFirst(p, task) }, func() error {
				return addTo(q, task.ID, pawl.NewItem{Input: []byte(`3`), After: []string{"b"}})
			}
		}, func(now pawl.Task, states string) bool {
			return strings.Count(states, "completed")*strings.Count(states, "queued")*strings.Count(states, "waiting") == 1
		}},
	} {
		t.Run(race.name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				q := p.Another(engine.Options{})
				for n := range times(6, 1000) {
					spec := race.make
					spec.Type = fmt.Sprint("r", n)
					task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, spec))
					one, other := race.pair(p.Engine, q, task)
					a, b := started(one), started(other)
					if err := errors.Join(<-a, <-b); err != nil {
						t.Fatalf("round %d: %v", n, err)
					}
					need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context())) // the sweep handles a row that was locked
					for _, e := range need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID,
						Event: "updated"})).Items {
						if e.ItemID != "" {
							t.Errorf("round %d: a count was wrong: %s", n, e.Diff)
						}
					}
					now := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), task.ID))
					if got := states(t, p.Engine, task.ID); !race.want(now, got) {
						t.Fatalf("round %d: %s; %d items, %d open", n, got, now.Items, now.ItemsOpen)
					}
				}
			})
		})
	}
}

// moveAbout claims the task's item and releases it, a few times.
func moveAbout(svc pawl.Service, task pawl.Task) error {
	for range 4 {
		got, err := svc.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Types: []string{task.Type}})
		if err != nil {
			return err
		}
		for _, l := range got {
			if _, err := pawl.Release(context.Background(), svc, l.Fence()); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishFirst claims the claimable items of the task and completes them.
func finishFirst(svc pawl.Service, task pawl.Task) error {
	for {
		got, err := svc.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID})
		if err != nil {
			return err
		}
		if len(got) == 1 {
			return finish(svc, got[0].Fence())
		}
	}
}
