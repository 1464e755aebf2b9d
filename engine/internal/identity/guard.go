// Package identity keeps a copy of a database still. A database remembers the places where it may
// act. An engine that opens it at another place is quarantined, until the place is added: by
// `pawl adopt`, because the database expects it, or because an engine at a known place answers a
// question that this one has written. That engine sees the question only if it is the same
// database, under another name.
package identity

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// answerTime is how long a question is valid, and how long an engine is not sure.
	answerTime = 10 * time.Second
	// lookEvery is how often a quarantined engine looks whether it may act.
	lookEvery = time.Second
	// answerEvery is how often an engine that may act looks for questions of which it is not told, and answerGap how often
	// at most.
	answerEvery, answerGap = answerTime, 2 * time.Second
	// actWait bounds how long a call waits while an answer may come.
	actWait = 5 * time.Second
	// logEvery is how often a quarantined engine logs that it waits.
	logEvery = time.Minute
)

// Options of a Guard; DB and Log are required.
type Options struct {
	DB  store.DB
	Log *slog.Logger
	// Lifted is called before the first act after a quarantine; nil = not called. An error
	// postpones it.
	Lifted func(ctx context.Context) error
}

// Guard says whether an engine may act. The zero value says that it may.
type Guard struct {
	options Options
	why     atomic.Pointer[string] // nil = it may act
	test    atomic.Bool
	sure    chan struct{} // closed when no answer is awaited
	lifted  chan struct{} // closed when it may act again
	now     chan struct{} // tells watch to look at once
	asks    bool          // questions can be answered: other processes may use another name
	asked   int64         // when the newest question was written, by the database's clock
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// State is what a guard knows of the place.
type State struct {
	Quarantined bool     `json:"quarantined"`
	Why         *string  `json:"why"`
	Place       string   `json:"place"`
	KnownPlaces []string `json:"known_places"`
}

// Open finds out whether the database may act at its place. The first place of a database is
// known from then on.
func Open(ctx context.Context, o Options) (*Guard, error) {
	g := &Guard{options: o, sure: make(chan struct{}), lifted: make(chan struct{}), now: make(chan struct{}, 1)}
	at, rows, err := g.read(ctx)
	if err != nil {
		return nil, err
	}
	g.asks = at.Address != ""
	if !known(rows, at) {
		if at, rows, err = g.enter(ctx); err != nil {
			return nil, err
		}
	}
	g.test.Store(has(rows, placeTest))
	if rows == nil || known(rows, at) {
		return g, nil
	}
	why := reason(rows, at)
	g.why.Store(&why)
	if err := g.begin(ctx, at); err != nil {
		o.Log.Warn("the quarantine could not be noted in the database", "error", err)
	}
	run, stop := context.WithCancel(store.For(context.Background(), store.Background))
	g.stop = stop
	g.work.Go(func() { g.watch(run) })
	return g, nil
}

// Close ends the guard's work.
func (g *Guard) Close() {
	if g != nil && g.stop != nil {
		g.stop()
		g.work.Wait()
	}
}

func (g *Guard) read(ctx context.Context) (at store.Place, rows []PlaceRow, err error) {
	d := g.options.DB.Dialect()
	err = g.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		if at, err = d.Place(ctx, tx, false); err != nil {
			return err
		}
		rows, err = Places(ctx, tx)
		return err
	})
	return at, rows, err
}

// enter makes the place known if the database has none, or expects this one. It returns the place, and the rows, nil in
// that case.
func (g *Guard) enter(ctx context.Context) (at store.Place, left []PlaceRow, err error) {
	d := g.options.DB.Dialect()
	err = g.options.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if _, err := store.LockFeed(ctx, tx); err != nil { // one engine at a time
			return err
		}
		if at, err = d.Place(ctx, tx, false); err != nil {
			return err
		}
		if left, err = Places(ctx, tx); err != nil || known(left, at) {
			return err
		}
		how := ""
		switch {
		case !has(left, placeKnown):
			how = "first"
		case find(left, PlaceExpected, at.Named) >= 0:
			how = "expected"
		default:
			return nil
		}
		if err := forgetPlace(ctx, tx, PlaceExpected, at.Named); err != nil {
			return err
		}
		if err := forgetPlace(ctx, tx, placeFound, ""); err != nil {
			return err
		}
		test := has(left, placeTest)
		if left = nil; test {
			left = []PlaceRow{{Kind: placeTest}}
		}
		return put(ctx, tx, d, how)
	})
	return at, left, err
}

// put makes the present place known.
func put(ctx context.Context, tx store.Tx, d *store.Dialect, how string) error {
	at, err := d.Place(ctx, tx, true)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return PutPlace(ctx, tx, PlaceRow{Kind: placeKnown, Place: at.Text(), How: how, CreatedAt: now})
}

