package sweep

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// The names of the cursors in the event log. They are in the table relay_cursors,
// together with those of the relays.
const (
	staleCursor  = "sweep.stale"
	retainCursor = "sweep.retain"
	tickCursor   = "sweep.pass"
)

// stale marks open tasks that have not changed for StaleAfter and that nothing will
// change by itself, once until the next change. It looks at every event when it reaches
// that age: if the event is still the newest of its task, the task is stale. So a pass
// reads only the events that reached the age since the last pass. If the event says that
// a deletion has begun, the deletion was interrupted, and stale continues it.
func (p *pass) stale(ctx context.Context) error {
	if p.Options.StaleAfter <= 0 {
		return nil
	}
	for {
		at, r, err := p.eventsOlderThan(ctx, staleCursor, p.Options.StaleAfter, true)
		if err == nil && len(r.all()) > 0 {
			err = p.markStale(ctx, at, r)
		}
		if err != nil || len(r.page) < batch {
			return p.logError(ctx, "stale", err)
		}
	}
}

// record is what a reader of the event log reads next. Numbers of events are not in the order in
// which transactions end on every database: late are events that the cursor has passed before they
// were visible.
type record struct {
	page, late []entry
	more, done []unseen // not visible yet, and not any more to be looked for
}

// all returns the events of the page and the late ones.
func (r *record) all() []entry { return slices.Concat(r.page, r.late) }

// move moves a cursor past the record.
func (r *record) move(at *recordCursor) {
	if n := len(r.page); n > 0 {
		at.Position = max(at.Position, r.page[n-1].ID)
	}
	at.Wait(r.more, r.done)
}

// eventsOlderThan returns what comes after a cursor of the events that are older than age. newest says whether
// the reader needs to know which are the newest of their tasks.
func (p *pass) eventsOlderThan(ctx context.Context, cursor string, age time.Duration, newest bool) (at recordCursor, r record, err error) {
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		r = record{}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if at, err = p.cursor(ctx, tx, cursor); err != nil {
			return err
		}
		var oldest, next int64
		commits := p.DB.Dialect().Commits
		if commits != nil {
			if oldest, next, err = commits.Horizon(ctx, tx); err != nil {
				return err
			}
		}
		if r.page, err = recordAfter(ctx, tx, at.Position, ago(now, age), aheadOf(now), batch, newest); err == nil {
			r.page, err = older(ctx, tx, r.page, ago(now, age), aheadOf(now))
		}
		if err != nil || commits == nil {
			return err
		}
		return r.findLate(ctx, tx, &at, oldest, next, ago(now, age))
	})
	return at, r, err
}

// clockError is how far the times of events may be ahead of the clock by which they are read. If they are further, the
// clock was wrong when they were written.
const clockError = time.Hour

func aheadOf(now int64) int64 { return now + clockError.Microseconds() }

// older returns the events of a page that come before the first one that is too young. One that was written while the
// clock was ahead counts as of the next one that was not: it would stop the reader until its time comes.
func older(ctx context.Context, tx store.Tx, page []entry, before, ahead int64) ([]entry, error) {
	first := -1 // of those ahead of the clock that no other has followed yet
	for i, e := range page {
		switch {
		case e.At > ahead:
			if first < 0 {
				first = i
			}
		case e.At >= before && first >= 0:
			return page[:first], nil
		case e.At >= before:
			return page[:i], nil
		default:
			first = -1
		}
	}
	if first < 0 {
		return page, nil
	}
	at, err := timeAfter(ctx, tx, page[len(page)-1].ID, ahead)
	if at == 0 || at >= before {
		page = page[:first]
	}
	return page, err
}

// findLate reads the events that have become visible since the cursor passed them, and notes the numbers
// in the page that are not visible yet.
func (r *record) findLate(ctx context.Context, tx store.Tx, at *recordCursor, oldest, next, before int64) (err error) {
	for last, i := at.Position, 0; i < len(r.page); i++ {
		if id := r.page[i].ID; id > last+1 {
			r.more = append(r.more, unseen{Low: last + 1, High: id - 1, Before: next})
		}
		last = r.page[i].ID
	}
	found, err := recordAmong(ctx, tx, at.Unseen)
	young := map[unseen]bool{}
	for _, e := range found {
		if e.At < before {
			r.late = append(r.late, e)
			continue
		}
		for _, l := range at.Unseen {
			young[l] = young[l] || l.Low <= e.ID && e.ID <= l.High
		}
	}
	for _, l := range at.Unseen {
		if l.Before <= oldest && !young[l] {
			r.done = append(r.done, l)
		}
	}
	return err
}

