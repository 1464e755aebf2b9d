//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testserver"
	"github.com/pawl-work/pawl/pawltest"
)

// limitedProcesses is limitedWork whose workers are in three other processes.
type limitedProcesses struct {
	*limitedWork
	at       pawltest.Pawl // the URL and the schema, for new processes
	postgres bool
	killed   atomic.Uint64
}

// Three processes, each a server with workers, claim from queues with limits, spend budgets and
// fire a schedule. They are killed at random moments; on PostgreSQL they are frozen too, and the
// database fails over. No limit, rate or budget is exceeded, and no slot or reservation is lost;
// each tick makes one task. On SQLite none is frozen: a process that is frozen while it writes
// blocks all others.
func TestLimitsHoldWhileProcessesDie(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			w := &limitedProcesses{limitedWork: &limitedWork{T: t, seed: limitedSeed(t)}, postgres: which == pawltest.Postgres}
			var failOver func()
			if w.postgres {
				failOver = w.replicate()
			} else {
				p := pawltest.OpenReal(t, which)
				w.at, w.engines = pawltest.Pawl{URL: p.URL, Schema: p.Schema}, []*engine.Engine{p.Engine}
			}
			w.until = time.Now().Add(time.Duration(times(4, 600)) * time.Second)
			w.setLimits()
			need[pawl.Schedule](t)(w.engines[0].CreateSchedule(t.Context(), pawl.NewSchedule{Name: "tick", EverySeconds: 1,
				Overlap: pawl.OverlapAllow, CatchUp: pawl.CatchUpAll, Task: pawl.NewTask{Type: "tick"}}))
			var running sync.WaitGroup
			for range 3 {
				running.Go(func() {
					for time.Now().Before(w.until) {
						w.process()
					}
				})
			}
			running.Go(w.watch)
			running.Go(w.operate)
			if failOver != nil {
				running.Go(failOver)
			}
			running.Wait()
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() { _ = w.engines[0].Run(ctx) })
			until(t, "a tick makes a task", func() bool {
				return len(need[pawl.List[pawl.Task]](t)(w.engines[0].ListTasks(ctx, pawl.TaskFilter{Types: []string{"tick"}})).Items) > 0
			})
			need[pawl.Schedule](t)(w.engines[0].PauseSchedule(t.Context(), "tick"))
			w.held()
			w.eachTickOnce()
			if breaches := need[[]engine.Breach](t)(w.engines[0].Check(t.Context())); len(breaches) > 0 {
				t.Errorf("%+v", breaches)
			}
			t.Logf("%d processes were killed", w.killed.Load())
			stop()
			running.Wait()
		})
	}
}

// replicate opens a database with a synchronous standby. The function that it returns kills or
// freezes the primary and promotes the standby: once, in long runs each minute.
func (w *limitedProcesses) replicate() func() {
	primary, standby := replicated(w.T)
	w.use(primary, standby)
	return func() {
		rnd := rand.New(rand.NewPCG(w.seed, 1))
		every := time.Duration(times(2, 60)) * time.Second
		for again := true; again; {
			time.Sleep(every)
			end := primary.Stop
			if rnd.IntN(2) == 0 {
				end = primary.Freeze
			}
			again = time.Until(w.until) > every
			primary, standby = w.promote(standby, end, again)
		}
	}
}

// promote ends a primary and promotes its standby. With again, the new primary gets a standby.
func (w *limitedProcesses) promote(standby *testserver.Server, end func() error, again bool) (primary, next *testserver.Server) {
	w.moving.Lock()
	defer w.moving.Unlock()
	need[struct{}](w)(struct{}{}, end())
	need[struct{}](w)(struct{}{}, standby.Promote(w.Context()))
	primary, next = standby, standby
	if again {
		next = synchronousStandby(w.T, primary)
	}
	w.use(primary, next)
	return primary, next
}

