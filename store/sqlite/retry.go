package sqlite

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// How long a write waits for another process, and between two tries. The delays are short:
// SQLite's lock has no queue, and the gaps between the transactions of a busy process are
// short too. With SQLite's own waiting, one of three busy processes got only a tenth of
// the transactions.
const (
	lockTimeout = 30 * time.Second
	firstDelay  = 200 * time.Microsecond
	maxDelay    = 2 * time.Millisecond
)

// lockWait is one caller's wait for another connection's lock. The zero value is a wait
// that has not begun.
type lockWait struct {
	start time.Time
	delay time.Duration
}

// again waits after a try that found the database locked, and says whether the caller
// tries again. Otherwise it returns the try's error, also when lockTimeout has passed. If
// the context ends, it returns an error that says so.
func (w *lockWait) again(ctx context.Context, err error) (bool, error) {
	if err == nil || !busy(err) {
		return false, err
	}
	if w.start.IsZero() {
		w.start, w.delay = clock.Now(), firstDelay
	}
	if clock.Now().Sub(w.start) > lockTimeout {
		return false, err
	}
	timer := time.NewTimer(w.delay/2 + rand.N(w.delay))
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
		return false, &pawl.Error{Code: pawl.CodeUnavailable,
			Message: "the database was busy until the caller cancelled the call, or its time ran out", Err: ctx.Err()}
	}
	w.delay = min(w.delay*2, maxDelay)
	return true, nil
}

// retryLocked runs fn again while another connection holds the lock, until the context
// ends or lockTimeout has passed.
func retryLocked(ctx context.Context, fn func() error) error {
	var wait lockWait
	for {
		if again, err := wait.again(ctx, fn()); !again {
			return err
		}
	}
}
