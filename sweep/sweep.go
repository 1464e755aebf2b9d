// Package sweep does what time does, one broom per file: ends leases that ran
// out, wakes what is due, gives up what can never run, buries, marks stale,
// prunes, archives. Every broom works in bounded batches, each a transaction,
// and is safe to run from any number of processes at once.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// batch bounds the rows of one transaction.
const batch = 1000

// Sweeper sweeps one database. DB, NewID and Log are required; it is safe for
// use by many goroutines.
type Sweeper struct {
	DB      store.DB
	Options pawl.SweepOptions
	NewID   func(prefix string) string
	Server  string // who we are, in the statistics
	Log     *slog.Logger
	// OnReady is told, after their commit, of items that became claimable; nil =
	// nobody is.
	OnReady func([]store.DueItem)

	housekeeping sync.Mutex          // one at a time in this process
	typesMu      sync.Mutex          // of types and kept, which previews read too
	types        store.RegistryStamp // of the types that kept is of
	kept         map[store.TypeVersion]pawl.Retention
	examined     examined
	recounted    string // the waiting item whose counts were compared last
	resettled    bool   // no task is left that resettle is for
	feedSeen     int64  // the page of the feed that was looked at last
	carry        carry
	encoders     sync.Pool // of *zstd.Encoder
}

// pass is one sweep under way.
type pass struct {
	*Sweeper
	tell  func([]store.DueItem) // nil = nobody
	stats pawl.SweepStats

	preview *preview // nil: what is found is carried out
}

// broom is one thing that a pass does. It returns an error only when the pass
// cannot go on: the database is gone, or the caller gave up. What goes wrong
// with single rows it counts and leaves.
type broom func(p *pass, ctx context.Context) error

var (
	quick = []broom{(*pass).expire, (*pass).due, (*pass).giveUp, (*pass).messages}
	slow  = []broom{(*pass).revoked, (*pass).recount, (*pass).resettle, (*pass).bury, (*pass).stale, (*pass).keys, (*pass).checkpoints, (*pass).chunks, (*pass).workers, (*pass).fold, (*pass).retain, (*pass).tombstones, (*pass).feed}
)

// Pass is one whole sweep: what Quick does, then burial, stale tasks, keys,
// checkpoints, statistics and retention. It leaves its statistics in the
// database and answers with them.
func (s *Sweeper) Pass(ctx context.Context) (pawl.SweepStats, error) {
	p, began := &pass{Sweeper: s, tell: s.OnReady}, clock.Now()
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		p.stats.StartedAt = time.UnixMicro(now).UTC()
		return err
	})
	if err == nil {
		err = p.sweep(ctx, quick)
	}
	if err == nil {
		s.housekeeping.Lock()
		err = p.sweep(ctx, slow)
		s.housekeeping.Unlock()
	}
	p.stats.ScanDurationMS = clock.Now().Sub(began).Milliseconds()
	if err != nil {
		s.carry.add(p.stats)
		return p.stats, err
	}
	return p.stats, p.report(ctx)
}

// Quick does what cannot wait for the next pass: ends leases that ran out,
// queues what is due, gives up what can never run. It leaves statistics only
// when a lease had run out or something went wrong.
func (s *Sweeper) Quick(ctx context.Context) (pawl.SweepStats, error) {
	p, began := &pass{Sweeper: s, tell: s.OnReady}, clock.Now()
	err := p.sweep(ctx, quick)
	p.stats.ScanDurationMS = clock.Now().Sub(began).Milliseconds()
	if err != nil || p.stats.ExpiredFound+p.stats.Errors == 0 {
		s.carry.add(p.stats)
		return p.stats, err
	}
	return p.stats, p.report(ctx)
}

// Next is when something falls due, in microseconds by the database's clock; in
// the past or now means at once. False: nothing has a time.
func (s *Sweeper) Next(ctx context.Context) (at int64, ok bool, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		at, ok, err = store.NextDue(ctx, tx)
		return err
	})
	return at, ok, err
}

// FollowUp moves what a change of items has made ready or impossible: waiting
// items whose dependencies completed or failed, and items that failed with a
// dependency that has completed since. It answers with what became claimable.
func (s *Sweeper) FollowUp(ctx context.Context) ([]store.DueItem, error) {
	var ready []store.DueItem
	p := &pass{Sweeper: s, tell: func(items []store.DueItem) { ready = append(ready, items...) }}
	err := p.sweep(ctx, []broom{(*pass).due, (*pass).giveUp})
	s.carry.add(p.stats)
	return ready, err
}

func (p *pass) sweep(ctx context.Context, brooms []broom) error {
	for _, b := range brooms {
		if err := b(p, ctx); err != nil {
			return err
		}
	}
	return nil
}

// do runs fn in a transaction with its time.
func (s *Sweeper) do(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return fn(ctx, tx, now)
	})
}

// fatal says that there is no point in trying the next row.
func fatal(ctx context.Context, err error) bool {
	return gone(ctx, err) || errors.Is(err, errDirectory)
}

// gone says that the caller gave up, or the database does not answer. One that
// says that somebody locks a row does.
func gone(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, pawl.ErrUnavailable) && !locked(err)
}

// locked says that another transaction locks a row: the next sweep tries again.
func locked(err error) bool { return errors.Is(err, store.ErrLocked) }

// lockWait is how long a batch waits for each lock after one that met a lock.
const lockWait = 100 * time.Millisecond

// halve carries out things in one transaction, or, when that fails, in halves,
// until those that fail stand alone. Each of these is handed to failed and
// counted; the others hold. An error ends the pass.
func halve[T any](ctx context.Context, p *pass, things []T, run func(ctx context.Context, things []T) error, failed func(T, error)) error {
	if len(things) == 0 {
		return nil
	}
	err := run(ctx, things)
	switch {
	case err == nil:
		return nil
	case fatal(ctx, err):
		return err
	case len(things) == 1 && locked(err):
		p.Log.DebugContext(ctx, "the sweep left for later what another transaction locks", "error", err)
		return nil
	case len(things) == 1:
		p.stats.Errors++
		failed(things[0], err)
		return nil
	}
	if locked(err) {
		ctx = store.WithLockWait(ctx, lockWait)
	}
	mid := len(things) / 2
	if err := halve(ctx, p, things[:mid], run, failed); err != nil {
		return err
	}
	return halve(ctx, p, things[mid:], run, failed)
}

// ready tells of items that became claimable.
func (p *pass) ready(items []store.DueItem) {
	if p.tell != nil && len(items) > 0 {
		p.tell(items)
	}
}

// ago is the time d before now.
func ago(now int64, d time.Duration) int64 { return now - d.Microseconds() }
