package client

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/asked"
)

// Claim claims items; see pawl.Leaser. If the answer is lost, its items stay leased until
// their leases expire.
func (c *Client) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	body, err := encode(pawl.Provenant(ctx, []pawl.ClaimRequest{req})[0])
	if err != nil {
		return nil, err
	}
	wait := time.Duration(min(max(req.WaitSeconds, 0), pawl.MaxWaitSeconds)) * time.Second
	r := request{route: api.RouteOf("claim"), body: body, wait: wait}
	c.keyed(ctx, &r, 0)
	var out api.Leases
	err = c.do(ctx, r, &out)
	if out.NextAt == nil {
		out.NextAt = new(time.Time)
	}
	if to := asked.Of[*time.Time](ctx, asked.NextAt); to != nil {
		*to = *out.NextAt
	}
	return out.Items, err
}

// Heartbeat extends leases; see pawl.Leaser.
func (c *Client) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	return batch(ctx, c, api.Heartbeat, calls)
}

// Release gives items back; see pawl.Leaser.
func (c *Client) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Release, calls)
}

// Suspend gives items back until a time, a signal or the end of children; see pawl.Leaser.
func (c *Client) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Suspend, calls)
}

// Spawn creates children under leases; see pawl.Spawner.
func (c *Client) Spawn(ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.Spawn, calls)
}

// Complete completes items with their results; see pawl.Finisher.
func (c *Client) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Complete, calls)
}

// Fail reports that attempts failed; see pawl.Finisher.
func (c *Client) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Fail, calls)
}

// Progress reports how far items are; see pawl.Recorder.
func (c *Client) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Progress, calls)
}

// Checkpoint saves checkpoints under leases; see pawl.Recorder.
func (c *Client) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch(ctx, c, api.Checkpoint, calls)
}

// Resume reads all that an item's next attempt needs, page by page; see pawl.Recorder. If the
// item is claimed again meanwhile, it starts again from the first page.
func (c *Client) Resume(ctx context.Context, itemID string) (pawl.ResumeState, error) {
	out, err := c.ResumePage(ctx, itemID, "")
	for err == nil && out.Next != "" {
		var page pawl.ResumeState
		switch page, err = c.ResumePage(ctx, itemID, out.Next); {
		case err == nil && page.Attempt == out.Attempt:
			out.Add(page)
		case err == nil:
			out, err = c.ResumePage(ctx, itemID, "")
		}
	}
	return out, err
}

// ResumePage reads one page of the resume state; see pawl.Recorder.
func (c *Client) ResumePage(ctx context.Context, itemID, cursor string) (pawl.ResumeState, error) {
	return read[pawl.ResumeState](ctx, c, "resume_item", itemID, api.ResumeQuery{Cursor: cursor})
}

// RegisterWorker enters a worker into the registry; see pawl.Recorder.
func (c *Client) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	body, err := encode(api.WorkerBody{WorkerID: w.WorkerID, Name: w.Name, Version: w.Version, Types: w.Types})
	if err != nil {
		return err
	}
	return c.do(ctx, request{route: api.RouteOf("register_worker"), body: body}, nil)
}
