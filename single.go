package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// The functions for a single call of a verb.

// Create creates one task.
func Create(ctx context.Context, s TaskMaker, t NewTask) (Task, error) {
	return one(s.CreateTasks(ctx, []NewTask{t}))
}

// Cancel cancels a task and all its items that are not in a final state.
func Cancel(ctx context.Context, s TaskMaker, taskID, reason string) (Task, error) {
	return one(s.CancelTasks(ctx, []TaskCall{{TaskID: taskID, Reason: reason}}))
}

// Retry queues a task's failed items again.
func Retry(ctx context.Context, s TaskOperator, taskID string) (Task, error) {
	return one(s.RetryTasks(ctx, []TaskCall{{TaskID: taskID}}))
}

// Heartbeat extends a lease by its own length.
func Heartbeat(ctx context.Context, s Leaser, f Fence) (Beat, error) {
	return one(s.Heartbeat(ctx, []HeartbeatCall{{Fence: f}}))
}

// Complete ends an item with its result, any JSON value.
func Complete(ctx context.Context, s Finisher, f Fence, result json.RawMessage) (Moved, error) {
	return one(s.Complete(ctx, []CompleteCall{{Fence: f, Result: result}}))
}

// Fail reports a failed attempt. err says whether and when it is retried (Permanent,
// RetryAfter).
func Fail(ctx context.Context, s Finisher, f Fence, err error) (Moved, error) {
	return one(s.Fail(ctx, []FailCall{FailCallOf(f, err)}))
}

// FailCallOf returns the call that reports a handler's error.
func FailCallOf(f Fence, err error) FailCall {
	call := FailCall{Fence: f, Error: Failure{Message: err.Error()}}
	retryable, after := RetryOf(err)
	call.Retryable = &retryable
	if after != nil {
		ms := after.Milliseconds()
		call.RetryAfterMS = &ms
	}
	return call
}

// Release gives an item back; the attempt is not counted as a failure.
func Release(ctx context.Context, s Leaser, f Fence) (Moved, error) {
	return one(s.Release(ctx, []ReleaseCall{{Fence: f}}))
}

// Suspend gives an item back until a time.
func Suspend(ctx context.Context, s Leaser, f Fence, until time.Time) (Moved, error) {
	return one(s.Suspend(ctx, []SuspendCall{{Fence: f, Until: &until}}))
}

// Signal sends a signal with a payload, any JSON value; nil = null.
func Signal(ctx context.Context, s Signaller, name, key string, payload json.RawMessage) (Signalled, error) {
	return one(s.SendSignals(ctx, []SignalCall{{name, key, payload}}))
}

// SaveCheckpoint saves one checkpoint under a lease.
func SaveCheckpoint(ctx context.Context, s Recorder, f Fence, c NewCheckpoint) (CheckpointRef, error) {
	return one(s.Checkpoint(ctx, []CheckpointCall{{f, c}}))
}
