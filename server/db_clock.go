package server

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// timeReader is a service that reads the database's clock.
type timeReader interface {
	Now(ctx context.Context) (time.Time, error)
}

// clockAge is how long the distance between the two clocks counts.
const clockAge = 30 * time.Second

// dbClock is the database's clock, which is the only one that counts for what is stored: this machine's may be wrong.
type dbClock struct {
	reader timeReader // nil: the service has none, and this machine's counts

	mu    sync.Mutex
	ahead time.Duration // of this machine's clock
	read  time.Time     // by this machine's clock
}

// now returns the database's time: by a reading that is at most clockAge old, or by a fresh one.
func (c *dbClock) now(ctx context.Context, fresh bool) (time.Time, error) {
	if c.reader == nil {
		return clock.Now(), nil
	}
	here := clock.Now()
	c.mu.Lock()
	ahead, age := c.ahead, here.Sub(c.read)
	c.mu.Unlock()
	if !fresh && age >= 0 && age < clockAge {
		return here.Add(ahead), nil
	}
	there, err := c.reader.Now(ctx)
	if err == nil {
		c.mu.Lock()
		c.ahead, c.read = there.Sub(here), here
		c.mu.Unlock()
	}
	return there, err
}
