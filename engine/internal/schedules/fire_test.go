package schedules_test

import (
	"context"
	"errors"
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

// outcomes lists what became of a schedule's ticks, oldest first.
func outcomes(t testing.TB, svc pawl.Service, name string) (out []pawl.FiringOutcome) {
	t.Helper()
	list := pawltest.Must[pawl.List[pawl.Firing]](t)(svc.ListFirings(t.Context(), pawl.FiringFilter{Schedule: name}))
	for _, f := range list.Items {
		out = append([]pawl.FiringOutcome{f.Outcome}, out...)
	}
	return out
}

// A process that lacks the hook of a schedule's type fires the other schedules. One that has
// the hook fires it later, and no tick is lost.
func TestAScheduleWhoseHookIsElsewhereStopsNoOther(t *testing.T) {
	withHook(t, func(o hooked) {
		for _, s := range []pawl.NewSchedule{{Name: "hooked", EverySeconds: 3600, Task: pawl.NewTask{Type: "report"}},
			{Name: "plain", EverySeconds: 3600, Task: pawl.NewTask{Type: "a"}}} {
			pawltest.Must[pawl.Schedule](o)(o.Engine.CreateSchedule(o.Context(), s))
		}
		without := o.Another(engine.Options{})
		o.Advance(time.Hour)
		pawltest.Must[pawl.SweepStats](o)(without.Sweep(o.Context()))
		s := pawltest.Must[pawl.Schedule](o)(without.GetSchedule(o.Context(), "hooked"))
		if got := outcomes(o, without, "plain"); len(got) != 1 || got[0] != pawl.FiringCreated {
			o.Errorf("the other schedule: %v", got)
		}
		if got := outcomes(o, without, "hooked"); len(got) != 0 || s.Error == nil || s.Error.Code != string(pawl.CodeUnavailable) {
			o.Errorf("without the hook: %v, %+v", got, s.Error)
		}
		if next := pawltest.Must[pawl.Ticked](o)(without.Tick(o.Context())).NextAt; next == nil || next.After(o.Now().Add(pawl.ScheduleGrace/2)) {
			o.Errorf("the next tick is to be at %v, now %v: the hooked one rests for half of its grace", next, o.Now())
		}
		o.Advance(pawl.ScheduleGrace - time.Second)
		pawltest.Must[pawl.SweepStats](o)(o.Engine.Sweep(o.Context()))
		s = pawltest.Must[pawl.Schedule](o)(o.Engine.GetSchedule(o.Context(), "hooked"))
		if got := outcomes(o, o.Engine, "hooked"); len(got) != 1 || got[0] != pawl.FiringCreated || s.Error != nil {
			o.Errorf("with the hook: %v, %+v", got, s.Error)
		}
	})
}

// The doctor warns of a schedule that nothing has fired for long.
func TestWarningOfALateSchedule(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		pawltest.Must[pawl.Schedule](t)(p.Engine.CreateSchedule(t.Context(),
			pawl.NewSchedule{Name: "hourly", EverySeconds: 3600, Task: pawl.NewTask{Type: "a"}}))
		warned := func() (n int) {
			for _, w := range pawltest.Must[[]engine.Warning](t)(p.Engine.Warnings(t.Context())) {
				if w.Code == "schedule_late" {
					n++
				}
			}
			return n
		}
		p.Advance(time.Hour + time.Minute)
		if n := warned(); n != 0 {
			t.Errorf("after a minute: %d warnings", n)
		}
		p.Advance(10 * time.Minute)
		if n := warned(); n != 1 {
			t.Errorf("after eleven minutes: %d warnings", n)
		}
		pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if n := warned(); n != 0 {
			t.Errorf("after it was fired: %d warnings", n)
		}
	})
}

// A server without the hook of a schedule's type, which looks first at each tick, delays no
// server that has it: each tick makes one task. It writes why it rests once for each tick.
func TestAServerWithoutTheHookDelaysNoOther(t *testing.T) {
	withHook(t, func(o hooked) {
		pawltest.Must[pawl.Schedule](o)(o.Engine.CreateSchedule(o.Context(), pawl.NewSchedule{Name: "hooked", EverySeconds: 60,
			Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "report"}}))
		without := o.Another(engine.Options{})
		version := func() (n int64) {
			query, _ := pawltest.SQL("SELECT version FROM pawl.schedules WHERE name = 'hooked'")
			o.OK(o.Engine.DB().View(o.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, query)
				return err
			}))
			return n
		}
		const minutes = 5
		for n := range minutes {
			o.Advance(time.Minute)
			before := version()
			for range 3 {
				pawltest.Must[pawl.SweepStats](o)(without.Sweep(o.Context()))
			}
			if got := version() - before; got != 1 {
				o.Errorf("minute %d: the server without the hook wrote the schedule %d times", n, got)
			}
			pawltest.Must[pawl.SweepStats](o)(o.Engine.Sweep(o.Context()))
			if got := outcomes(o, o.Engine, "hooked"); len(got) != n+1 || got[n] != pawl.FiringCreated {
				o.Errorf("minute %d: %v", n, got)
			}
		}
		o.Advance(time.Minute)
		pawltest.Must[pawl.SweepStats](o)(without.Sweep(o.Context()))
		before := version()
		o.Advance(pawl.ScheduleGrace / 2)
		pawltest.Must[pawl.SweepStats](o)(without.Sweep(o.Context()))
		if version() != before {
			o.Error("the server without the hook wrote the same error again")
		}
		tasks := pawltest.Must[pawl.List[pawl.Task]](o)(o.Engine.ListTasks(o.Context(), pawl.TaskFilter{}))
		if len(tasks.Items) != minutes {
			o.Errorf("%d tasks, want %d", len(tasks.Items), minutes)
		}
	})
}

