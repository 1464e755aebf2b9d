package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// Bulk begins a bulk call; see pawl.BulkOperator.
func (c *Client) Bulk(ctx context.Context, call pawl.BulkCall) (pawl.Task, error) {
	var out pawl.Task
	if call.DryRun {
		return out, pawl.Invalid("/dry_run", "is for the call that counts")
	}
	err := c.bulk(ctx, call, &out)
	return out, err
}

// CountBulk counts the tasks of a bulk call; see pawl.BulkOperator.
func (c *Client) CountBulk(ctx context.Context, call pawl.BulkCall) (int64, error) {
	call.DryRun = true
	var out api.BulkCount
	err := c.bulk(ctx, call, &out)
	return out.Count, err
}

func (c *Client) bulk(ctx context.Context, call pawl.BulkCall, out any) error {
	text, err := encode(call)
	if err != nil {
		return err
	}
	r := request{route: api.RouteOf("bulk"), body: text}
	c.keyed(ctx, &r, 0)
	return c.do(ctx, r, out)
}
