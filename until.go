package pawl

import (
	"context"
	"errors"
	"time"
)

// Pauses between two reads of a task, where nothing tells of its changes and where the
// database or server is unavailable.
const (
	minAwaitPause = 20 * time.Millisecond
	maxAwaitPause = time.Second
)

// Await waits until a task has ended: its state is final, or it is failed or
// dead_lettered, which only an operator can change. It returns the task as it is then;
// check its State. A task that waits for approval has not ended. Await keeps trying
// while the database or server is unavailable. It returns ctx's error, or the reason why
// the task cannot be read. An engine and a client are woken by the end; see AwaitTask for
// how it waits with other readers. A waiting call over HTTP counts as one of the key's waits;
// where there are too many of them, the task is read again and again.
func Await(ctx context.Context, s TaskReader, taskID string) (Task, error) {
	var t Task
	read := s.GetTask
	look := func(ctx context.Context) (done bool, err error) {
		for pause := minAwaitPause; ; pause = min(2*pause, maxAwaitPause) {
			if t, err = read(ctx, taskID); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLimit) {
				return t.State.Over(), err
			}
			if err := rest(ctx, pause); err != nil {
				return false, err
			}
		}
	}
	var err error
	if w, ok := s.(endWaiter); ok {
		read = func(ctx context.Context, id string) (Task, error) { return w.WaitTask(ctx, id, MaxWaitSeconds) }
		for done := false; !done && err == nil; {
			done, err = look(ctx)
		}
	} else {
		err = AwaitTask(ctx, s, taskID, look)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return t, err
}

// endWaiter is a TaskReader that waits for the end of a task; client.Client is one.
type endWaiter interface {
	WaitTask(ctx context.Context, taskID string, seconds int) (Task, error)
}

// AwaitTask calls look at once and whenever the task may have changed, until look is done
// or fails, or ctx ends: it then returns ctx's error.
//
// An engine wakes the call when the task changes, in this process or another one, and
// reads nothing meanwhile. Its Close ends the wait. Other readers, such as a client over
// HTTP, are asked again and again: the pause begins at 20 ms and doubles up to 1 s. There a
// stream of the task's events would hold a connection and one of the key's waits a call. For
// the end of a task alone, use Await.
func AwaitTask(ctx context.Context, s TaskReader, taskID string, look func(ctx context.Context) (done bool, err error)) error {
	if w, ok := s.(taskWaiter); ok {
		return w.AwaitTask(ctx, taskID, look)
	}
	for pause := minAwaitPause; ; pause = min(2*pause, maxAwaitPause) {
		if done, err := look(ctx); done || err != nil {
			return err
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// taskWaiter is a TaskReader that learns of a task's changes; engine.Engine is one.
type taskWaiter interface {
	AwaitTask(ctx context.Context, taskID string, look func(ctx context.Context) (done bool, err error)) error
}

// rest waits for d, or returns ctx's error.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
