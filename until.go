package pawl

import (
	"context"
	"errors"
	"time"
)

// Pauses of Await between two looks.
const (
	awaitFirst = 20 * time.Millisecond
	awaitMost  = time.Second
)

// Await waits until a task has come to its end: until its state is an end, or
// failed or dead_lettered, which only an operator changes. It returns the task as
// it is then; look at its State. A task that waits for approval has not ended. A
// database or server that is away for a while is waited for too. The error is
// that of ctx, or says that the task cannot be read.
func Await(ctx context.Context, s TaskReader, taskID string) (Task, error) {
	for pause := awaitFirst; ; pause = min(2*pause, awaitMost) {
		t, err := s.GetTask(ctx, taskID)
		switch {
		case ctx.Err() != nil:
			return t, ctx.Err()
		case err != nil && !errors.Is(err, ErrUnavailable):
			return t, err
		case err == nil && (t.State.Ended() || t.State == TaskFailed || t.State == TaskDeadLettered):
			return t, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return t, ctx.Err()
		case <-timer.C:
		}
	}
}