func (p *pass) markStale(ctx context.Context, at recordCursor, r record) error {
	var marked int64
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		marked = 0
		current, err := lockCursor(ctx, tx, staleCursor)
		if err != nil || current.Position != at.Position { // another server has handled this page
			return err
		}
		for _, e := range r.all() {
			if !e.Newest || e.Event == "stale" || e.Event == "deleted" || pawl.TaskState(e.TaskTo).Ended() {
				continue
			}
			isStale, err := markStale(ctx, tx, now, e)
			if err != nil {
				return err
			}
			if isStale {
				marked++
			}
		}
		r.move(&current)
		return moveCursor(ctx, tx, now, staleCursor, current)
	})
	if err != nil {
		return err
	}
	p.stats.Stale += marked
	for _, e := range r.all() {
		if e.Event == "deleted" {
			if err := p.Resume(ctx, e.Namespace, e.TaskID); mustStop(ctx, err) {
				return err
			} else if err != nil { // what wrote the mark tries again: see deletions
				p.logResume(ctx, e.TaskID, err)
			}
		}
	}
	return nil
}

// entry is what the sweep reads of an event. TaskTo is the state that the event moved its
// task to, or "" when it did not move it. Newest says that the event is the task's newest.
type entry struct {
	ID, At            int64
	TaskID, Namespace string
	Event             string
	TaskTo            store.Text
	Newest            bool
}

// recordAfter reads up to limit events after an id, in order. It returns none when the
// first of them is not older than before, unless its time is after ahead: the clock was wrong when it was written.
// Without newest it does not say which are the newest of their tasks.
func recordAfter(ctx context.Context, tx store.Tx, id, before, ahead int64, limit int, newest bool) ([]entry, error) {
	query := "record after"
	if !newest {
		query = "moves after"
	}
	return entries(ctx, tx, sweepSQL[query], id, limit, before, ahead)
}

// timeAfter returns the time of the first event after an id whose time is not after ahead; 0 = there is none.
func timeAfter(ctx context.Context, tx store.Tx, id, ahead int64) (at int64, err error) {
	_, err = store.Row(ctx, tx, []any{&at}, sweepSQL["time after"], id, ahead)
	return at, err
}

// recordAmong reads the events of ranges of numbers, in order.
func recordAmong(ctx context.Context, tx store.Tx, ranges []unseen) ([]entry, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	list := make([][]any, len(ranges))
	for i, l := range ranges {
		list[i] = []any{l.Low, l.High}
	}
	return entries(ctx, tx, sweepSQL["record among"], store.Table(list))
}

func entries(ctx context.Context, tx store.Tx, query string, args ...any) ([]entry, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []entry
	var moves []int
	var e entry
	var move, newest int
	for rows.Next() {
		if err := rows.Scan(&e.ID, &e.At, (*store.TaskID)(&e.TaskID), &e.Namespace, &move, &newest); err != nil {
			return nil, err
		}
		e.Newest = newest == 1
		if len(out) == cap(out) {
			out, moves = slices.Grow(out, max(16, len(out))), slices.Grow(moves, max(16, len(out)))
		}
		out, moves = append(out, e), append(moves, move)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i, move := range moves {
		m, err := store.MoveFrom(ctx, tx, move)
		if err != nil {
			return nil, err
		}
		out[i].Event, out[i].TaskTo = m.Event, store.Text(m.TaskTo)
		if m.Class == store.MoveOfTask {
			out[i].TaskTo = store.Text(m.To)
		}
	}
	return out, nil
}

// markStale records an event `stale` for the task of an event. It does so if that event is
// the task's newest, the task is open, and nothing will happen to the task by itself.
func markStale(ctx context.Context, tx store.Tx, now int64, e entry) (bool, error) {
	var namespace string
	found, err := store.Row(ctx, tx, []any{&namespace}, sweepSQL["forgotten"], store.TaskID(e.TaskID), e.ID)
	if err != nil || !found {
		return false, err
	}
	return true, store.Record(ctx, tx, now, []store.Event{{Namespace: namespace, TaskID: e.TaskID, Event: "stale",
		Actor: store.Actor{Type: pawl.ActorSystem}}})
}
