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
	// Small pages are packed when there are so many of them, or so many events in
	// them: a lone event's page is one row.
	loosePages, looseIDs = 64, 2048
	// witnessEvery is how often at most the transactions under way are asked for.
	witnessEvery = time.Second
)

// sequence gives positions to every event that was committed when it was called,
// and says what the newest is.
//
// A number may come to light after a higher one: its transaction took longer.
// So what matters is which numbers were drawn, not which are to be seen: one that
// was drawn and is not to be seen is a gap, looked for at every turn for as long
// as any transaction is under way that was when the gap was found. It does not
// delay readers. Events of one turn come in order of their numbers: a change
// that knew of another one of its task had waited for its commit, and drew its
// number after it.
func (f *Feed) sequence(ctx context.Context) (s store.FeedState, err error) {
	if f.commits == nil {
		s.Position, err = f.newest(ctx)
		return s, err
	}
	for {
		s, ripe, err := f.glance(ctx)
		if err != nil || !ripe {
			return s, err
		}
		more, err := f.give(ctx, &s)
		if err != nil || !more {
			return s, err
		}
	}
}

// newest is the position of the newest event where numbers are positions.
func (f *Feed) newest(ctx context.Context) (id int64, err error) {
	if ask := f.db.Dialect().Changed; ask != nil {
		version, err := ask(ctx)
		if err != nil {
			return 0, err
		}
		if f.version != 0 && version == f.version {
			return f.Newest(), nil
		}
		f.version = version
	}
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		id, err = store.NewestNumber(ctx, tx)
		return err
	})
	if err != nil {
		f.version = 0
	}
	return id, err
}

// glance says whether there is anything to give a position to, without a lock.
func (f *Feed) glance(ctx context.Context) (s store.FeedState, ripe bool, err error) {
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		if s, err = store.ReadFeed(ctx, tx); err != nil {
			return err
		}
		at, err := f.commits.Server(ctx, tx)
		if err != nil {
			return err
		}
		if ripe, err = f.regressed(s, at); err != nil || ripe || at.Standby {
			return err
		}
		if ripe = s.Top > 0 && s.Server.System == "" && at.System != ""; ripe { // an older program gave the positions
			return nil
		}
		drawn, err := f.commits.Drawn(ctx, tx)
		if err != nil || drawn > s.Top {
			ripe = err == nil
			return err
		}
		found, err := f.commits.Among(ctx, tx, s.Gaps)
		ripe = len(found) > 0 || len(s.Gaps) > 0 && clock.Now().Sub(f.asked) >= witnessEvery
		return err
	})
	return s, ripe, err
}

// give is one turn. The row that it locks makes it the only one, in whichever
// process; a process that dies in it leaves nothing, and one that stands still
// in it loses its connection. More: there is more to give.
func (f *Feed) give(ctx context.Context, out *store.FeedState) (more bool, err error) {
	var was store.FeedState
	gave := false
	err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		gave = false
		drawn, err := f.commits.Drawn(ctx, tx)
		if err != nil {
			return err
		}
		s, err := store.LockFeed(ctx, tx)
		if err != nil {
			return err
		}
		was, *out = s, s
		if err := f.settleEpoch(ctx, tx, &s); err != nil {
			return err
		}
		// The gaps last: whatever an event above knew of is to be seen by then.
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
		old := without(s.Gaps, late)
		if old, err = f.outlived(ctx, tx, old); err != nil {
			return err
		}
		next := s
		next.Gaps, next.Top = append(slices.Clip(old), missing(s.Top, drawn, fresh)...), drawn
		ids := slices.Sorted(slices.Values(append(late, fresh...)))
		if len(ids) == 0 && next.Top == s.Top && slices.Equal(next.Gaps, s.Gaps) && s.Epoch == was.Epoch && s.Server == was.Server {
			return nil
		}
		if err := write(ctx, tx, &next, ids); err != nil {
			return err
		}
		*out, gave = next, true
		return nil
	})
	if err == nil && gave {
		f.gave = true
		if out.Epoch != was.Epoch {
			f.opts.Log.WarnContext(ctx, "the database went back in time, or may have: a new epoch of the feed begins; readers of the old one are told where to restart",
				"epoch", out.Epoch, "position", was.Position, "was", was.Server, "is", out.Server)
		}
	}
	return more && err == nil, err
}

