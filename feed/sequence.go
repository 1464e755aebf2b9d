package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// pageIDs bounds the events that get their positions in one transaction.
	pageIDs = 5000
	// runningInterval is the least time between two queries for the transactions in
	// progress.
	runningInterval = time.Second
)

// sequence assigns a position to every event that was committed before the call, and
// returns the newest.
//
// Events are numbered in their transactions, so a number can become visible after a
// higher one whose transaction was shorter. A number that was drawn and is not visible
// is a gap. Gaps are read again in every run, as long as a transaction runs that
// already ran when the gap was found. Gaps do not delay readers. The events of one run
// are in the order of their numbers: a change that depends on another change of its task
// waited for that commit and drew its number after it.
func (f *Feed) sequence(ctx context.Context) (s store.FeedState, err error) {
	if f.commits == nil {
		return f.newest(ctx)
	}
	for {
		s, needed, err := f.needsAssigning(ctx)
		if err != nil || !needed {
			return s, err
		}
		more, err := f.assign(ctx, &s)
		if err != nil || !more {
			return s, err
		}
	}
}

// newest is the state where an event's number is its position: the newest number, and the epochs,
// which begin when a copy is adopted.
func (f *Feed) newest(ctx context.Context) (s store.FeedState, err error) {
	if d := f.db.Dialect(); d.DataVersion {
		version, err := d.Changed(ctx)
		if err != nil {
			return s, err
		}
		if f.version != 0 && version == f.version {
			f.mu.Lock()
			defer f.mu.Unlock()
			return store.FeedState{Position: f.head, Epoch: f.state.Epoch, Starts: f.state.Starts}, nil
		}
		f.version = version
	}
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		logged, err := store.ReadFeed(ctx, tx)
		if err != nil {
			return err
		}
		s = store.FeedState{Epoch: logged.Epoch, Starts: logged.Starts}
		s.Position, err = store.NewestNumber(ctx, tx)
		return err
	})
	if err != nil {
		f.version = 0
	}
	return s, err
}

// needsAssigning reports, without a lock, whether there may be positions to assign.
func (f *Feed) needsAssigning(ctx context.Context) (s store.FeedState, needed bool, err error) {
	err = f.db.Dialect().Look(ctx, func(ctx context.Context, tx store.Tx) error {
		var at store.Server
		var drawn int64
		if s, at, drawn, err = f.commits.State(ctx, tx); err != nil {
			return err
		}
		if needed, _, err = f.wentBack(ctx, tx, s, at); err != nil || needed || at.Standby {
			return err
		}
		if needed = at.System != "" && s.Server.System != "" && at != s.Server; needed { // positions are from this server now
			return nil
		}
		if needed = f.lags.Swap(false); needed {
			return nil
		}
		if needed = s.Top > 0 && s.Server.System == "" && at.System != ""; needed { // an older version of the program assigned the positions
			return nil
		}
		if needed = drawn > s.Top; needed {
			return nil
		}
		found, err := f.commits.Among(ctx, tx, s.Gaps)
		needed = len(found) > 0 || len(s.Gaps) > 0 && clock.Now().Sub(f.runningAt) >= runningInterval
		return err
	})
	return s, needed, err
}

// assign assigns positions once. It locks the feed's row, so only one process does this at
// a time. A process that dies here leaves nothing behind, and one that is frozen loses
// its connection. more reports whether there is more to assign.
func (f *Feed) assign(ctx context.Context, out *store.FeedState) (more bool, err error) {
	var was store.FeedState
	var counted *store.Tally
	wrote := false
	err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		wrote = false
		drawn, err := f.commits.Drawn(ctx, tx)
		if err != nil {
			return err
		}
		s, err := store.LockFeedToCount(ctx, tx)
		if err != nil {
			return err
		}
		s.Edge = &f.edge
		was, *out = s, s
		if err := f.settleEpoch(ctx, tx, &s); err != nil {
			return err
		}
		// The gaps are read last: by then everything that an event above depends on is
		// visible.
		drawn = max(drawn, s.Top)
		fresh, err := store.Numbers(ctx, tx, s.Top, drawn, pageIDs)
		if err != nil {
			return err
		}
		if more = len(fresh) == pageIDs; more {
			drawn = fresh[pageIDs-1]
		}
		late, err := f.commits.Among(ctx, tx, s.Gaps)
		if err != nil {
			return err
		}
		old := removeNumbers(s.Gaps, late)
		if old, err = f.dropDeadGaps(ctx, tx, old); err != nil {
			return err
		}
		next := s
		next.Gaps, next.Top = append(slices.Clip(old), missing(s.Top, drawn, fresh)...), drawn
		ids, err := store.TakeRemovals(ctx, tx, &next)
		if err != nil {
			return err
		}
		ids = append(ids, slices.Sorted(slices.Values(append(late, fresh...)))...)
		if len(ids) == 0 && next.Top == s.Top && slices.Equal(next.Gaps, s.Gaps) && s.Epoch == was.Epoch && s.Server == was.Server {
			return nil
		}
		if counted, err = store.Position(ctx, tx, &next, ids); err != nil {
			return err
		}
		*out, wrote = next, true
		return nil
	})
	if err == nil && wrote {
		f.assigned = true
		f.count(counted)
		f.tellServer(ctx, was, *out)
	}
	return more && err == nil, err
}

