package engine_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/testserver"
)

// While the database is in recovery, as between the end of a primary and the promotion of its
// standby, every call that writes is unavailable. A schedule that was due then is fired as soon as
// the database takes changes: it is no error of the schedule.
func TestADatabaseInRecovery(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	u := need[*url.URL](t)(url.Parse(primary.URL))
	target := need[*url.URL](t)(url.Parse(standby.URL))
	proxy := need[*testserver.Proxy](t)(testserver.NewProxy(t.Context(), u.Host))
	defer func() { _ = proxy.Close() }()
	u.Host = proxy.Addr
	u.User = target.User // the password of both
	ctx := t.Context()
	e := need[*engine.Engine](t)(engine.Open(ctx, u.String()))
	defer func() { _ = e.Close() }()

	task := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "t"}))
	lease := need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"}))[0]
	need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "t"})) // what a claim would take
	need[pawl.Schedule](t)(e.CreateSchedule(ctx, pawl.NewSchedule{Name: "s", EverySeconds: 1, Overlap: pawl.OverlapReplace,
		Task: pawl.NewTask{Type: "tick"}}))
	if err := standby.CatchUp(ctx, primary); err != nil {
		t.Fatal(err)
	}
	proxy.Redirect(target.Host)

	fence := pawl.Fence{ItemID: lease.ID, WorkerID: "w", Attempt: lease.Attempt}
	for verb, call := range map[string]func() error{
		"create":    func() error { _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "t"}); return err },
		"claim":     func() error { _, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w2"}); return err },
		"heartbeat": func() error { _, err := first(e.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: fence}})); return err },
		"complete":  func() error { _, err := first(e.Complete(ctx, []pawl.CompleteCall{{Fence: fence}})); return err },
		"fail":      func() error { _, err := first(e.Fail(ctx, []pawl.FailCall{{Fence: fence}})); return err },
		"release":   func() error { _, err := first(e.Release(ctx, []pawl.ReleaseCall{{Fence: fence}})); return err },
		"checkpoint": func() error {
			_, err := first(e.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: fence,
				NewCheckpoint: pawl.NewCheckpoint{Type: "manual_checkpoint", Snapshot: []byte(`{}`)}}}))
			return err
		},
		"cancel": func() error { _, err := first(e.CancelTasks(ctx, []pawl.TaskCall{{TaskID: task.ID}})); return err },
		"schedule": func() error {
			_, err := e.CreateSchedule(ctx, pawl.NewSchedule{Name: "s2", EverySeconds: 1, Task: pawl.NewTask{Type: "tick"}})
			return err
		},
		"sweep": func() error { _, err := e.Sweep(ctx); return err },
	} {
		for n := 0; ; n++ { // the first call may meet a connection that was closed
			err := call()
			if pawl.CodeOf(err) != pawl.CodeUnavailable {
				t.Errorf("%s in recovery: %v", verb, err)
			}
			if n == 1 {
				break
			}
		}
	}
	for begun := clock.Now(); clock.Now().Sub(begun) < 2*time.Second; time.Sleep(100 * time.Millisecond) { // ticks become due
		if _, err := e.Sweep(ctx); err == nil {
			t.Fatal("a sweep of a database in recovery had no error")
		}
	}
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	need[pawl.SweepStats](t)(e.Sweep(ctx))
	s := need[pawl.Schedule](t)(e.GetSchedule(ctx, "s"))
	if s.LastTaskID == nil || s.Error != nil {
		t.Errorf("after the promotion and a sweep the schedule has made %v, with the error %v", s.LastTaskID, s.Error)
	}
}