// write puts the page of numbers behind the newest, and moves the feed.
func write(ctx context.Context, tx store.Tx, s *store.FeedState, ids []int64) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		first := s.Position + 1
		if err := store.PutPage(ctx, tx, now, store.FeedPage{First: first, IDs: ids}); err != nil {
			return err
		}
		if s.Loose == 0 {
			s.Loose = first
		}
		s.Position, s.Pages, s.IDs = s.Position+int64(len(ids)), s.Pages+1, s.IDs+len(ids)
		if s.Pages >= loosePages || s.IDs >= looseIDs {
			if s.Pages > 1 {
				if err := store.PackPages(ctx, tx, now, s.Loose, first); err != nil {
					return err
				}
			}
			s.Loose, s.Pages, s.IDs = 0, 0, 0
		}
	}
	return store.MoveFeed(ctx, tx, now, *s)
}

// witness is gaps, and the transactions that were under way when they had been
// found: only these can still fill them.
type witness struct {
	gaps     []store.Span
	open     map[string]string // see store.Running
	prepared map[string]bool
	over     bool // all have ended: what the next look does not find is nowhere
}

// follow takes away what has ended since the last look. What was open may have been
// prepared: it goes on under its number, or, where that was not known, as any of
// those that were prepared lately.
func (w *witness) follow(r store.Running, lately []string) {
	for name, number := range w.open {
		now, open := r.Open[name]
		switch {
		case open:
			w.open[name] = now
			continue
		case number == "":
			for _, p := range lately {
				w.prepared[p] = true
			}
		default:
			w.prepared[number] = true
		}
		delete(w.open, name)
	}
	maps.DeleteFunc(w.prepared, func(number string, _ bool) bool { return !r.Prepared[number] })
	w.over = len(w.open)+len(w.prepared) == 0
}

// outlived removes the gaps that no transaction can fill any more: all transactions
// that were in progress after the gap was found have ended, and a read that began
// after that did not find the event either.
func (f *Feed) outlived(ctx context.Context, tx store.Tx, gaps []store.Span) ([]store.Span, error) {
	f.witnesses = slices.DeleteFunc(f.witnesses, func(w witness) bool { return len(common(w.gaps, gaps)) == 0 })
	if len(gaps) == 0 || clock.Now().Sub(f.asked) < witnessEvery {
		return gaps, nil
	}
	f.asked = clock.Now()
	running, err := f.commits.Running(ctx, tx)
	if err != nil {
		return gaps, err
	}
	lately, err := f.know(ctx, tx, running.Prepared)
	if err != nil {
		return gaps, err
	}
	unseen := gaps
	kept := f.witnesses[:0]
	for _, w := range f.witnesses {
		unseen = less(unseen, w.gaps)
		if w.over {
			gaps = less(gaps, w.gaps)
			continue
		}
		w.follow(running, lately)
		kept = append(kept, w)
	}
	f.witnesses = kept
	if len(unseen) > 0 {
		w := witness{gaps: unseen, open: running.Open, prepared: map[string]bool{}}
		for number, p := range f.prepared {
			if p.drawn >= unseen[0].Low {
				w.prepared[number] = true
			}
		}
		f.witnesses = append(f.witnesses, w)
	}
	return gaps, nil
}

// prepared is what is known of a prepared transaction: its numbers are not above
// what had been drawn when it was first seen, so that a newer gap is not its own.
type prepared struct {
	drawn int64
	again bool // it was seen before
}

// know takes up what is prepared now, and says what was not before the last look.
func (f *Feed) know(ctx context.Context, tx store.Tx, now map[string]bool) (lately []string, err error) {
	known := map[string]prepared{}
	for number := range now {
		p, seen := f.prepared[number]
		if !seen {
			if p.drawn, err = f.commits.Drawn(ctx, tx); err != nil {
				return nil, err
			}
		}
		if !p.again {
			lately = append(lately, number)
		}
		known[number] = prepared{p.drawn, seen}
	}
	f.prepared = known
	return lately, nil
}
