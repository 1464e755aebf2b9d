//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Three processes claim from queues with limits and fire a schedule, and are killed or frozen at
// random moments. No limit is exceeded, no rate, and no slot is lost; each tick makes one task.
// On SQLite none is frozen: a process that is frozen while it writes blocks all others.
func TestLimitsHoldWhileProcessesDie(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			w := &limitedWork{T: t, p: p, engines: []*engine.Engine{p.Engine}, until: time.Now().Add(time.Duration(times(5, 600)) * time.Second)}
			w.setLimits()
			need[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "tick", EverySeconds: 1,
				Overlap: pawl.OverlapAllow, CatchUp: pawl.CatchUpAll, Task: pawl.NewTask{Type: "tick"}}))
			var running sync.WaitGroup
			for range 3 {
				running.Go(func() {
					for time.Now().Before(w.until) {
						w.process(which == pawltest.Postgres)
					}
				})
			}
			running.Go(w.watch)
			running.Wait()
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() { _ = p.Engine.Run(ctx) })
			need[pawl.Schedule](t)(p.Service.PauseSchedule(t.Context(), "tick"))
			w.held()
			w.eachTickOnce()
			if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
				t.Errorf("%+v", breaches)
			}
			stop()
			running.Wait()
		})
	}
}

// process runs a worker process until it is killed. Perhaps it is frozen before, for longer than
// a lease.
func (w *limitedWork) process(freeze bool) {
	v := start(w.T, w.p, "limits", fmt.Sprint("PAWL_TEST_WORKERS=", times(5, 20)))
	time.Sleep(500*time.Millisecond + rand.N(time.Second))
	if freeze && rand.N(2) == 0 {
		_ = v.Process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Second + rand.N(time.Second))
		_ = v.Process.Signal(syscall.SIGCONT)
		time.Sleep(rand.N(500 * time.Millisecond))
	}
	_ = v.Process.Kill()
	for more := true; more; {
		_, more = v.read(w.T)
	}
	_ = v.Wait()
}

// eachTickOnce checks that the ticks of the schedule follow one another without a gap, and that
// each made a task of its own.
func (w *limitedWork) eachTickOnce() {
	w.Helper()
	var newer time.Time
	made := map[string]bool{}
	for f := (pawl.FiringFilter{Schedule: "tick", Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
		list := need[pawl.List[pawl.Firing]](w)(w.p.Service.ListFirings(w.Context(), f))
		for _, x := range list.Items {
			if x.Outcome != pawl.FiringCreated || made[x.TaskID] || !newer.IsZero() && !x.Tick.Equal(newer.Add(-time.Second)) {
				w.Errorf("the tick %v after %v: %+v", x.Tick, newer, x)
			}
			newer, made[x.TaskID] = x.Tick, true
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	tasks := 0
	for f := (pawl.TaskFilter{Types: []string{"tick"}, Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
		list := need[pawl.List[pawl.Task]](w)(w.p.Service.ListTasks(w.Context(), f))
		tasks += len(list.Items)
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	if tasks != len(made) || tasks < 3 {
		w.Errorf("%d ticks made %d tasks", len(made), tasks)
	}
}

// limitsUntilKilled is a process of limitedWork.
func limitsUntilKilled(e *engine.Engine) error {
	ctx, far := context.Background(), time.Now().Add(time.Hour)
	failed := make(chan error)
	go func() { failed <- e.Run(ctx) }()
	var workers int
	if _, err := fmt.Sscan(os.Getenv("PAWL_TEST_WORKERS"), &workers); err != nil {
		return err
	}
	for n := range workers {
		go func() {
			failed <- workAtRandom(ctx, e, fmt.Sprintf("pid%d-%d", os.Getpid(), n), far, new(atomic.Int64))
		}()
	}
	return <-failed
}
