package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Interval is the time between two whole passes.
func (s *Sweeper) Interval() time.Duration {
	if s.Options.ScanIntervalSeconds <= 0 {
		return pawl.DefaultSweepInterval
	}
	return time.Duration(s.Options.ScanIntervalSeconds) * time.Second
}

// Tick runs a pass unless a server ran one within the interval; did says whether this
// one did. It saves work; correctness does not depend on it.
func (s *Sweeper) Tick(ctx context.Context) (stats pawl.SweepStats, did bool, err error) {
	err = s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		interval := s.Interval() * 19 / 20 // timers are not exact
		o, err := s.InForce(ctx, tx)
		if err == nil && !s.hasArchives(o) { // it removes no tasks: those that may come first
			interval *= 3
		}
		if err == nil {
			did, err = takeTick(ctx, tx, tickCursor, interval)
		}
		return err
	})
	if err != nil || !did {
		return stats, did, err
	}
	stats, err = s.Pass(ctx)
	return stats, did, err
}

// Keep calls Tick until ctx ends: at once, then every interval. Errors are logged; the
// next tick tries again.
func (s *Sweeper) Keep(ctx context.Context) {
	timer := time.NewTicker(s.Interval())
	defer timer.Stop()
	for ctx.Err() == nil {
		err := s.Store(ctx) // what it was given counts from now on, whichever process makes the passes
		if err == nil {
			_, _, err = s.Tick(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "the sweep failed; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// recordCursor is the position of a reader of the event log. The reader has read everything up
// to Position, except for the tasks in Again, which failed and are to be tried again, and for
// events that were not visible yet.
type recordCursor struct {
	Position int64    `json:"-"`
	Again    []string `json:"again,omitempty"`
	Unseen   []unseen `json:"unseen,omitempty"`

	Settings map[string]json.RawMessage `json:"settings,omitempty"` // of retention, in a row of their own
}

// unseen are numbers below the position of a cursor of which no event was visible when the cursor
// passed them. Transactions below Before may still commit events of these numbers.
type unseen struct {
	Low    int64 `json:"low"`
	High   int64 `json:"high"`
	Before int64 `json:"before"`
}

// Has reports whether a number is among those that were not visible.
func (c *recordCursor) Has(number int64) bool {
	return slices.ContainsFunc(c.Unseen, func(l unseen) bool { return l.Low <= number && number <= l.High })
}

// maxUnseen bounds the ranges that a cursor keeps; neighbours become one if there are more. Events
// between them are then read again.
const maxUnseen = 1000

// Wait adds ranges that were not visible, and removes those that are done.
func (c *recordCursor) Wait(more, done []unseen) {
	var out []unseen
	for _, l := range append(slices.Clone(c.Unseen), more...) {
		if !slices.Contains(done, l) && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b unseen) int { return cmp.Compare(a.Low, b.Low) })
	for len(out) > maxUnseen {
		var half []unseen
		for pair := range slices.Chunk(out, 2) {
			last := pair[len(pair)-1]
			half = append(half, unseen{pair[0].Low, max(pair[0].High, last.High), max(pair[0].Before, last.Before)})
		}
		out = half
	}
	c.Unseen = out
}

// KeepAgain replaces those of the tasks to try again that were looked at by those of them that are still to be tried.
func (c *recordCursor) KeepAgain(looked, again []string) {
	others := slices.DeleteFunc(c.Again, func(id string) bool { return slices.Contains(looked, id) })
	c.Again = slices.Compact(slices.Sorted(slices.Values(append(others, again...))))
}

// cursorOf reads a cursor. A cursor that was never moved is at the beginning.
func cursorOf(ctx context.Context, tx store.Tx, name string) (recordCursor, error) {
	return readCursor(ctx, tx, name, "cursor")
}

// lockCursor reads a cursor and keeps other transactions from moving it until this one
// ends.
func lockCursor(ctx context.Context, tx store.Tx, name string) (recordCursor, error) {
	if err := store.StartCursor(ctx, tx, name); err != nil {
		return recordCursor{}, err
	}
	return readCursor(ctx, tx, name, "hold cursor")
}

func readCursor(ctx context.Context, tx store.Tx, name, query string) (recordCursor, error) {
	var c recordCursor
	var detail string
	found, err := store.Row(ctx, tx, []any{&c.Position, &detail}, sweepSQL[query], name)
	if err != nil || !found {
		return c, err
	}
	return c, json.Unmarshal([]byte(detail), &c)
}

// moveCursor moves a cursor that lockCursor has read. It never moves it back.
func moveCursor(ctx context.Context, tx store.Tx, now int64, name string, c recordCursor) error {
	detail, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sweepSQL["move cursor"], name, c.Position, string(detail), now)
	return err
}

// setAside keeps tasks of a cursor that are to be tried again in a list of their own: a cursor whose position is 0.
func setAside(ctx context.Context, tx store.Tx, now int64, cursor, id string, tasks []string) error {
	list := cursor + aside + id
	if err := store.StartCursor(ctx, tx, list); err != nil {
		return err
	}
	return moveCursor(ctx, tx, now, list, recordCursor{Again: tasks})
}

// aside is what comes between the name of a cursor and the id of a list of its tasks.
const aside = ".left."

// listsOf returns the names of up to limit lists of tasks of a cursor that were set aside, first those that were looked at
// longest ago.
func listsOf(ctx context.Context, tx store.Tx, cursor string, limit int) (lists []string, err error) {
	from := cursor + aside
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		lists = append(lists, "")
		return rows.Scan(&lists[len(lists)-1])
	}, sweepSQL["lists of"], from, from[:len(from)-1]+"/", limit)
	return lists, err
}

// takeTick says whether this process does the work that is done once per interval. True
// goes to the first process that asks after the interval has passed. A clock that went
// back does not delay it.
func takeTick(ctx context.Context, tx store.Tx, name string, interval time.Duration) (bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	if err := store.StartCursor(ctx, tx, name); err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, sweepSQL["take tick"], name, now, now-interval.Microseconds())
	return n == 1, err
}
