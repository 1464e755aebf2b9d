// Package sweep does the time-driven work, in one file for each step: it expires leases,
// queues due items, gives up items that can never run, dead-letters, marks stale tasks,
// prunes and archives. Every step works in bounded transactions and is safe to run in
// any number of processes at once.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// batch bounds the rows of one transaction.
const batch = 1000

// Sweeper sweeps one database. DB, NewID and Log are required. It is safe for concurrent
// use.
type Sweeper struct {
	DB      store.DB
	Options pawl.SweepOptions
	NewID   func(prefix string) string
	// Given names the settings of retention in Options that this process was given, and GivenAll says that it was given all:
	// they are stored for all processes, or with GivenOnce count for this one alone. The others count as far as the database
	// has none. GivenDir is the directory of archives that was given; "" = the default one, which Options has.
	Given               []string
	GivenAll, GivenOnce bool
	GivenDir            string
	Server              string // this process's name in the statistics
	Log                 *slog.Logger
	// Objects returns the object store of a name: the bytes of uploaded blobs are removed
	// there.
	Objects func(place string) (objects.Store, error)
	// Archive archives tasks. What it does not remove as a whole it passes to Resume.
	Archive Archive
	// Steps are further parts of each whole pass, and quick ones of each pass.
	Steps []store.Step
	// Unused are further kinds of blobs, each as it is looked for in one pass.
	Unused []func() store.UnusedBlobs
	// OnReady is called, after the commit, with items that became claimable; nil = not
	// called.
	OnReady func([]store.DueItem)
	// OnChildren is called, after the commit, with what the ends of children have moved; nil =
	// not called.
	OnChildren func(context.Context, store.ChildrenEnded)
	// OnGates is called, after the commit, when keys of queues with limits were removed; nil = not called.
	OnGates func()
	// OnPass is called after each whole pass, and after a quick one that did something; nil = not called.
	OnPass func(pawl.SweepStats)

	housekeeping   sync.Mutex          // held by the slow steps: one pass at a time in this process
	typesMu        sync.Mutex          // guards types and kept, which previews read too
	types          store.RegistryStamp // the version of the types that kept was read from
	kept           map[store.TypeVersion]pawl.Retention
	blobsAt        int64      // when all blobs were looked at last, by the database's clock
	leftoversAt    time.Time  // when files of killed processes were looked for last
	recounted      string     // the last waiting item whose counters were compared
	resettled      bool       // there are no more tasks for resettle
	feedSeen       int64      // the last page of the feed that was checked
	gatesSeen      int64      // the last key of a queue with limits that was looked at
	deleted        tombstoned // up to here no deletion was interrupted
	unsaved        unsaved
	settingsMu     sync.Mutex // held by Store
	settingsStored bool
}

// Archive is where tasks go whose retention has passed.
type Archive interface {
	// Retire archives tasks and removes them, and returns how many. store.ErrChanged: the next pass looks at them again.
	Retire(ctx context.Context, tasks []string) (pruned int64, err error)
	// RemoveAbandoned removes files that killed processes have left.
	RemoveAbandoned() error
}

// pass is one sweep.
type pass struct {
	*Sweeper
	Options pawl.SweepOptions     // in force; before the slow steps those of the process
	onReady func([]store.DueItem) // nil = not called
	stats   pawl.SweepStats
	hurried bool // another pass follows at once if this one has given up items

	preview *preview // nil: a real pass, not a preview
}

func (s *Sweeper) pass(onReady func([]store.DueItem)) *pass {
	return &pass{Sweeper: s, Options: s.Options, onReady: onReady}
}

// further does the steps of the rooms, the quick ones or the others.
func (p *pass) further(ctx context.Context, quick bool) error {
	for _, s := range p.Steps {
		if s.Quick != quick {
			continue
		}
		on := store.Sweeping{DB: p.DB, Limit: batch, Options: p.Options, Stats: &p.stats, Objects: p.Objects, Failed: p.logError}
		if err := p.logError(ctx, s.Name, s.Run(ctx, on)); err != nil {
			return err
		}
	}
	return nil
}

// step is one part of a pass. It returns an error only if the pass cannot continue: the
// database is gone, or the caller gave up. Errors of single rows are counted and logged.
type step func(p *pass, ctx context.Context) error

var (
	quick = []step{
		(*pass).deadlines, (*pass).expire, (*pass).revoked, (*pass).effects, (*pass).queuedTooLong, (*pass).due, (*pass).giveUp,
		func(p *pass, ctx context.Context) error { return p.further(ctx, true) },
	}
	slow = []step{
		(*pass).recount, (*pass).resettle, (*pass).bury, (*pass).stale, (*pass).deletions, (*pass).copies,
		func(p *pass, ctx context.Context) error { return p.further(ctx, false) }, (*pass).effectKeys,
		(*pass).foldStats, (*pass).retain, (*pass).blobs,
		(*pass).tombstones, (*pass).feed, (*pass).failures, (*pass).space,
		(*pass).gates, (*pass).hints, (*pass).leftovers,
	}
)

// Pass runs one whole sweep: what Quick does, then dead-lettering, stale tasks, keys,
// checkpoints, statistics and retention. It stores its statistics in the database and
// returns them.
func (s *Sweeper) Pass(ctx context.Context) (pawl.SweepStats, error) {
	p, began := s.pass(s.OnReady), clock.Now()
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
		if err = p.settle(ctx); err == nil {
			err = p.sweep(ctx, slow)
		}
		s.housekeeping.Unlock()
	}
	p.stats.ScanDurationMS = clock.Now().Sub(began).Milliseconds()
	defer p.tell()
	if err != nil {
		s.unsaved.add(p.stats)
		return p.stats, err
	}
	return p.stats, p.report(ctx)
}

