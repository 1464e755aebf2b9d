package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// caller makes tasks and works on them, in the source until it is told that they were moved, and in the
// target from then on.
type caller struct {
	t        *testing.T
	ctx      context.Context
	name     string
	at       *engine.Engine
	to       *engine.Engine
	moved    bool
	made     []string       // tasks whose creation was answered
	finished map[string]int // attempts of items whose completion was answered
}

// follow reports whether a call is to be made again, because of the move.
func (c *caller) follow(err error) (again bool) {
	switch {
	case err == nil:
		return false
	case errors.Is(err, pawl.ErrMoved):
		if c.moved {
			c.t.Errorf("%s: the target says that it was moved: %v", c.name, err)
			return false
		}
		c.at, c.moved = c.to, true
		return true
	case errors.Is(err, pawl.ErrUnavailable):
		time.Sleep(5 * time.Millisecond)
		return true
	}
	c.t.Errorf("%s: %v", c.name, err)
	return false
}

// round makes a task, claims one and completes it. A call without an answer is repeated.
func (c *caller) round(n int) {
	typ := "work"
	for {
		task, err := pawl.Create(c.ctx, c.at, pawl.NewTask{Type: typ, Payload: json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(c.name, n)))})
		if c.follow(err) {
			continue
		}
		if err == nil {
			c.made = append(c.made, task.ID)
		}
		break
	}
	var got []pawl.Lease
	for {
		list, err := c.at.Claim(c.ctx, pawl.ClaimRequest{WorkerID: c.name, Types: []string{typ}, Limit: 1, LeaseSeconds: 600})
		if c.follow(err) {
			continue
		}
		got = list
		break
	}
	for _, l := range got {
		for {
			_, err := first(c.at.Complete(c.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: json.RawMessage("1")}}))
			if c.follow(err) {
				continue
			}
			if err == nil {
				c.finished[l.ID] = l.Attempt
			}
			break
		}
	}
}

// Calls beside a move lose nothing: what was answered before it is in the target, and each item is completed once.
func TestCallsBesideAMove(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		run, stop := context.WithCancel(t.Context())
		defer stop()
		var running, calling sync.WaitGroup
		server, second := from.Another(engine.Options{}), to.Another(engine.Options{})
		for _, e := range []*engine.Engine{server, second} {
			running.Go(func() { _ = e.Run(run) })
		}
		over := make(chan struct{})
		var failed atomic.Bool
		var callers []*caller
		for i := range 3 {
			c := &caller{t: t, ctx: t.Context(), name: fmt.Sprint("w", i), at: server, to: second, finished: map[string]int{}}
			callers = append(callers, c)
			calling.Go(func() {
				pace := time.NewTicker(10 * time.Millisecond)
				defer pace.Stop()
				for n := 0; ; n++ {
					c.round(n)
					<-pace.C
					select {
					case <-over:
						if c.moved || failed.Load() {
							return
						}
					default:
					}
				}
			})
		}
		if namespace != "" { // what others do does not keep a namespace from moving
			others := pawl.As(t.Context(), pawl.Caller{Namespace: "others"})
			calling.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						if _, err := pawl.Create(others, server, pawl.NewTask{Type: "other", Payload: json.RawMessage("0")}); err != nil {
							t.Errorf("a call in another namespace: %v", err)
							return
						}
					}
				}
			})
		}
		for range 50 {
			need[pawl.Task](t)(pawl.Create(t.Context(), server, pawl.NewTask{Type: "work", Payload: json.RawMessage("0")}))
		}
		_, err := from.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: namespace})
		failed.Store(err != nil)
		close(over)
		if err != nil {
			t.Errorf("%v: %v", err, errors.Unwrap(err))
			stop()
		}
		calling.Wait()
		stop()
		running.Wait()
		if err != nil {
			return
		}
		counted := 0
		for _, c := range callers {
			for _, id := range c.made {
				if _, err := to.Service.GetTask(t.Context(), id); err != nil {
					t.Errorf("the task %s of %s: %v", id, c.name, err)
				}
			}
			counted += len(c.made)
			for id, attempt := range c.finished {
				it, err := to.Service.GetItem(t.Context(), id)
				if err != nil || it.State != "completed" || it.Attempt != attempt || it.LastWorkerID != c.name {
					t.Errorf("the item %s of %s, attempt %d: %s %d %s %v", id, c.name, attempt, it.State, it.Attempt, it.LastWorkerID, err)
				}
			}
		}
		if counted == 0 {
			t.Error("no call was made")
		}
	})
}

// A move copies rows that take the place of others in a unique index.
func TestAMoveBesideReplacedRows(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		const n = 8
		beside := from.Another(engine.Options{})
		var made []string
		create := func(i int) {
			n := pawl.NewTask{Type: "same", Payload: json.RawMessage(fmt.Sprint(i)), Dedupe: pawl.Dedupe{All: true}}
			task := need[pawl.Task](t)(pawl.Create(t.Context(), beside, n))
			made = append(made, task.ID)
		}
		for i := range n {
			create(i)
		}
		moveAll(t, from, to, engine.Move{Namespace: namespace, Step: func(name string) {
			if name != "copied tasks" {
				return
			}
			for i := range n {
				need[pawl.Task](t)(pawl.Cancel(t.Context(), beside, made[i], ""))
				create(i)
			}
		}})
		for _, id := range made {
			if _, err := to.Service.GetTask(t.Context(), id); err != nil {
				t.Errorf("the task %s: %v", id, err)
			}
		}
		soundLog(t, to)
	})
}
