package pawl

import (
	"context"
	"errors"
	"time"
)

// Pauses of Await between two reads.
const (
	minAwaitPause = 20 * time.Millisecond
	maxAwaitPause = time.Second
)

// Await waits until a task has ended: its state is final, or it is failed or
// dead_lettered, which only an operator can change. It returns the task as it is then;
// check its State. A task that waits for approval has not ended. Await keeps trying
// while the database or server is unavailable. It returns ctx's error, or the reason why
// the task cannot be read.
func Await(ctx context.Context, s TaskReader, taskID string) (Task, error) {
	for pause := minAwaitPause; ; pause = min(2*pause, maxAwaitPause) {
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