// use opens a primary and its standby. Processes that start from now on use them.
func (w *limitedProcesses) use(primary, standby *testserver.Server) {
	w.Helper()
	u, other := need[*url.URL](w)(url.Parse(primary.URL)), need[*url.URL](w)(url.Parse(standby.URL))
	if standby != primary {
		u.Host += "," + other.Host
	}
	q := u.Query()
	q.Set("target_session_attrs", "read-write")
	q.Set("statement_timeout", "3000")
	q.Set("connect_timeout", "2")
	u.RawQuery = q.Encode()
	e := need[*engine.Engine](w)(engine.Open(w.Context(), u.String()))
	w.Cleanup(func() { _ = e.Close() })
	w.at.URL, w.engines = u.String(), []*engine.Engine{e}
}

// process runs a worker process until it is killed. Perhaps it is frozen before, for longer than
// a lease.
func (w *limitedProcesses) process() {
	n := w.killed.Add(1)
	rnd := rand.New(rand.NewPCG(w.seed, n))
	w.moving.RLock()
	v := start(w.T, &w.at, "limits", fmt.Sprint("PAWL_TEST_WORKERS=", times(6, 22)), fmt.Sprint("PAWL_TEST_SEED=", w.seed+n))
	_, ready := v.read(w.T)
	w.moving.RUnlock()
	var reading sync.WaitGroup
	reading.Go(func() {
		for more := ready; more; {
			var e entry
			if e, more = v.read(w.T); e.Verb == "remove" {
				w.remove(e.Item)
			}
		}
	})
	time.Sleep(500*time.Millisecond + time.Duration(rnd.IntN(1000))*time.Millisecond)
	if w.postgres && rnd.IntN(2) == 0 {
		_ = v.Process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Second + time.Duration(rnd.IntN(1000))*time.Millisecond)
		_ = v.Process.Signal(syscall.SIGCONT)
		time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
	}
	_ = v.Process.Kill()
	reading.Wait()
	_ = v.Wait()
}

// eachTickOnce checks that the ticks of the schedule follow one another without a gap, and that
// each made a task of its own or is recorded as missed.
func (w *limitedProcesses) eachTickOnce() {
	w.Helper()
	var newer time.Time
	made := map[string]bool{}
	for f := (pawl.FiringFilter{Schedule: "tick", Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
		list := need[pawl.List[pawl.Firing]](w)(w.engines[0].ListFirings(w.Context(), f))
		for _, x := range list.Items {
			end := x.Tick.Add(time.Second)
			if x.Until != nil {
				end = *x.Until
			}
			if !newer.IsZero() && !end.Equal(newer) {
				w.Errorf("between %v and %v there is no record", end, newer)
			}
			newer = x.Tick
			if x.Outcome == pawl.FiringMissed {
				continue
			}
			if x.Outcome != pawl.FiringCreated || made[x.TaskID] {
				w.Errorf("the tick %v: %+v", x.Tick, x)
			}
			made[x.TaskID] = true
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	tasks := 0
	for f := (pawl.TaskFilter{Types: []string{"tick"}, Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
		list := need[pawl.List[pawl.Task]](w)(w.engines[0].ListTasks(w.Context(), f))
		tasks += len(list.Items)
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	if tasks != len(made) || tasks < times(1, 3) {
		w.Errorf("%d ticks made %d tasks", len(made), tasks)
	}
}

// limitsUntilKilled is a process of limitedProcesses.
func limitsUntilKilled(e *engine.Engine) error {
	ctx, far := context.Background(), time.Now().Add(time.Hour)
	workers, err := strconv.Atoi(os.Getenv("PAWL_TEST_WORKERS"))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv("PAWL_TEST_SEED"), 10, 64)
	if err != nil {
		return err
	}
	write(entry{Verb: "ready"})
	failed := make(chan error)
	go func() { failed <- e.Run(ctx) }()
	for n := range workers {
		r := &randomWorker{Engine: e, name: fmt.Sprintf("pid%d-%d", os.Getpid(), n), rnd: rand.New(rand.NewPCG(seed, uint64(n))), until: far,
			taken: new(atomic.Int64), remove: func(task string) { write(entry{Item: task, Verb: "remove"}) }, outages: true}
		go func() { failed <- r.work(ctx) }()
	}
	return <-failed
}
