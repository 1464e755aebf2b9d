package schedules_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Three engines on one database fire 200 schedules: each tick makes one task.
func TestThreeEnginesFireEachTickOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const schedules, rounds = 200, 3
		for n := range schedules {
			pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: fmt.Sprint("s", n), EverySeconds: 60,
				Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "a"}}))
		}
		all := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		for range rounds {
			p.Advance(time.Minute)
			var wg sync.WaitGroup
			for _, e := range all {
				wg.Go(func() {
					if _, err := e.Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		}
		list := pawltest.Must[pawl.List[pawl.Task]](t)(p.Service.ListTasks(t.Context(), pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}}))
		if n := len(list.Items); n != schedules*rounds {
			t.Errorf("%d tasks, want %d", n, schedules*rounds)
		}
		for n := range schedules {
			fired := pawltest.Must[pawl.List[pawl.Firing]](t)(p.Service.ListFirings(t.Context(), pawl.FiringFilter{Schedule: fmt.Sprint("s", n)}))
			if len(fired.Items) != rounds {
				t.Errorf("schedule %d has %d firings", n, len(fired.Items))
			}
		}
	})
}

// How long schedules take that are due in the same second. The short form has fewer.
func TestManySchedulesAreDueAtOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		schedules := 1000
		if os.Getenv("PAWL_TORTURE") == "1" {
			schedules = 10_000
		}
		for n := range schedules {
			pawltest.Must[pawl.Schedule](t)(p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: fmt.Sprint("s", n), Cron: "0 * * * *",
				Task: pawl.NewTask{Type: "a"}}))
		}
		p.Advance(time.Hour)
		began := time.Now()
		pawltest.Must[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		t.Logf("%d schedules fired in %s", schedules, time.Since(began))
		if q := pawltest.Must[pawl.Queue](t)(p.Service.GetQueue(t.Context(), "a")); q.Queued != int64(schedules) {
			t.Errorf("%d of %d fired", q.Queued, schedules)
		}
	})
}

// A namespace has a bounded number of schedules; others have theirs.
func TestSchedulesOfANamespaceAreBounded(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		s := pawl.NewSchedule{Name: "first", EverySeconds: 3600, Task: pawl.NewTask{Type: "a"}}
		pawltest.Must[pawl.Schedule](t)(e.CreateSchedule(ctx, s))
		for _, more := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e"} { // each doubles them
			err := p.Exec(`INSERT INTO pawl.schedules (id, namespace, name, definition, typed, version, next_tick, created_at, updated_at)
				SELECT id || '` + more + `', namespace, name || '` + more + `', definition, typed, version, next_tick, created_at, updated_at
				FROM pawl.schedules
				ORDER BY id
				LIMIT (SELECT 9999 - COUNT(*) FROM pawl.schedules)`)
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Name = "last"
		pawltest.Must[pawl.Schedule](t)(e.CreateSchedule(ctx, s))
		if again := pawltest.Must[pawl.Schedule](t)(e.CreateSchedule(ctx, s)); !again.Unchanged {
			t.Error("the last one is made again")
		}
		s.Name = "one more"
		if _, err := e.CreateSchedule(ctx, s); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("one more than there may be: %v", err)
		}
		pawltest.Must[pawl.Schedule](t)(e.CreateSchedule(pawl.As(ctx, pawl.Caller{Namespace: "other"}), s))
	})
}
