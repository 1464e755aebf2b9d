package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// Submit submits results; see pawl.Deliverer.
func (c *Client) Submit(ctx context.Context, calls []pawl.SubmitCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Submit, calls)
}

// SubmitParts hands in parts of results; see pawl.Deliverer.
func (c *Client) SubmitParts(ctx context.Context, calls []pawl.PartCall) ([]pawl.Result[pawl.ItemPart], error) {
	return batch(ctx, c, api.SubmitParts, calls)
}

// Finalize assembles items' parts into results; see pawl.Deliverer.
func (c *Client) Finalize(ctx context.Context, calls []pawl.FinalizeCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.Finalize, calls)
}

// ListParts lists an item's parts; see pawl.RecordReader.
func (c *Client) ListParts(ctx context.Context, f pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	return read[pawl.List[pawl.ItemPart]](ctx, c, "item_parts", f.ItemID, api.PartQueryOf(f))
}

// ApproveTasks approves tasks; see pawl.Decider.
func (c *Client) ApproveTasks(ctx context.Context, calls []pawl.ApproveCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.ApproveTasks, calls)
}

// RejectTasks rejects tasks; see pawl.Decider.
func (c *Client) RejectTasks(ctx context.Context, calls []pawl.RejectCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.RejectTasks, calls)
}