// A stored tick that the rule no longer has, because the data of its zone changed, is missed,
// and the schedule goes on.
func TestATickThatTheRuleNoLongerHas(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "s", Cron: "0 * * * *",
			Task: pawl.NewTask{Type: "a"}}))
		if err := p.Exec(`UPDATE pawl.schedules SET next_tick = next_tick - 600000000, next_at = next_at - 600000000`); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
		defer stop()
		p.Advance(s.Next[0].Add(-10 * time.Minute).Sub(p.Now()))
		pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(ctx))
		if got := outcomes(t, p.Service, "s"); len(got) != 1 || got[0] != pawl.FiringMissed {
			t.Errorf("%v", got)
		}
		p.Advance(10 * time.Minute)
		pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(ctx))
		if got := outcomes(t, p.Service, "s"); len(got) != 2 || got[1] != pawl.FiringCreated {
			t.Errorf("%v", got)
		}
	})
}

// A schedule that is resumed after the clock went back has no tick a second time, and one whose
// stored next tick has been fired already goes on with the one after it.
func TestATickComesOnceAlsoIfTheClockGoesBack(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "s", EverySeconds: 60,
			Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "a"}}))
		sweepAt := func(at time.Time, want int) {
			p.Advance(at.Sub(p.Now()))
			pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
			tasks := pawltest.Must[pawl.List[pawl.Task]](t)(p.Service.ListTasks(t.Context(), pawl.TaskFilter{}))
			if n := len(outcomes(t, p.Service, "s")); n != want || len(tasks.Items) != want {
				t.Errorf("at %s: %d firings, %d tasks, want %d", at, n, len(tasks.Items), want)
			}
		}
		sweepAt(s.Next[0], 1)
		sweepAt(s.Next[1], 2)
		p.Advance(-100 * time.Second)
		pawltest.Must[pawl.Schedule](t)(p.Service.PauseSchedule(t.Context(), "s"))
		again := pawltest.Must[pawl.Schedule](t)(p.Service.ResumeSchedule(t.Context(), "s"))
		if !again.Next[0].Equal(s.Next[2]) {
			t.Errorf("the next tick is %s, want %s", again.Next[0], s.Next[2])
		}
		sweepAt(s.Next[2], 3)
		if err := p.Exec(`UPDATE pawl.schedules SET next_tick = last_tick, next_at = last_tick`); err != nil {
			t.Fatal(err)
		}
		sweepAt(s.Next[2], 3)
		sweepAt(s.Next[3], 4)
	})
}

// The records of ticks are removed in time also where no next tick closes them: of schedules that
// have ended, that are deleted, and that are paused and run by hand.
func TestFiringsAreRemovedWithoutANextTick(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		count := func(query string) (n int) {
			t.Helper()
			if err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				query, _ := pawltest.SQL(query)
				_, err := store.Row(ctx, tx, []any{&n}, query)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		at := p.Now().Add(time.Minute)
		for _, s := range []pawl.NewSchedule{{Name: "once", At: &at}, {Name: "gone", EverySeconds: 60}, {Name: "by-hand", EverySeconds: 3600}} {
			s.Task.Type = "a"
			pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), s))
		}
		pawltest.Must[pawl.Schedule](t)(p.Service.PauseSchedule(t.Context(), "by-hand"))
		p.Advance(time.Minute)
		pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		ran := pawltest.Must[pawl.Schedule](t)(p.Service.RunSchedule(t.Context(), "by-hand"))
		pawltest.Must[[]pawl.Result[pawl.Task]](t)(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: *ran.LastTaskID}}))
		pawltest.Must[pawl.Schedule](t)(p.Service.RunSchedule(t.Context(), "by-hand"))
		if n := count(`SELECT COUNT(*) FROM pawl.firings WHERE open = 1`); n != 3 {
			t.Errorf("%d firings are open, want those of once, gone and the second by hand", n)
		}
		if err := p.Service.DeleteSchedule(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		if n := count(`SELECT COUNT(*) FROM pawl.firings WHERE open = 1`); n != 2 {
			t.Errorf("%d firings are open after the delete", n)
		}
		p.Advance(pawl.DefaultRetainFirings + time.Minute)
		pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		if n := count(`SELECT COUNT(*) FROM pawl.firings`); n != 1 {
			t.Errorf("%d records are left, want the open one of the paused schedule", n)
		}
	})
}

