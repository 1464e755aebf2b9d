package engine

import (
	"context"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Heartbeat extends leases; see pawl.Leaser. The last worker of a cancelled item gets an
// answer that says so, not an error (docs/contract.md §3).
func (e *Engine) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "heartbeat"); err != nil {
		return nil, err
	}
	defer e.took(ctx, "heartbeat", e.began(), nil)
	c := pawl.CallerOf(ctx)
	ctx = store.For(ctx, store.Heartbeats)
	v := fenced[pawl.HeartbeatCall, store.Touch, store.Touched, pawl.Beat]{
		op:        "heartbeat",
		committer: e.committers.heartbeat,
		fence:     func(h *pawl.HeartbeatCall) pawl.Fence { return h.Fence },
		check:     (*rules.Fields).Heartbeat,
		row: func(_ int, h *pawl.HeartbeatCall) store.Touch {
			return store.Touch{Fence: fenceRow(c, h.Fence), Extend: true, LeaseSeconds: h.LeaseSeconds}
		},
		answer: func(_ *pawl.HeartbeatCall, t *store.Touched) (pawl.Beat, effects) {
			return pawl.Beat{
				LeaseExpiresAt: stamp(t.LeaseExpiresAt),
				LeaseSeconds:   t.LeaseSeconds,
				ServerTime:     stamp(t.Now),
				Stopped:        append([]string{}, strings.Fields(string(t.Stopped))...),
			}, effects{}
		},
		refused: func(h *pawl.HeartbeatCall, it store.ItemRow, now int64, err error) (pawl.Beat, error) {
			if it.State == pawl.ItemCancelled && it.Attempt == h.Attempt && it.LastWorkerID == h.WorkerID {
				return pawl.Beat{Cancelled: true, ServerTime: stamp(now), Stopped: []string{}}, nil
			}
			return pawl.Beat{}, err
		},
	}
	out, _, err := v.do(ctx, e, calls)
	for i := range out {
		if err == nil && out[i].Err == nil {
			e.k.Seen(ctx, e.k, c.Namespace, calls[i].WorkerID)
		}
	}
	return out, err
}

// Progress reports how far items are; see pawl.Recorder.
func (e *Engine) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "progress"); err != nil {
		return nil, err
	}
	c, returns := pawl.CallerOf(ctx), asked.Of[bool](ctx, asked.Item)
	v := fenced[pawl.ProgressCall, store.Touch, store.Touched, pawl.Moved]{
		op:        "progress",
		committer: e.committers.progress,
		fence:     func(p *pawl.ProgressCall) pawl.Fence { return p.Fence },
		check:     (*rules.Fields).Progress,
		row: func(_ int, p *pawl.ProgressCall) store.Touch {
			r := store.Touch{Fence: fenceRow(c, p.Fence), Progress: capped(p.Progress), Stage: p.Stage}
			r.Return = returns
			return r
		},
		answer: func(p *pawl.ProgressCall, t *store.Touched) (pawl.Moved, effects) {
			m := pawl.Moved{ID: p.ItemID, TaskID: t.TaskID, State: pawl.ItemState(t.State), Attempt: p.Attempt, Failures: t.Failures}
			if t.Returned != nil {
				m.Item = t.Returned.Item()
				if len(t.Returned.Parts) > 0 {
					m.Item.PartsState = partsState(t.Returned.Parts)
				}
			}
			return m, effects{}
		},
	}
	out, _, err := v.do(ctx, e, calls)
	return out, err
}

// capped lowers 100 to 99: only completed items have 100 (docs/contract.md §2).
func capped(p *int) *int {
	if p != nil && *p == 100 {
		n := 99
		return &n
	}
	return p
}
