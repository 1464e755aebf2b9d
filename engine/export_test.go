package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// The reads whose plans are examined.
var (
	ListPartsIn     = partsIn
	ListProvenances = provenancesPage
	Monitored       = monitored
)

// Hears reports whether this process gets notices of other processes. It begins to
// listen.
func (e *Engine) Hears() bool {
	e.hub.Attend()
	return e.hub.Listening()
}

// AdvanceOwed does one pass of Run's loop that takes owed steps.
func (e *Engine) AdvanceOwed(ctx context.Context) error {
	e.owed.Store(true) // as the look that finds them does
	return e.advanceOwed(ctx)
}

// Peek reads an archive; see archives.Keeper.
func (e *Engine) Peek(ctx context.Context, db store.DB, of string, fn func(context.Context, store.Tx, bool) error) error {
	return archives.Of(e.archived).Peek(ctx, db, pawl.DefaultNamespace, of, fn)
}

// Told reports whether another process reported work since the last read from the start.
func (e *Engine) Told() bool {
	_, told := e.queues.IsEmpty(pawl.DefaultNamespace, nil, nil)
	return told
}

// spyDB counts write transactions: how many have begun, and how many are open.
type spyDB struct {
	store.DB
	begun, open atomic.Int32
}

func (s *spyDB) count(fn func(context.Context, store.Tx) error) func(context.Context, store.Tx) error {
	return func(ctx context.Context, tx store.Tx) error {
		s.begun.Add(1)
		s.open.Add(1)
		defer s.open.Add(-1)
		return fn(ctx, tx)
	}
}

func (s *spyDB) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return s.DB.Do(ctx, s.count(fn))
}

func (s *spyDB) Auto(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return s.DB.Auto(ctx, s.count(fn))
}

func (s *spyDB) Whole(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return s.DB.Whole(ctx, s.count(fn))
}

// Spy makes an engine that is not in use yet count write transactions: how many have
// begun, and how many are open.
func (e *Engine) Spy() (begun, open func() int32) {
	under := e.k.Base
	s := &spyDB{DB: under.DB}
	under.DB = s
	return s.begun.Load, s.open.Load
}

// timedDB notes how long transactions last, from their beginning to the end of their commit.
type timedDB struct {
	store.DB
	mu            sync.Mutex
	writes, reads []time.Duration
}

type doing func(context.Context, func(context.Context, store.Tx) error) error

func (t *timedDB) time(ctx context.Context, into *[]time.Duration, run doing, fn func(context.Context, store.Tx) error) error {
	var began time.Time
	err := run(ctx, func(ctx context.Context, tx store.Tx) error {
		began = time.Now()
		return fn(ctx, tx)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	*into = append(*into, time.Since(began))
	return err
}

func (t *timedDB) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return t.time(ctx, &t.writes, t.DB.Do, fn)
}

func (t *timedDB) View(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return t.time(ctx, &t.reads, t.DB.View, fn)
}

// Time makes an engine that is not in use note how long its transactions last. taken returns
// those that have ended since it was last called, the shortest first.
func (e *Engine) Time() (taken func() (writes, reads []time.Duration)) {
	t := &timedDB{DB: e.k.Base.DB}
	e.k.Base.DB = t
	return func() (writes, reads []time.Duration) {
		t.mu.Lock()
		defer t.mu.Unlock()
		writes, reads, t.writes, t.reads = t.writes, t.reads, nil, nil
		slices.Sort(writes)
		slices.Sort(reads)
		return writes, reads
	}
}

// losingDB loses the outcomes of the transactions that it is told to: first they are not
// carried out, then they commit and the caller never learns of it.
type losingDB struct {
	store.DB
	undone, unknown atomic.Int32
}

func (l *losingDB) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	lost := &pawl.Error{Code: pawl.CodeUnavailable, Message: "the connection is lost", Err: store.ErrLost}
	if l.undone.Add(-1) >= 0 {
		return lost
	}
	err := l.DB.Do(ctx, fn)
	if l.unknown.Add(-1) >= 0 {
		return cmp.Or(err, error(lost))
	}
	return err
}

// Lose makes an engine that is not in use yet lose the outcomes of transactions: of as
// many as lose says, first those that are undone.
func (e *Engine) Lose() (lose func(undone, unknown int32)) {
	l := &losingDB{DB: e.k.Base.DB}
	e.k.Base.DB = l
	return func(undone, unknown int32) {
		l.undone.Store(undone)
		l.unknown.Store(unknown)
	}
}

// LeaveTo changes how long a claim leaves what its worker lost to others.
func (e *Engine) LeaveTo(d time.Duration) { e.leaveTo = d }

// FoundNothing reports whether a claim of types has found that there is no work of them, and
// none has come since.
func (e *Engine) FoundNothing(types ...string) bool {
	empty, _ := e.queues.IsEmpty(pawl.DefaultNamespace, types, e.queues.Next(pawl.DefaultNamespace))
	return empty
}

// TryAgain makes the claims that wait try again.
func (e *Engine) TryAgain() { e.hub.Wake(watch.Work(pawl.DefaultNamespace)) }

// AgeGates makes what this process knows of gates older by d.
func (e *Engine) AgeGates(d time.Duration) {
	e.limits.mu.Lock()
	defer e.limits.mu.Unlock()
	for k, g := range e.limits.gates {
		if !g.until.IsZero() {
			g.until = g.until.Add(-d)
			e.limits.gates[k] = g
		}
	}
}

// LookForMoves reads the moves of the database.
func (e *Engine) LookForMoves(ctx context.Context) error { return e.k.Base.LookForMoves(ctx) }

// ForgetMoves removes what the database knows of moves.
func (e *Engine) ForgetMoves(ctx context.Context) error {
	err := e.k.Base.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM pawl.relocations")
		return err
	})
	return errors.Join(err, e.k.Base.LookForMoves(ctx))
}

// ForgetLimits has this process read the limits of queues again, as after some seconds.
func (e *Engine) ForgetLimits() {
	e.limits.mu.Lock()
	defer e.limits.mu.Unlock()
	e.limits.known = map[string]*namespaceLimits{}
}

// ForgetGates has this process read the numbers of keys again, as after some minutes.
func (e *Engine) ForgetGates() { e.limits.forgetGates() }

// Declared are the declarations of the rooms.
func Declared() []kernel.Room { return declared() }

// Rules are the rules of the doctor.
func Rules() []store.RuleSearch { return doctorRules() }
