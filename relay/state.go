package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// saveInterval is the least time between two writes of a relay's state. Under load, one write
// covers many batches.
const saveInterval = 250 * time.Millisecond

var errLost = errors.New("another server relays to this sink now")

// stateWriter saves a relay's state and renews its lease. Only run writes it; all others
// change the state through update.
type stateWriter struct {
	store   StateStore
	lease   time.Duration
	changed chan struct{}

	mu    sync.Mutex
	state pawl.Relay
}

func newStateWriter(store StateStore, lease time.Duration, at pawl.Relay) *stateWriter {
	return &stateWriter{store: store, lease: lease, changed: make(chan struct{}, 1), state: at}
}

// update changes the state and wakes run, which writes it.
func (l *stateWriter) update(change func(*pawl.Relay)) {
	l.mu.Lock()
	change(&l.state)
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *stateWriter) read() pawl.Relay {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.LastRefused = append([]pawl.RefusedEvent(nil), s.LastRefused...)
	return s
}

// run writes the state when it has changed, and renews the lease, until ctx ends. If
// the lease belongs to another server, or could not be renewed while it lasted, run
// calls lost and returns.
func (l *stateWriter) run(ctx context.Context, lost func(error)) {
	renewedAt := clock.Now()
	timer := time.NewTimer(l.lease / 3)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-timer.C:
		}
		calledAt := clock.Now()
		ok, err := l.store.KeepRelay(ctx, l.read(), l.lease)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !ok:
			lost(errLost)
			return
		case err == nil:
			renewedAt = calledAt
		case clock.Now().Sub(renewedAt) > l.lease:
			lost(err)
			return
		}
		sleep(ctx, min(saveInterval, l.lease/6))
		timer.Reset(l.lease/3 - min(saveInterval, l.lease/6))
	}
}

// release writes the state once more and gives up the lease.
func (l *stateWriter) release(ctx context.Context) error {
	_, err := l.store.KeepRelay(ctx, l.read(), 0)
	return err
}
