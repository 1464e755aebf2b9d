package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// waiting begins a claim that waits. The answer comes from the channel. It returns when the claim
// has found nothing. Another claim that waits may have found nothing after it: then both try again.
func waiting(t *testing.T, p *pawltest.Pawl, worker string, types ...string) <-chan []pawl.Lease {
	t.Helper()
	got := make(chan []pawl.Lease, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		ls, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Types: types, LeaseSeconds: 5, WaitSeconds: 60})
		if err != nil {
			t.Error(err)
		}
		got <- ls
	}()
	for end := time.Now().Add(time.Minute); !p.Engine.FoundNothing(types...); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the claim of %s does not wait", worker)
		}
		p.Engine.TryAgain()
	}
	return got
}

func only(t *testing.T, ls []pawl.Lease) pawl.Lease {
	t.Helper()
	if len(ls) != 1 {
		t.Fatalf("%d leases, want one", len(ls))
	}
	return ls[0]
}

// The claim of a frozen worker still waits at the server when its lease ends. What it lost goes to
// other waiting claims first, and to itself if there are none.
func TestAWaitingClaimLeavesWhatItsWorkerLostToOthers(t *testing.T) {
	ends := map[string]func(t *testing.T, p *pawltest.Pawl, l pawl.Lease){
		"expired": func(t *testing.T, p *pawltest.Pawl, _ pawl.Lease) {
			p.Advance(6 * time.Second)
			need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		},
		"revoked": func(t *testing.T, p *pawltest.Pawl, l pawl.Lease) {
			need[pawl.Moved](t)(first(p.Service.RevokeLeases(t.Context(), []pawl.RevokeCall{{ItemID: l.ID}})))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				p.Engine.LeaveTo(time.Minute) // a busy machine may take more than one to wake the other claim
				need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
				lost := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "frozen", LeaseSeconds: 5}, 1)[0]
				frozen := waiting(t, p, "frozen", "a")
				healthy := waiting(t, p, "healthy", "b", "a")
				end(t, p, lost)
				l := only(t, <-healthy)
				if l.ID != lost.ID || l.Failures > 1 {
					t.Errorf("%s with %d failures was claimed", l.ID, l.Failures)
				}
				p.Advance(6 * time.Second) // the worker that took it is gone too
				need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
				only(t, <-frozen)
			})
		})
	}
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
			leases(t, p.Service, pawl.ClaimRequest{WorkerID: "frozen", LeaseSeconds: 5}, 1)
			frozen := waiting(t, p, "frozen", "a")
			p.Advance(6 * time.Second)
			need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
			only(t, <-frozen) // although the database's clock stands still
		})
	})
}

// What a waiting claim took may not have reached its worker. It is not counted if it was never
// started, at most as often as the item may fail.
func TestWhatAWaitingClaimNeverStartedIsNotCounted(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		got := waiting(t, p, "w0", "a")
		task := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", MaxAttempts: 2}))
		for n, failures := range []int{0, 0, 0, 1} {
			l := only(t, <-got)
			if l.Failures != failures {
				t.Errorf("claim %d: %d failures, want %d", n, l.Failures, failures)
			}
			if n < 3 {
				got = waiting(t, p, string(rune('a'+n)), "a")
			}
			p.Advance(6 * time.Second)
			need[pawl.SweepStats](t)(p.Service.Sweep(ctx))
		}
		if got := need[pawl.Task](t)(p.Service.GetTask(ctx, task.ID)); got.State != pawl.TaskFailed {
			t.Errorf("the task is %s", got.State)
		}

		// A claim that found it at once, and one whose worker began, are counted.
		task = need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a"}))
		need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 5, WaitSeconds: 60}))
		got = waiting(t, p, "w1", "a")
		p.Advance(6 * time.Second)
		need[pawl.SweepStats](t)(p.Service.Sweep(ctx))
		l := only(t, <-got)
		if l.Failures != 1 {
			t.Errorf("%d failures after a claim that did not wait", l.Failures)
		}
		need[pawl.Beat](t)(pawl.Heartbeat(ctx, p.Service, l.Fence()))
		p.Advance(6 * time.Second)
		need[pawl.SweepStats](t)(p.Service.Sweep(ctx))
		if it := need[pawl.List[pawl.Item]](t)(p.Service.ListItems(ctx, pawl.ItemFilter{TaskID: task.ID})).Items[0]; it.Failures != 2 {
			t.Errorf("%d failures after a heartbeat", it.Failures)
		}
	})
}
