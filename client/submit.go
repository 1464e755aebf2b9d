package client

import (
	"context"

	"github.com/pawl-work/pawl"
)

// CreateTasks creates tasks; see pawl.TaskMaker.
func (c *Client) CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	return batch[pawl.NewTask, pawl.Task](ctx, c, "create_tasks", tasks)
}

// AddItems adds items to open tasks; see pawl.TaskMaker.
func (c *Client) AddItems(ctx context.Context, calls []pawl.AddItems) ([]pawl.Result[pawl.Task], error) {
	return batch[pawl.AddItems, pawl.Task](ctx, c, "add_items_batch", calls)
}

// CancelTasks cancels tasks; see pawl.TaskMaker.
func (c *Client) CancelTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return batch[pawl.TaskCall, pawl.Task](ctx, c, "cancel_tasks", calls)
}

// CheckpointTasks saves checkpoints of tasks; see pawl.TaskMaker.
func (c *Client) CheckpointTasks(ctx context.Context, calls []pawl.TaskCheckpoint) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch[pawl.TaskCheckpoint, pawl.CheckpointRef](ctx, c, "checkpoint_tasks", calls)
}

// SendSignals sends signals; see pawl.Signaller.
func (c *Client) SendSignals(ctx context.Context, calls []pawl.SignalCall) ([]pawl.Result[pawl.Signalled], error) {
	return batch[pawl.SignalCall, pawl.Signalled](ctx, c, "send_signals", calls)
}

// BeginKeys opens idempotency keys; see pawl.KeyKeeper.
func (c *Client) BeginKeys(ctx context.Context, calls []pawl.KeyBegin) ([]pawl.Result[pawl.KeyBegun], error) {
	return batch[pawl.KeyBegin, pawl.KeyBegun](ctx, c, "begin_keys", calls)
}

// RenewKeys keeps keys for runs that go on; see pawl.KeyKeeper.
func (c *Client) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	return batch[pawl.KeyRenew, pawl.Key](ctx, c, "renew_keys", calls)
}

// CompleteKeys keeps the answers of runs; see pawl.KeyKeeper.
func (c *Client) CompleteKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return batch[pawl.KeyDone, pawl.Key](ctx, c, "complete_keys", calls)
}

// FailKeys keeps the errors of runs; see pawl.KeyKeeper.
func (c *Client) FailKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return batch[pawl.KeyDone, pawl.Key](ctx, c, "fail_keys", calls)
}

// GetKeys reads keys; see pawl.KeyKeeper.
func (c *Client) GetKeys(ctx context.Context, names []pawl.KeyName) ([]pawl.Result[pawl.Key], error) {
	return batch[pawl.KeyName, pawl.Key](ctx, c, "get_keys", names)
}

// UpdateTasks changes tasks; see pawl.TaskMaker.
func (c *Client) UpdateTasks(ctx context.Context, calls []pawl.TaskUpdate) ([]pawl.Result[pawl.Task], error) {
	return batch[pawl.TaskUpdate, pawl.Task](ctx, c, "update_tasks", calls)
}

// CloneTasks creates tasks like older ones; see pawl.TaskMaker.
func (c *Client) CloneTasks(ctx context.Context, calls []pawl.TaskClone) ([]pawl.Result[pawl.Task], error) {
	return batch[pawl.TaskClone, pawl.Task](ctx, c, "clone_tasks", calls)
}
