package schedules_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// What a tick only found is not cancelled by the next one.
func TestReplaceLeavesTasksOfOthersAlone(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task := pawl.NewTask{Type: "report", Dedupe: pawl.Dedupe{All: true}}
		own := pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, task))
		s := pawl.NewSchedule{Name: "r", EverySeconds: 60, Overlap: pawl.OverlapReplace, Task: task}
		pawltest.Must[pawl.Schedule](t)(p.Engine.CreateSchedule(ctx, s))
		pawltest.Must[pawl.Schedule](t)(p.Engine.RunSchedule(ctx, "r"))
		for range 2 {
			p.Advance(time.Minute)
			pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
		for _, o := range outcomes(t, p.Engine, "r") {
			if o != pawl.FiringDeduplicated {
				t.Errorf("a firing is %s", o)
			}
		}
		if got := pawltest.Must[pawl.Task](t)(p.Engine.GetTask(ctx, own.ID)); got.State != pawl.TaskQueued {
			t.Errorf("the task is %s", got.State)
		}
	})
}

// A schedule that has allowed several tasks and allows one from now on knows those that run.
func TestTasksOfBeforeCountWhenOverlapChanges(t *testing.T) {
	for overlap, want := range map[pawl.Overlap]pawl.FiringOutcome{
		pawl.OverlapSkip: pawl.FiringSkipped, pawl.OverlapQueue: pawl.FiringQueued, pawl.OverlapReplace: pawl.FiringCreated,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				ctx := t.Context()
				s := pawl.NewSchedule{Name: "r", EverySeconds: 60, Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "report"}}
				pawltest.Must[pawl.Schedule](t)(p.Engine.CreateSchedule(ctx, s))
				for range 2 {
					p.Advance(time.Minute)
					pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
				}
				s.Overlap = overlap
				pawltest.Must[pawl.Schedule](t)(p.Engine.PutSchedule(ctx, s))
				p.Advance(time.Minute)
				pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
				if got := outcomes(t, p.Engine, "r"); len(got) != 3 || got[2] != want {
					t.Errorf("outcomes %v", got)
				}
				open := 0
				for _, task := range pawltest.Must[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(ctx, pawl.TaskFilter{})).Items {
					if task.State == pawl.TaskQueued {
						open++
					}
				}
				if n := map[bool]int{true: 1, false: 2}[overlap == pawl.OverlapReplace]; open != n {
					t.Errorf("%d tasks are open, not %d", open, n)
				}
			})
		})
	}
}
