package sqlite

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// How long a write waits for another process, and between two tries: short,
// for SQLite's lock has no queue and the gaps of a busy neighbour are short too.
// With SQLite's own waiting, one of three busy processes got a tenth of the turns.
const (
	lockTimeout = 30 * time.Second
	firstDelay  = 200 * time.Microsecond
	maxDelay    = 2 * time.Millisecond
)

// retryLocked runs fn until it does not meet another connection's lock, until the
// context ends or lockTimeout has passed.
func retryLocked(ctx context.Context, fn func() error) error {
	var start time.Time
	delay := firstDelay
	for {
		err := fn()
		if err == nil || !busy(err) {
			return err
		}
		if start.IsZero() {
			start = clock.Now()
		}
		if clock.Now().Sub(start) > lockTimeout {
			return err
		}
		timer := time.NewTimer(delay/2 + rand.N(delay))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the call was given up while the database was busy", Err: ctx.Err()}
		}
		delay = min(delay*2, maxDelay)
	}
}