// begin notes how much the copy shares with its original, and asks whether it is one.
func (g *Guard) begin(ctx context.Context, at store.Place) error {
	return g.options.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		s, err := store.LockFeed(ctx, tx)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		found := PlaceRow{Kind: placeFound, Position: s.Position, Leaves: s.Position, CreatedAt: now}
		if g.options.DB.Dialect().Commits == nil {
			if found.Position, err = store.NewestNumber(ctx, tx); err != nil {
				return err
			}
		}
		if err := PutPlace(ctx, tx, found); err != nil || !g.asks {
			return err
		}
		g.asked = now
		return PutPlace(ctx, tx, PlaceRow{Kind: placeAsked, Place: at.Text(), CreatedAt: now})
	})
}

// Trusted returns a guard that always lets act, and knows no place.
func Trusted() *Guard { return &Guard{} }

// Trusting reports whether the guard is one of Trusted.
func (g *Guard) Trusting() bool { return g.sure == nil }

// Quarantined reports whether nothing may act.
func (g *Guard) Quarantined() bool { return g.why.Load() != nil }

// Why says why nothing may act; "" = it may.
func (g *Guard) Why() string {
	if why := g.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Test reports whether the database is a copy for tests, whose schedules and relays are off.
func (g *Guard) Test() bool { return g.test.Load() }

// Act refuses a call that acts. While it is not sure that the database is a copy, the call waits
// for some seconds.
func (g *Guard) Act(ctx context.Context, op string) error {
	if g.why.Load() == nil {
		return nil
	}
	timer := time.NewTimer(actWait)
	defer timer.Stop()
	select {
	case <-g.sure:
	case <-g.lifted:
	case <-timer.C:
	case <-ctx.Done():
	}
	why := g.why.Load()
	if why == nil {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeQuarantined, Op: op, Message: "the database is a copy or was moved, so nothing acts: " + *why +
		". `pawl adopt` makes it the one that acts, `pawl adopt --as-copy` a copy for tests"}
}

// Wait returns when the engine may act, or ctx ends. It logs that it waits.
func (g *Guard) Wait(ctx context.Context) {
	for waited := false; ; waited = true {
		why := g.why.Load()
		if why == nil {
			if waited {
				g.options.Log.InfoContext(ctx, "the quarantine is over: the database acts", "copy_for_tests", g.Test())
			}
			return
		}
		g.options.Log.WarnContext(ctx, "the database is quarantined: waiting for `pawl adopt` or `pawl adopt --as-copy`", "why", *why)
		timer := time.NewTimer(logEvery)
		select {
		case <-g.lifted:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Now returns the state, once no answer is awaited.
func (g *Guard) Now(ctx context.Context) (State, error) {
	if g.why.Load() != nil {
		select {
		case <-g.sure:
		case <-g.lifted:
		case <-ctx.Done():
			return State{}, ctx.Err()
		}
	}
	at, rows, err := g.read(ctx)
	out := State{Place: at.String(), KnownPlaces: []string{}}
	if out.Why = g.why.Load(); out.Why != nil {
		out.Quarantined = true
	}
	for _, r := range rows {
		if r.Kind == placeKnown && r.How != backup {
			out.KnownPlaces = append(out.KnownPlaces, placeOf(r.Place).String())
		}
	}
	return out, err
}

// Lift looks at once whether the engine may act.
func (g *Guard) Lift(ctx context.Context) {
	select {
	case g.now <- struct{}{}:
	case <-ctx.Done():
		return
	}
	select {
	case <-g.lifted:
	case <-ctx.Done():
	}
}

// watch looks whether the engine may act, until it may.
func (g *Guard) watch(ctx context.Context) {
	sure := clock.Now().Add(answerTime)
	if !g.asks {
		close(g.sure)
	}
	for waiting := g.asks; ; {
		if g.look(ctx) {
			close(g.lifted)
			return
		}
		if waiting && !clock.Now().Before(sure) {
			close(g.sure)
			waiting = false
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-timer.C:
		case <-g.now:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look lifts the quarantine if the place has become known, and repeats the question before it is
// too old.
func (g *Guard) look(ctx context.Context) (may bool) {
	at, rows, err := g.read(ctx)
	if err == nil && !known(rows, at) && find(rows, PlaceExpected, at.Named) >= 0 {
		if _, _, err = g.enter(ctx); err == nil {
			at, rows, err = g.read(ctx)
		}
	}
	switch {
	case err != nil || !known(rows, at):
		if err == nil && g.asks {
			err = g.askAgain(ctx, at)
		}
	default:
		g.test.Store(has(rows, placeTest))
		if g.options.Lifted != nil {
			err = g.options.Lifted(ctx)
		}
		if may = err == nil; may {
			g.why.Store(nil)
		}
	}
	if err != nil && ctx.Err() == nil {
		g.options.Log.Warn("looking whether the database is adopted failed; retrying", "error", err)
	}
	return may
}

func (g *Guard) askAgain(ctx context.Context, at store.Place) error {
	return g.options.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil || now-g.asked < (answerTime/2).Microseconds() {
			return err
		}
		g.asked = now
		return PutPlace(ctx, tx, PlaceRow{Kind: placeAsked, Place: at.Text(), CreatedAt: now})
	})
}
