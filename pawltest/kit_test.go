package pawltest_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// A sleep of 72 hours is tested at once.
func TestElapse(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		remind := worker.Handle("remind", func(ctx context.Context, _ json.RawMessage) (string, error) {
			if err := pawl.Sleep(ctx, "three days", 72*time.Hour); err != nil {
				return "", err
			}
			return "reminded", nil
		})
		task := p.Create(pawl.NewTask{Type: "remind"})
		if it := pawltest.RunOne(t, p.Service, remind); it.State != pawl.ItemWaiting {
			t.Fatalf("the item is %s", it.State)
		}
		p.Elapse(72 * time.Hour)
		if it := pawltest.RunOne(t, p.Service, remind); it.State != pawl.ItemCompleted {
			t.Errorf("the item is %s", it.State)
		}
		pawltest.WantEvents(t, p.Service, task.ID, "proposed", "leased", "in_progress", "suspended", "ready", "leased", "completed")
	})
}

// Each tick of a schedule happens at its time, and so do deadlines and ends of leases.
func TestElapseKeepsTheOrder(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, began := t.Context(), p.Now()
		_, err := p.Service.CreateSchedule(ctx, pawl.NewSchedule{Name: "hourly", Cron: "0 * * * *", Overlap: pawl.OverlapAllow,
			Task: pawl.NewTask{Type: "tick", ScheduleToStartSeconds: 90 * 60}})
		if err != nil {
			t.Fatal(err)
		}
		p.Elapse(5 * time.Hour)
		if got := p.Now().Sub(began); got != 5*time.Hour {
			t.Errorf("the clock moved by %v", got)
		}
		list, err := p.Service.ListTasks(ctx, pawl.TaskFilter{Types: []string{"tick"}, Asc: true})
		if err != nil {
			t.Fatal(err)
		}
		states := map[pawl.TaskState]int{}
		for _, task := range list.Items {
			states[task.State]++
		}
		if len(list.Items) != 5 || states[pawl.TaskFailed] != 3 || states[pawl.TaskQueued] != 2 {
			t.Errorf("%d tasks: %v", len(list.Items), states)
		}
	})
}

// After every crash the steps that were saved are not run again, and the effect is there once.
func TestEachCrash(t *testing.T) {
	ran := map[string]int{}
	pay := worker.Handle("pay", func(ctx context.Context, _ json.RawMessage) (int, error) {
		sum := 0
		for _, name := range []string{"reserve", "charge", "receipt"} {
			n, err := pawl.Step(ctx, name, func(context.Context) (int, error) { ran[name]++; return 1, nil })
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	points := 0
	pawltest.EachCrash(t, pawl.NewTask{Type: "pay"}, func(t *testing.T, p *pawltest.Pawl, it pawl.Item) {
		if points++; it.State != pawl.ItemCompleted || string(it.Result) != "3" {
			t.Errorf("the item is %s with %s", it.State, it.Result)
		}
	}, pay)
	// At each of four writes and after it: three steps and the end. And once without a crash.
	if points != 9 {
		t.Errorf("%d points were tried", points)
	}
	// A step runs again only if the crash came before it was saved: in one of the nine runs.
	for name, n := range ran {
		if want := points + 1; n != want {
			t.Errorf("step %s ran %d times, want %d", name, n, want)
		}
	}
}

// It is in docs/go.md.
func TestLimitAndSchedule(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	job := pawl.NewJob[int, int]("report")
	one := 1
	if _, err := p.Service.SetQueue(t.Context(), job.JobName(), pawl.QueueLimits{Concurrency: &one}.Patch()); err != nil {
		t.Fatal(err)
	}
	nightly := pawl.NewSchedule{Name: "nightly", Cron: "0 2 * * *", Zone: "Europe/Berlin", Overlap: pawl.OverlapAllow}
	if _, err := job.Schedule(t.Context(), p.Service, nightly, 7); err != nil {
		t.Fatal(err)
	}
	p.Elapse(48 * time.Hour) // two nights
	leases, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{job.JobName()}, Limit: 10})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	p.Complete(leases[0], "7")
	handler := worker.Handle(job, func(_ context.Context, n int) (int, error) { return n, nil })
	if it := pawltest.RunOne(t, p.Service, handler); string(it.Result) != "7" {
		t.Error(it.State, it.Error)
	}
}
