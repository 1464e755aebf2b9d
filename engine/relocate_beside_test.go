package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
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

// Effects that are reported beside a move stay reported, and open ones stay open: their leases move, and do not end.
func TestAMoveBesideEffects(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		beside := from.Another(engine.Options{})
		open := func(key string) (pawl.Lease, string) {
			need[pawl.Task](t)(pawl.Create(t.Context(), beside, pawl.NewTask{Type: key, Payload: json.RawMessage("0")}))
			l := leases(t, beside, pawl.ClaimRequest{WorkerID: "w", Types: []string{key}, LeaseSeconds: 3600}, 1)[0]
			call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", Key: key, RequestHash: "h"}
			return l, need[pawl.OpenedEffect](t)(beside.OpenEffect(t.Context(), call)).ID
		}
		done, reported := open("reported")
		_, left := open("open")
		moveAll(t, from, to, engine.Move{Namespace: namespace, Step: func(name string) {
			switch name {
			case "copied":
				need[pawl.EffectRecord](t)(beside.EffectDone(t.Context(), reported, pawl.EffectDoneCall{ItemID: done.ID, WorkerID: "w", Attempt: 1}))
				if _, err := first(beside.Complete(t.Context(), []pawl.CompleteCall{{Fence: done.Fence()}})); err != nil {
					t.Error(err)
				}
			case "cleared leases":
				err := from.Engine.DB().View(store.For(t.Context(), store.Background), func(ctx context.Context, tx store.Tx) error {
					n, err := store.Ints(ctx, tx, "SELECT COUNT(*) FROM pawl.effects WHERE state = 'unknown'")
					if err == nil && n[0] != 0 {
						t.Errorf("%d effects of the source are unknown", n[0])
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		}})
		for id, want := range map[string]pawl.EffectState{reported: pawl.EffectDone, left: pawl.EffectOpen} {
			if f := need[pawl.EffectRecord](t)(to.Engine.GetEffect(t.Context(), id)); f.State != want {
				t.Errorf("the effect %s is %s and not %s", f.Key, f.State, want)
			}
		}
		soundLog(t, to)
	})
}

// While a move fills a target, a program that has not learned of it writes nothing of the namespace there, and others write.
func TestATargetTakesNothingBesideAMove(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		made, l := work(t, from)
		beside := to.Another(engine.Options{})
		timetable := pawl.NewSchedule{Name: "nightly", Cron: "0 3 * * *", Task: pawl.NewTask{Type: "night"}}
		need[pawl.Schedule](t)(from.Service.PutSchedule(t.Context(), timetable))
		timetable.Cron = "0 4 * * *"
		moveAll(t, from, to, engine.Move{Namespace: namespace, Step: func(name string) {
			if name != "copied" {
				return
			}
			if _, err := beside.PutSchedule(t.Context(), timetable); pawl.CodeOf(err) != pawl.CodeUnavailable {
				t.Errorf("a schedule in the target: %v", err)
			}
			others := pawl.As(t.Context(), pawl.Caller{Namespace: "others"})
			_, err := beside.PutSchedule(others, timetable)
			if mine := namespace != ""; (err == nil) != mine {
				t.Errorf("a schedule of another namespace in the target: %v", err)
			}
		}})
		if _, err := to.Service.PutSchedule(t.Context(), timetable); err != nil {
			t.Errorf("a schedule after the move: %v", err)
		}
		if namespace != "" {
			if s := need[pawl.Schedule](t)(beside.GetSchedule(t.Context(), timetable.Name)); s.Cron != timetable.Cron {
				t.Errorf("a program without a server reads %+v", s)
			}
		}
		there(t, to, made, l)
	})
}

// Leases of other namespaces end while rows of the one that moves are refused.
func TestSweepsGoOnBesideAMove(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool { return from != to }
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		to.Advance(from.Now().Sub(to.Now()))
		beside := from.Another(engine.Options{})
		others := pawl.As(t.Context(), pawl.Caller{Namespace: "others"})
		var got pawl.Lease
		for _, ctx := range []context.Context{t.Context(), others} {
			need[pawl.Task](t)(pawl.Create(ctx, beside, pawl.NewTask{Type: "work", Payload: json.RawMessage("0")}))
			got = need[[]pawl.Lease](t)(beside.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"work"}, LeaseSeconds: 60}))[0]
		}
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(name string) {
			if name != "flipped" {
				return
			}
			from.Advance(time.Hour)
			if _, err := beside.Sweep(others); err != nil {
				t.Errorf("a sweep: %v", err)
			}
			if it := need[pawl.Item](t)(beside.GetItem(others, got.ID)); it.State == "leased" {
				t.Errorf("the lease of another namespace did not end: %s", it.State)
			}
		}})
	})
}