// tellServer logs that a new epoch has begun, or that another server has all that was read.
func (f *Feed) tellServer(ctx context.Context, was, is store.FeedState) {
	if is.Epoch != was.Epoch {
		f.opts.Log.WarnContext(ctx,
			"the database went back in time, or may have: a new epoch of the feed begins; "+
				"a reader with an old position gets an error that says where to restart",
			"epoch", is.Epoch, "position", is.Starts[len(is.Starts)-1].Position, "was", was.Server, "is", is.Server)
	} else if was.Server.System != "" && was.Server != is.Server {
		f.opts.Log.InfoContext(ctx, "another database server answers; it has everything that this process has read",
			"position", was.Position, "was", was.Server, "is", is.Server)
	}
}

// pendingGap holds gaps and the transactions that were in progress when the gaps were
// found. Only these transactions can still fill them.
type pendingGap struct {
	gaps     []store.Span
	open     map[string]string // see store.Running
	prepared map[string]bool
	ended    bool // all have ended: a gap that the next query does not fill stays empty
}

// update removes the transactions that have ended since the last query. An open
// transaction may have been prepared meanwhile: it continues under its number, or, if
// that was not known, as any of those that were prepared lately.
func (w *pendingGap) update(r store.Running, recent []string) {
	for name, number := range w.open {
		now, open := r.Open[name]
		switch {
		case open:
			w.open[name] = now
			continue
		case number == "":
			for _, p := range recent {
				w.prepared[p] = true
			}
		default:
			w.prepared[number] = true
		}
		delete(w.open, name)
	}
	maps.DeleteFunc(w.prepared, func(number string, _ bool) bool { return !r.Prepared[number] })
	w.ended = len(w.open)+len(w.prepared) == 0
}

// dropDeadGaps removes the gaps that no transaction can fill any more: all transactions
// that were in progress after the gap was found have ended, and a read that began
// after that did not find the event either.
func (f *Feed) dropDeadGaps(ctx context.Context, tx store.Tx, gaps []store.Span) ([]store.Span, error) {
	f.pendingGaps = slices.DeleteFunc(f.pendingGaps, func(w pendingGap) bool { return len(intersect(w.gaps, gaps)) == 0 })
	if len(gaps) == 0 || clock.Now().Sub(f.runningAt) < runningInterval {
		return gaps, nil
	}
	f.runningAt = clock.Now()
	running, err := f.commits.Running(ctx, tx)
	if err != nil {
		return gaps, err
	}
	recent, err := f.notePrepared(ctx, tx, running.Prepared)
	if err != nil {
		return gaps, err
	}
	unseen := gaps
	kept := f.pendingGaps[:0]
	for _, w := range f.pendingGaps {
		unseen = subtract(unseen, w.gaps)
		if w.ended {
			gaps = subtract(gaps, w.gaps)
			continue
		}
		w.update(running, recent)
		kept = append(kept, w)
	}
	f.pendingGaps = kept
	if len(unseen) > 0 {
		w := pendingGap{gaps: unseen, open: running.Open, prepared: map[string]bool{}}
		for number, p := range f.prepared {
			if p.drawn >= unseen[0].Low {
				w.prepared[number] = true
			}
		}
		f.pendingGaps = append(f.pendingGaps, w)
	}
	return gaps, nil
}

// prepared is what is known of a prepared transaction. Its numbers are at most drawn,
// the highest number when it was first seen, so a newer gap cannot be its own.
type prepared struct {
	drawn int64
	again bool // it was seen before
}

// notePrepared records the prepared transactions, and returns those that are new since the
// last query.
func (f *Feed) notePrepared(ctx context.Context, tx store.Tx, now map[string]bool) (recent []string, err error) {
	known := map[string]prepared{}
	for number := range now {
		p, seen := f.prepared[number]
		if !seen {
			if p.drawn, err = f.commits.Drawn(ctx, tx); err != nil {
				return nil, err
			}
		}
		if !p.again {
			recent = append(recent, number)
		}
		known[number] = prepared{p.drawn, seen}
	}
	f.prepared = known
	return recent, nil
}
