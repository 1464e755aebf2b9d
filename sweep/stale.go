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
		at, page, err := p.eventsOlderThan(ctx, staleCursor, p.Options.StaleAfter)
		if err == nil && len(page) > 0 {
			err = p.markStale(ctx, at, page)
		}
		if err != nil || len(page) < batch {
			return p.logError(ctx, "stale", err)
		}
	}
}

// eventsOlderThan returns the next page of events after a cursor that are older than age.
func (p *pass) eventsOlderThan(ctx context.Context, cursor string, age time.Duration) (at store.Cursor, page []store.Entry, err error) {
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if at, err = p.cursor(ctx, tx, cursor); err != nil {
			return err
		}
		page, err = store.RecordAfter(ctx, tx, at.Position, ago(now, age), batch)
		if young := slices.IndexFunc(page, func(e store.Entry) bool { return e.At >= ago(now, age) }); young >= 0 {
			page = page[:young]
		}
		return err
	})
	return at, page, err
}

func (p *pass) markStale(ctx context.Context, at store.Cursor, page []store.Entry) error {
	var marked int64
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		marked = 0
		current, err := store.LockCursor(ctx, tx, staleCursor)
		if err != nil || current.Position != at.Position { // another server has handled this page
			return err
		}
		for _, e := range page {
			if !e.Newest || e.Event == "stale" || e.Event == "deleted" || pawl.TaskState(e.TaskTo).Ended() {
				continue
			}
			isStale, err := store.MarkStale(ctx, tx, now, e)
			if err != nil {
				return err
			}
			if isStale {
				marked++
			}
		}
		return store.MoveCursor(ctx, tx, now, staleCursor, store.Cursor{Position: page[len(page)-1].ID})
	})
	if err != nil {
		return err
	}
	p.stats.Stale += marked
	for _, e := range page {
		if e.Event == "deleted" {
			if err := p.resume(ctx, e.Namespace, e.TaskID); err != nil {
				return err
			}
		}
	}
	return nil
}
