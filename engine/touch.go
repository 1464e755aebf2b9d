package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Heartbeat extends leases; see pawl.Leaser. The latest claimer of a cancelled
// item is told so instead of refused (contract §3).
func (e *Engine) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	c := pawl.CallerOf(ctx)
	v := fenced[pawl.HeartbeatCall, pawl.Beat]{
		op:    "heartbeat",
		fence: func(h *pawl.HeartbeatCall) pawl.Fence { return h.Fence },
		check: func(h *pawl.HeartbeatCall, f *fields) {
			f.number("/lease_seconds", h.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
		},
		run: func(ctx context.Context, tx store.Tx, wave []int, answer func(int, pawl.Beat)) error {
			rows := make([]store.Touch, len(wave))
			for n, i := range wave {
				rows[n] = store.Touch{Ord: i, Fence: fenceRow(c, calls[i].Fence), Extend: true, LeaseSeconds: calls[i].LeaseSeconds}
			}
			done, err := e.db.Dialect().Hot.Touch(ctx, tx, rows)
			for _, t := range done {
				answer(t.Ord, pawl.Beat{LeaseExpiresAt: stamp(t.LeaseExpiresAt), LeaseSeconds: t.LeaseSeconds, ServerTime: stamp(t.Now), Stopped: []string{}})
			}
			return err
		},
		excuse: func(h *pawl.HeartbeatCall, it pawl.Item, now int64) (pawl.Beat, bool) {
			latest := it.State == pawl.ItemCancelled && it.Attempt == h.Attempt && it.LastWorkerID == h.WorkerID
			return pawl.Beat{Cancelled: true, ServerTime: stamp(now), Stopped: []string{}}, latest
		},
	}
	for i := range calls {
		e.seen.note(c.Namespace, calls[i].WorkerID)
	}
	return v.do(ctx, e, calls)
}

// Progress reports how far items are; see pawl.Recorder.
func (e *Engine) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	c := pawl.CallerOf(ctx)
	v := fenced[pawl.ProgressCall, pawl.Moved]{
		op:    "progress",
		fence: func(p *pawl.ProgressCall) pawl.Fence { return p.Fence },
		check: func(p *pawl.ProgressCall, f *fields) {
			if p.Progress != nil {
				f.number("/progress", *p.Progress, 0, 100)
			}
			if p.Stage != nil {
				f.text("/stage", *p.Stage, 0, pawl.MaxStageLen)
			}
		},
		run: func(ctx context.Context, tx store.Tx, wave []int, answer func(int, pawl.Moved)) error {
			rows := make([]store.Touch, len(wave))
			for n, i := range wave {
				rows[n] = store.Touch{Ord: i, Fence: fenceRow(c, calls[i].Fence), Progress: capped(calls[i].Progress), Stage: calls[i].Stage}
			}
			done, err := e.db.Dialect().Hot.Touch(ctx, tx, rows)
			for _, t := range done {
				answer(t.Ord, pawl.Moved{ID: calls[t.Ord].ItemID, TaskID: t.TaskID, State: pawl.ItemState(t.State), Attempt: calls[t.Ord].Attempt, Failures: t.Failures})
			}
			return err
		},
	}
	return v.do(ctx, e, calls)
}

// capped keeps 100 for completed items (contract §2).
func capped(p *int) *int {
	if p != nil && *p == 100 {
		n := 99
		return &n
	}
	return p
}
