package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// saveGap is the least time between two writes of a relay's state. Under load, one write
// covers many batches.
const saveGap = 250 * time.Millisecond

var errLost = errors.New("another server relays to this sink now")

// ledger saves a relay's state and renews its lease. Only keep writes it; all others
// change the state through update.
type ledger struct {
	book  Book
	lease time.Duration
	poke  chan struct{}

	mu    sync.Mutex
	state pawl.Relay
}

func newLedger(book Book, lease time.Duration, at pawl.Relay) *ledger {
	return &ledger{book: book, lease: lease, poke: make(chan struct{}, 1), state: at}
}

// update changes the state and wakes keep, which writes it.
func (l *ledger) update(change func(*pawl.Relay)) {
	l.mu.Lock()
	change(&l.state)
	l.mu.Unlock()
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

func (l *ledger) read() pawl.Relay {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.LastRefused = append([]pawl.RefusedEvent(nil), s.LastRefused...)
	return s
}

// keep writes the state when it has changed, and renews the lease, until ctx ends. If
// the lease belongs to another server, or could not be renewed while it lasted, keep
// calls lost and returns.
func (l *ledger) keep(ctx context.Context, lost func(error)) {
	kept := clock.Now()
	timer := time.NewTimer(l.lease / 3)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.poke:
		case <-timer.C:
		}
		asked := clock.Now()
		ok, err := l.book.KeepRelay(ctx, l.read(), l.lease)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !ok:
			lost(errLost)
			return
		case err == nil:
			kept = asked
		case clock.Now().Sub(kept) > l.lease:
			lost(err)
			return
		}
		sleep(ctx, min(saveGap, l.lease/6))
		timer.Reset(l.lease/3 - min(saveGap, l.lease/6))
	}
}

// leave writes the state once more and gives up the lease.
func (l *ledger) leave(ctx context.Context) error {
	_, err := l.book.KeepRelay(ctx, l.read(), 0)
	return err
}
