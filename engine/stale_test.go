package engine_test

import (
	"context"
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
