package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// stale has all verbs with which a worker writes, as batches. Each returns the error of
// every call.
var stale = []struct {
	name string
	call func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error)
}{
	{"heartbeat", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		return errorsOf(svc.Heartbeat(ctx, each(fs, func(f pawl.Fence) pawl.HeartbeatCall { return pawl.HeartbeatCall{Fence: f} })))
	}},
	{"progress", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		n, stage := 99, "stale"
		return errorsOf(svc.Progress(ctx, each(fs, func(f pawl.Fence) pawl.ProgressCall {
			return pawl.ProgressCall{Fence: f, Progress: &n, Stage: &stage}
		})))
	}},
	{"checkpoint", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		return errorsOf(svc.Checkpoint(ctx, each(fs, func(f pawl.Fence) pawl.CheckpointCall {
			return pawl.CheckpointCall{Fence: f, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: []byte(`"stale"`)}}
		})))
	}},
	{"complete", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		return errorsOf(
			svc.Complete(ctx, each(fs, func(f pawl.Fence) pawl.CompleteCall { return pawl.CompleteCall{Fence: f, Result: []byte(`"stale"`)} })))
	}},
	{"fail", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		return errorsOf(svc.Fail(ctx, each(fs, func(f pawl.Fence) pawl.FailCall {
			return pawl.FailCall{Fence: f, Error: pawl.Failure{Message: "stale"}}
		})))
	}},
	{"release", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		return errorsOf(svc.Release(ctx, each(fs, func(f pawl.Fence) pawl.ReleaseCall { return pawl.ReleaseCall{Fence: f} })))
	}},
	{"suspend", func(ctx context.Context, svc pawl.Service, fs []pawl.Fence) ([]error, error) {
		until := pawltest.Start.Add(24 * time.Hour)
		return errorsOf(svc.Suspend(ctx, each(fs, func(f pawl.Fence) pawl.SuspendCall { return pawl.SuspendCall{Fence: f, Until: &until} })))
	}},
}

func each[C any](fs []pawl.Fence, call func(pawl.Fence) C) []C {
	out := make([]C, len(fs))
	for n, f := range fs {
		out[n] = call(f)
	}
	return out
}

func errorsOf[T any](rs []pawl.Result[T], err error) ([]error, error) {
	out := make([]error, len(rs))
	for n, r := range rs {
		out[n] = r.Err
	}
	return out, err
}

// Workers are frozen past their lease. A third wakes before a sweep, a third after the
// sweep, and a third after another worker has claimed the item.
func TestFrozenHoldersAreRefusedEverything(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const share = 334
		for round := range times(1, 10) {
			types := []string{fmt.Sprint("unswept", round), fmt.Sprint("swept", round), fmt.Sprint("taken", round)}
			var held [3][]pawl.Fence
			for n, typ := range types {
				items := make([]pawl.NewItem, share)
				for i := range items {
					items[i].Input = []byte(`1`)
				}
				need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Items: items}))
				for _, l := range leases(t, p.Service, pawl.ClaimRequest{WorkerID: "zombie", Types: []string{typ}, LeaseSeconds: 60}, share) {
					held[n] = append(held[n], l.Fence())
				}
			}
			if _, err := p.Service.Heartbeat(t.Context(), each(held[2],
				func(f pawl.Fence) pawl.HeartbeatCall { return pawl.HeartbeatCall{Fence: f} })); err != nil {
				t.Fatal(err)
			}
			p.Advance(60 * time.Second)
			haunt(t, p, held[0], pawl.ErrLeaseExpired)
			need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
			haunt(t, p, held[1], pawl.ErrLeaseExpired)
			leases(t, p.Service, pawl.ClaimRequest{WorkerID: "heir", Types: types[2:]}, share)
			haunt(t, p, held[2], pawl.ErrLeaseTaken)
		}
	})
}

// haunt tries every verb with stale claims. All are refused for that reason, and nothing
// is written.
func haunt(t *testing.T, p *pawltest.Pawl, fs []pawl.Fence, reason error) {
	t.Helper()
	before := printOf(t, p.Service)
	for _, v := range stale {
		errs, err := v.call(t.Context(), p.Service, fs)
		if err != nil || len(errs) != len(fs) {
			t.Fatalf("%s: %d answers, %v", v.name, len(errs), err)
		}
		for n, err := range errs {
			if !errors.Is(err, reason) {
				t.Fatalf("%s by the stale %v: %v, want %v", v.name, fs[n], err, reason)
			}
		}
	}
	if after := printOf(t, p.Service); after != before {
		t.Fatalf("stale writes left something:\nbefore %s\nafter  %s", before, after)
	}
}

// printOf returns a summary of everything that a write would change.
func printOf(t testing.TB, svc pawl.Service) string {
	t.Helper()
	s := need[pawl.Stats](t)(svc.Stats(t.Context()))
	events := need[pawl.List[pawl.Event]](t)(svc.ListEvents(t.Context(), pawl.EventFilter{Page: pawl.Page{Limit: 1}}))
	newest := ""
	if len(events.Items) > 0 {
		newest = events.Items[0].ID
	}
	return fmt.Sprint(s.ItemsByState, s.TasksByState, s.Leases, s.ExpiredLeases, s.Checkpoints, s.Events, " newest ", newest)
}
