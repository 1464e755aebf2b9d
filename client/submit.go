package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// CreateTasks creates tasks; see pawl.TaskMaker.
func (c *Client) CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.CreateTasks, tasks)
}

// AddItems adds items to open tasks; see pawl.TaskMaker.
func (c *Client) AddItems(ctx context.Context, calls []pawl.AddItems) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.AddItems, calls)
}

// CancelTasks cancels tasks; see pawl.TaskMaker.
func (c *Client) CancelTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.CancelTasks, calls)
}

// CheckpointTasks saves checkpoints of tasks; see pawl.TaskMaker.
func (c *Client) CheckpointTasks(ctx context.Context, calls []pawl.TaskCheckpoint) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch(ctx, c, api.CheckpointTasks, calls)
}

// SendSignals sends signals; see pawl.Signaller.
func (c *Client) SendSignals(ctx context.Context, calls []pawl.SignalCall) ([]pawl.Result[pawl.Signalled], error) {
	return batch(ctx, c, api.SendSignals, calls)
}

// BeginKeys opens idempotency keys; see pawl.KeyKeeper.
func (c *Client) BeginKeys(ctx context.Context, calls []pawl.KeyBegin) ([]pawl.Result[pawl.KeyBegun], error) {
	return batch(ctx, c, api.BeginKeys, calls)
}

// RenewKeys extends keys for runs that continue; see pawl.KeyKeeper.
func (c *Client) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	return batch(ctx, c, api.RenewKeys, calls)
}

// CompleteKeys stores the answers of runs; see pawl.KeyKeeper.
func (c *Client) CompleteKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return batch(ctx, c, api.CompleteKeys, calls)
}

// FailKeys stores the errors of runs; see pawl.KeyKeeper.
func (c *Client) FailKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return batch(ctx, c, api.FailKeys, calls)
}

// GetKeys reads keys; see pawl.KeyKeeper.
func (c *Client) GetKeys(ctx context.Context, names []pawl.KeyName) ([]pawl.Result[pawl.Key], error) {
	return batch(ctx, c, api.GetKeys, names)
}

// UpdateTasks changes tasks; see pawl.TaskMaker.
func (c *Client) UpdateTasks(ctx context.Context, calls []pawl.TaskUpdate) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.UpdateTasks, calls)
}

// CloneTasks creates tasks with the content of earlier ones; see pawl.TaskMaker.
func (c *Client) CloneTasks(ctx context.Context, calls []pawl.TaskClone) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.CloneTasks, calls)
}

// AppendCheckpoints appends checkpoints to tasks; see pawl.CheckpointKeeper.
func (c *Client) AppendCheckpoints(ctx context.Context, calls []pawl.CheckpointAppend) ([]pawl.Result[pawl.CheckpointsAppended], error) {
	return batch(ctx, c, api.AppendTasks, calls)
}

// PruneCheckpoints removes checkpoints by rules; see pawl.CheckpointKeeper.
func (c *Client) PruneCheckpoints(ctx context.Context, calls []pawl.CheckpointPrune) ([]pawl.Result[pawl.CheckpointsPruned], error) {
	return batch(ctx, c, api.PruneTasks, calls)
}

// ForkTasks creates tasks that go on from a checkpoint of another one; see pawl.TaskForker.
func (c *Client) ForkTasks(ctx context.Context, calls []pawl.TaskFork) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.ForkTasks, calls)
}
