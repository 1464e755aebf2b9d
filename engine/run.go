package engine

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/bulk"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/schedules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// peek is how often Run asks what falls due next. Run so finds short leases of other
// processes within that time, and sweeps an expired lease within a second.
const peek = 500 * time.Millisecond

const (
	passLimit = kernel.PassLimit // of one statement in a whole pass
	peekLimit = 10 * time.Second // of the statement that asks what falls due
	often     = 5 * time.Second  // between two looks at what other processes may have left
	seldom    = 30 * time.Second // between two looks at what peek finds, too
)

// Run does the time-driven work until ctx ends or the engine is closed. It sweeps leases
// when they expire, queues items when they are due, fires schedules and carries out bulk calls. Every scan interval one of the
// servers makes a whole pass: dead letters, stale tasks, keys, retention. Run also keeps
// the feed running, and writes and signs the transparency log. Any number of servers may run it. In one engine at
// most one Run works; another one waits.
//
// Run returns nil when it ends. If the database does not answer, it logs that and tries
// again. If a migration has excluded this program, every call is refused from then on and
// Run returns the error: the program must not use the schema any more.
func (e *Engine) Run(ctx context.Context) error {
	e.running.Lock()
	defer e.running.Unlock()
	if e.open.Err() != nil {
		return nil // closed meanwhile, or before
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(e.open, stop)()
	ctx = store.For(ctx, store.Background)
	e.active.Store(true)
	defer e.active.Store(false)
	var passes sync.WaitGroup
	defer passes.Wait()
	e.beginLoops(ctx, &passes)
	var lastSeen, lookedAt time.Time
	for ctx.Err() == nil {
		wait := peek
		if clock.Now().Sub(lookedAt) >= relocationsEvery && (lookedAt.IsZero() || e.k.Base.Moves.Known()) {
			lookedAt = clock.Now()
			e.learnMoves(ctx)
		}
		if e.k.Base.Moves.Refuse(ctx) != nil {
			e.tell(due{Due: store.Due{Asked: true}}) // nothing else is to be done here
		} else if next, err := e.quick(ctx); err != nil {
			e.logError(ctx, "the sweep failed; retrying", err)
		} else {
			wait = min(wait, max(next, time.Millisecond))
		}
		if clock.Now().Sub(lastSeen) >= often && e.k.Base.Moves.Refuse(ctx) == nil {
			lastSeen = clock.Now()
			if err := e.k.Base.Fits(ctx); err != nil {
				e.logError(ctx, "checking the schema failed; retrying", err)
			}
			for _, do := range e.k.Often {
				do(ctx)
			}
			if e.limited.Load() {
				if err := e.keyQueues(ctx); err != nil {
					e.logError(ctx, "giving gates to items failed; retrying", err)
				}
			}
		}
		if err := e.k.Base.Excluded(); err != nil {
			stop()
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// beginLoops begins what runs beside the loop of Run. In quarantine only the feed runs, in which what a
// copy is given can be read, until the quarantine is over.
func (e *Engine) beginLoops(ctx context.Context, passes *sync.WaitGroup) {
	passes.Go(func() { e.feed.Run(ctx) })
	e.k.Guard.Wait(ctx)
	passes.Go(func() { e.k.Guard.Answer(ctx, e.asked) })
	for _, loop := range e.k.Loops {
		passes.Go(func() { loop(ctx) })
	}
	passes.Go(func() { schedules.Loop(store.WithLimit(ctx, passLimit), e.timetables) })
	passes.Go(func() { e.advanceLoop(ctx) })
	passes.Go(func() { e.sweeper.Keep(store.WithLimit(ctx, passLimit)) }) // separate: retention may take longer than an expired lease may wait
}

// tell tells the loops what other processes have left to them.
func (e *Engine) tell(d due) {
	for loop, has := range map[chan struct{}]bool{e.logLags: d.Removals, e.asked: d.Asked} {
		if !has {
			continue
		}
		select {
		case loop <- struct{}{}:
		default: // it was told already
		}
	}
	if d.Children {
		e.k.Children.Tell()
	}
	if d.Steps {
		e.owed.Store(true)
	}
	e.limited.Store(d.Limits)
}

// busy is how soon Run looks again at what another server, or another loop, is doing.
const busy = 50 * time.Millisecond

// quick sweeps what is due now, and tells the loop of schedules. It returns the time until
// something is due next.
func (e *Engine) quick(ctx context.Context) (time.Duration, error) {
	for {
		d, err := e.nextDue(ctx)
		if err != nil {
			d.Steps, d.Limits, d.Children = true, true, true // perhaps
			e.tell(d)
			return peek, err
		}
		e.tell(d)
		if d.Moves && !e.k.Base.Moves.Known() {
			e.learnMoves(ctx)
		}
		wait := peek
		if d.Schedule != nil && *d.Schedule <= d.now {
			wait = busy
			schedules.Tell(e.timetables)
		} else if d.Schedule != nil {
			wait = min(wait, time.Duration(*d.Schedule-d.now)*time.Microsecond)
		}
		if d.At == nil || e.k.Base.Moves.Refuse(ctx) != nil {
			return wait, nil
		}
		if *d.At > d.now {
			return min(wait, time.Duration(*d.At-d.now)*time.Microsecond), nil
		}
		s, err := e.sweeper.Quick(ctx)
		if err != nil || s.ExpiredFound+s.Due+s.GivenUp == 0 {
			return busy, err // another server is sweeping it
		}
	}
}

// due is what falls due next, and the present time.
type due struct {
	store.Due
	now int64 // 0 = nothing has a time
}

func (e *Engine) nextDue(ctx context.Context) (d due, err error) {
	err = e.k.Base.Look(store.WithLimit(ctx, peekLimit), func(ctx context.Context, tx store.Tx) (err error) {
		var resting []string
		if schedules.Rests(e.timetables) {
			if d.now, err = tx.Now(ctx); err != nil {
				return err
			}
			resting = schedules.Resting(e.timetables, d.now)
		}
		d.Due, err = store.NextDue(ctx, tx, resting...)
		if err == nil && (d.At != nil || d.Schedule != nil) {
			d.now, err = tx.Now(ctx)
		}
		return err
	})
	return d, err
}

// Sweep brings the transparency log up to date and makes one whole pass; see pawl.Sweeper.
func (e *Engine) Sweep(ctx context.Context) (pawl.SweepStats, error) {
	if err := e.acts(ctx, "sweep"); err != nil {
		return pawl.SweepStats{}, err
	}
	if err := e.notInTx("sweep"); err != nil {
		return pawl.SweepStats{}, err
	}
	s, err := e.tick(store.WithLimit(store.For(ctx, store.Background), passLimit))
	return s.SweepStats, err
}

// Tick does once what Run does all the time; see pawl.Sweeper.
func (e *Engine) Tick(ctx context.Context) (pawl.Ticked, error) {
	if err := e.acts(ctx, "tick"); err != nil {
		return pawl.Ticked{}, err
	}
	if err := e.notInTx("tick"); err != nil {
		return pawl.Ticked{}, err
	}
	ctx = store.WithLimit(store.For(ctx, store.Background), passLimit)
	did, err := e.tick(ctx)
	if err == nil { // what the sweep has written, for relays
		err = e.unlessLocked(ctx, e.feed.Log)
	}
	if err != nil {
		return pawl.Ticked{}, err
	}
	d, err := e.nextDue(ctx)
	out := pawl.Ticked{Did: did}
	for _, at := range []*int64{d.At, d.Schedule, schedules.RestUntil(e.timetables, d.now)} {
		if at != nil {
			out.Again(store.Stamp(*at))
		}
	}
	return out, err
}

func (e *Engine) tick(ctx context.Context) (s pawl.TickStats, err error) {
	if err := e.unlessLocked(ctx, e.feed.Log); err != nil { // before retention removes events
		return s, err
	}
	if e.opts.TransparencyLog.Key != "" {
		if _, err := e.SignLog(ctx); err != nil {
			e.logError(ctx, "the transparency log was not signed", err)
		}
	}
	err = e.unlessLocked(ctx, func(ctx context.Context) error { return e.feed.CountOld(ctx, math.MaxInt) })
	if err != nil {
		return s, err
	}
	s.SweepStats, err = e.sweeper.Pass(ctx)
	fire := func(ctx context.Context) (err error) {
		s.Fired, err = schedules.Fire(ctx, e.timetables)
		return err
	}
	for _, step := range []func(context.Context) error{fire, e.advanceAll, e.keyQueues,
		func(ctx context.Context) error { return bulk.Run(ctx, e.bulks, bulk.InSweep) }, e.k.Children.Settle} {
		if err == nil {
			err = e.unlessLocked(ctx, step)
		}
	}
	return s, err
}

// unlessLocked runs a step of a sweep. What another transaction locks is left to the next sweep.
func (e *Engine) unlessLocked(ctx context.Context, step func(context.Context) error) error {
	err := step(ctx)
	if errors.Is(err, store.ErrLocked) {
		e.k.LeftAside(ctx, "a step of the sweep is left to the next one", err)
		return nil
	}
	return err
}

// Prunable counts what Sweep would remove now; see pawl.Sweeper.
func (e *Engine) Prunable(ctx context.Context) (pawl.Prunable, error) {
	if err := e.notInTx("prunable"); err != nil {
		return pawl.Prunable{}, err
	}
	return e.sweeper.Preview(store.WithLimit(store.For(ctx, store.Background), passLimit))
}

// ListSweeps lists passes, newest first.
func (e *Engine) ListSweeps(ctx context.Context, p pawl.Page) (pawl.List[pawl.SweepStats], error) {
	if err := rules.CheckPage(&p); err != nil {
		return pawl.List[pawl.SweepStats]{}, err
	}
	var before int64
	if p.Cursor != "" {
		var err error
		if before, err = strconv.ParseInt(p.Cursor, 10, 64); err != nil {
			return pawl.List[pawl.SweepStats]{}, pawl.Invalid("/cursor", "is not a cursor of this list")
		}
	}
	return view(forAll(ctx), e, func(ctx context.Context, tx store.Tx, _ string) (pawl.List[pawl.SweepStats], error) {
		rows, last, err := e.sweeper.Passes(ctx, tx, before, p.Limit)
		out := pawl.List[pawl.SweepStats]{Items: rows}
		if rows == nil {
			out.Items = []pawl.SweepStats{}
		}
		if len(rows) == p.Limit {
			out.Next = strconv.FormatInt(last, 10)
		}
		return out, err
	})
}

// sweeps reads what the passes of the sweep did, and the settings in force.
func (e *Engine) sweeps(ctx context.Context, tx store.Tx) (s pawl.SweepTotals, ages pawl.SweepOptions, err error) {
	s, err = e.sweeper.Totals(ctx, tx)
	if err != nil {
		return s, ages, err
	}
	s.IsRunning = s.IsRunning || e.active.Load()
	ages, err = e.sweeper.InForce(ctx, tx)
	s.Settings = e.sweeper.Text(ages)
	return s, ages, err
}