// Sweeps of the target remove nothing of a namespace that moves in, also what nothing refers to yet, and are no failures.
func TestSweepsOfATargetBesideAMove(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool { return from != to }
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		to.Advance(from.Now().Sub(to.Now()))
		need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "work"}))
		l := leases(t, from.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"work"}, LeaseSeconds: 3600}, 1)[0]
		snapshot, err := json.Marshal(strings.Repeat("word ", 20_000))
		if err != nil {
			t.Fatal(err)
		}
		save := func(e *engine.Engine, ctx context.Context, l pawl.Lease) {
			need[pawl.CheckpointRef](t)(first(e.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: l.Fence(),
				NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: "s", Snapshot: snapshot}}})))
		}
		save(from.Engine, t.Context(), l)
		looked := 0
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(name string) {
			if name != "copied blobs" && name != "copied messages" && name != "copied checkpoints" {
				return
			}
			looked++
			to.Advance(2 * pawl.DefaultRetainBlobs)
			if st := need[pawl.SweepStats](t)(to.Another(engine.Options{}).Sweep(t.Context())); st.Errors != 0 {
				t.Errorf("after %s: %d errors of the sweep", name, st.Errors)
			}
		}})
		if looked == 0 {
			t.Fatal("the move had no such step")
		}
		got := need[pawl.List[pawl.Checkpoint]](t)(to.Engine.ListCheckpoints(t.Context(), pawl.CheckpointFilter{ItemID: l.ID}))
		if len(got.Items) != 1 || string(got.Items[0].Snapshot) != string(snapshot) {
			t.Errorf("%d checkpoints in the target", len(got.Items))
		}
	})
}

// The doctor of neither side reports what is not whole yet, or not any more, while a namespace moves.
func TestTheDoctorBesideAMove(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool { return from != to }
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		f := &filling{t, from, t.Context()}
		f.fill()
		to.Advance(from.Now().Sub(to.Now()))
		sides := map[string]*engine.Engine{"copied ": to.Another(engine.Options{}), "cleared ": from.Another(engine.Options{})}
		looked := 0
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(name string) {
			for does, e := range sides {
				table := strings.TrimPrefix(name, does)
				if !slices.Contains([]string{"tasks", "items", "task_counters", "messages", "checkpoints", "task_events"}, table) {
					continue
				}
				looked++
				for _, b := range need[pawl.DoctorReport](t)(e.Doctor(t.Context(), pawl.DoctorCall{})).Breaches {
					t.Errorf("after %s: %+v", name, b)
				}
			}
		}})
		if looked < 12 {
			t.Errorf("the doctor has looked %d times", looked)
		}
	})
}

// A key that is reserved again in a later period leaves its old reservation without an item. Both change in a move, in any order.
func TestReservationsOfALaterPeriodMove(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool { return from == to }
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		ctx := t.Context()
		to.Advance(from.Now().Sub(to.Now()))
		need[pawl.Budget](t)(from.Engine.PutBudget(ctx, "eur", pawl.NewBudget{Unit: "EUR", Limit: 1000, Period: "day"}))
		need[pawl.Task](t)(pawl.Create(ctx, from.Engine, pawl.NewTask{Type: "pays"}))
		reserve := func(attempt int) {
			l := leases(t, from.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60}, 1)[0]
			for i := range 16 { // enough for each order of two rows
				need[pawl.Reserved](t)(from.Engine.ReserveBudget(ctx, "eur", pawl.ReserveCall{ItemID: l.ID, WorkerID: "w", Attempt: attempt, Amount: 5,
					Key: fmt.Sprint("k", i)}))
			}
			if attempt == 1 {
				need[pawl.Moved](t)(first(from.Engine.Release(ctx, []pawl.ReleaseCall{{Fence: l.Fence()}})))
			}
		}
		reserve(1)
		again := true
		moveAll(t, from, to, engine.Move{Step: func(name string) {
			if name == "copied" && again {
				again = false
				from.Elapse(25 * time.Hour)
				to.Advance(25 * time.Hour)
				reserve(2)
			}
		}})
	})
}