// The database keeps microseconds. A tick that is earlier than the rule's time by less would be
// due again after it was fired.
func TestAScheduleForATimeWithNanosecondsFiresOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		at := p.Now().Add(time.Minute).Truncate(time.Microsecond).Add(789 * time.Nanosecond)
		s := pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(),
			pawl.NewSchedule{Name: "once", At: &at, Task: pawl.NewTask{Type: "a"}}))
		if want := at.Truncate(time.Microsecond); !s.At.Equal(want) {
			t.Errorf("at is %v, want %v", s.At, want)
		}
		for range 3 {
			p.Advance(time.Minute)
			pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		}
		if tasks := pawltest.Must[pawl.List[pawl.Task]](t)(p.Service.ListTasks(t.Context(), pawl.TaskFilter{})); len(tasks.Items) != 1 {
			t.Errorf("%d tasks", len(tasks.Items))
		}
		if s = pawltest.Must[pawl.Schedule](t)(p.Service.GetSchedule(t.Context(), "once")); len(s.Next) > 0 || s.Error != nil {
			t.Errorf("after it: next %v, error %v", s.Next, s.Error)
		}
	})
}

// A schedule that another call changes between the look at it and its lock is looked at again.
func TestAScheduleIsRunWhileItIsFired(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	ctx, run := t.Context(), sync.Once{}
	s := pawltest.Must[pawl.Schedule](t)(p.Engine.CreateSchedule(ctx,
		pawl.NewSchedule{Name: "s", EverySeconds: 60, Task: pawl.NewTask{Type: "a"}}))
	p.Advance(s.Next[0].Sub(p.Now()))
	var made pawl.Schedule
	e := p.Another(engine.Options{Statement: func(query string) {
		if strings.Contains(query, "pawl.schedules s") && strings.Contains(query, "@skip") {
			run.Do(func() { made = pawltest.Must[pawl.Schedule](t)(p.Engine.RunSchedule(ctx, "s")) })
		}
	}})
	pawltest.Must[pawl.SweepStats](t)(e.Sweep(ctx))
	if made.LastTaskID == nil {
		t.Fatal("it was not run")
	}
	if now := pawltest.Must[pawl.Schedule](t)(p.Engine.GetSchedule(ctx, "s")); now.LastTaskID == nil || *now.LastTaskID != *made.LastTaskID {
		t.Errorf("its last task is %v, not %s", now.LastTaskID, *made.LastTaskID)
	}
}

// A tick whose own task is refused, before it or while it is made, replaces no task.
func TestARefusedTickReplacesNothing(t *testing.T) {
	var armed, calls atomic.Int32
	plan := func(context.Context, pawl.NewTask) ([]pawl.NewItem, error) {
		if n := armed.Load(); n > 0 && calls.Add(1) >= n {
			return nil, errors.New("nothing to report")
		}
		return []pawl.NewItem{{}}, nil
	}
	for _, which := range pawltest.Databases {
		for at, name := range map[int32]string{1: "before it is made", 2: "while it is made"} {
			t.Run(string(which)+"/"+name, func(t *testing.T) {
				armed.Store(0)
				p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"report": {Plan: plan}}})
				report := pawl.Type{Name: "report", Plan: pawl.Plan{Mode: pawl.PlanGo}}
				pawltest.Must[pawl.TypeRef](t)(pawltest.First(p.Engine.PutTypes(t.Context(), []pawl.Type{report})))
				pawltest.Must[pawl.Schedule](t)(p.Engine.CreateSchedule(t.Context(), pawl.NewSchedule{Name: "r", EverySeconds: 60,
					Overlap: pawl.OverlapReplace, Task: pawl.NewTask{Type: "report"}}))
				tick := func() {
					p.Advance(time.Minute)
					pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				}
				tick()
				calls.Store(0)
				armed.Store(at)
				tick()
				armed.Store(0)
				tasks := pawltest.Must[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(t.Context(), pawl.TaskFilter{}))
				got := outcomes(t, p.Engine, "r")
				if len(tasks.Items) != 1 || tasks.Items[0].State != pawl.TaskQueued || len(got) != 2 || got[1] != pawl.FiringFailed {
					t.Errorf("tasks %+v, firings %v", tasks.Items, got)
				}
				if s := pawltest.Must[pawl.Schedule](t)(p.Engine.GetSchedule(t.Context(), "r")); s.Error == nil || *s.LastTaskID != tasks.Items[0].ID {
					t.Errorf("the schedule: %+v", s)
				}
				tick()
				if got := outcomes(t, p.Engine, "r"); len(got) != 3 || got[2] != pawl.FiringCreated {
					t.Errorf("firings %v", got)
				}
				if task := pawltest.Must[pawl.Task](t)(p.Engine.GetTask(t.Context(), tasks.Items[0].ID)); task.State != pawl.TaskCancelled {
					t.Errorf("the replaced task: %+v", task)
				}
			})
		}
	}
}