// Quick does what cannot wait for the next pass: it ends leases that have expired or whose API
// key has, queues due items and gives up items that can never run. It stores statistics only if a lease had expired or
// an error occurred.
func (s *Sweeper) Quick(ctx context.Context) (pawl.SweepStats, error) {
	p, began := s.pass(s.OnReady), clock.Now()
	p.hurried = true
	err := p.sweep(ctx, quick)
	p.stats.ScanDurationMS = clock.Now().Sub(began).Milliseconds()
	if p.stats.Did() {
		defer p.tell()
	}
	if err != nil || p.stats.ExpiredFound+p.stats.Errors == 0 {
		s.unsaved.add(p.stats)
		return p.stats, err
	}
	return p.stats, p.report(ctx)
}

func (p *pass) tell() {
	if p.OnPass != nil {
		p.OnPass(p.stats)
	}
}

// Next returns the time at which something is due, in microseconds by the database's
// clock; a time in the past means now. ok is false if nothing is scheduled.
func (s *Sweeper) Next(ctx context.Context) (at int64, ok bool, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		next, err := store.NextDue(ctx, tx)
		if ok = next.At != nil; ok {
			at = *next.At
		}
		return err
	})
	return at, ok, err
}

// FollowUp moves the items that a change has made ready or impossible: waiting items
// whose dependencies completed or failed, and items that failed with a dependency that
// has completed since. It returns the items that became claimable.
func (s *Sweeper) FollowUp(ctx context.Context) ([]store.DueItem, error) {
	var ready []store.DueItem
	p := s.pass(func(items []store.DueItem) { ready = append(ready, items...) })
	err := p.sweep(ctx, []step{(*pass).due, (*pass).giveUp})
	s.unsaved.add(p.stats)
	return ready, err
}

// sweep runs steps. The error of one keeps the others from running only if the database is gone
// or the caller gave up.
func (p *pass) sweep(ctx context.Context, steps []step) (err error) {
	for _, run := range steps {
		refused := run(p, ctx)
		if err = cmp.Or(err, refused); refused != nil && (ctx.Err() != nil || store.IsDown(refused)) {
			break
		}
	}
	return err
}

// do runs fn in a transaction, with the transaction's time.
func (s *Sweeper) do(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return store.Sweeping{DB: s.DB}.In(ctx, fn)
}

// repeat runs a step in transactions until it changes nothing.
func (p *pass) repeat(ctx context.Context, what string, run func(ctx context.Context, tx store.Tx, now int64) (int64, error)) error {
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = run(ctx, tx, now)
			return err
		})
		if err != nil {
			return p.logError(ctx, what, err)
		}
		if n == 0 {
			return nil
		}
	}
}

// stopsStep reports whether trying the next row is pointless.
func stopsStep(ctx context.Context, err error) bool {
	return mustStop(ctx, err) || errors.Is(err, store.ErrDirectory)
}

// mustStop reports whether the caller gave up or the database is unavailable. A lock that is
// not granted, and a row that is being moved, do not count as unavailable.
func mustStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, pawl.ErrUnavailable) && !locked(err)
}

// locked reports whether another transaction locks a row, or its namespace is being moved: the next sweep tries again.
func locked(err error) bool {
	return errors.Is(err, store.ErrLocked) || errors.Is(err, store.ErrFenced)
}

// lockWait bounds the wait for each lock of rows that can wait for the next pass.
const lockWait = 100 * time.Millisecond

// halve runs things in one transaction. If that fails it runs each half by itself, and
// so on, until each failing thing is alone: it is passed to failed and counted, and the
// others are done. halve returns an error only if the pass must end.
func halve[T any](ctx context.Context, p *pass, things []T, run func(ctx context.Context, things []T) error, failed func(T, error)) error {
	return store.Apart(ctx, things, run, func(err error) bool { return stopsStep(ctx, err) }, func(thing T, err error) {
		if locked(err) {
			p.Log.DebugContext(ctx, "another transaction locks a row; the next sweep tries again", "error", err)
			return
		}
		p.stats.Errors++
		failed(thing, err)
	})
}

// itemsReady reports items that became claimable.
func (p *pass) itemsReady(items []store.DueItem) {
	if p.onReady != nil && len(items) > 0 {
		p.onReady(items)
	}
}

// ended counts tasks that may be children, and may have ended, in the waits for them. If it
// fails, the engine counts them later.
func (s *Sweeper) ended(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	var ended store.ChildrenEnded
	err := s.DB.Do(store.WithLockWait(ctx, lockWait), func(ctx context.Context, tx store.Tx) (err error) {
		ended, err = store.EndTasks(ctx, tx, ids, nil)
		return err
	})
	if err != nil {
		s.Log.WarnContext(ctx, "children that ended are counted by the next pass", "error", err)
		return
	}
	s.ChildrenEnded(ctx, ended)
}

// ChildrenEnded reports what the ends of children have moved.
func (s *Sweeper) ChildrenEnded(ctx context.Context, ended store.ChildrenEnded) {
	if s.OnChildren != nil && (len(ended.Woken)+len(ended.Failed) > 0 || ended.Cancels) {
		s.OnChildren(ctx, ended)
	}
}

// ago is the time d before now.
func ago(now int64, d time.Duration) int64 { return now - d.Microseconds() }
