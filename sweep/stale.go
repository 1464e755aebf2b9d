package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// The cursors of the readers of the record. They stand in relay_cursors, like
// those of the relays, which read the same record.
const (
	staleCursor  = "sweep.stale"
	retainCursor = "sweep.retain"
	tickCursor   = "sweep.pass"
)

// stale marks open tasks of which nothing was heard for StaleAfter and to which
// nothing will happen by itself, each once until something happens again. It
// looks at every event when it comes of age: a task is forgotten when that event
// is still its newest. So a pass reads what became old since the last one, and
// nothing twice. Where the event says that a deletion has begun, a deletion was
// cut off: it is carried on.
func (p *pass) stale(ctx context.Context) error {
	if p.Options.StaleAfter <= 0 {
		return nil
	}
	for {
		var read, marked int
		var halfDeleted []store.Entry
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
			read, marked, halfDeleted = 0, 0, nil
			at, err := store.HoldCursor(ctx, tx, staleCursor)
			if err != nil {
				return err
			}
			page, err := store.RecordAfter(ctx, tx, at.Position, batch)
			if err != nil {
				return err
			}
			for _, e := range page {
				if e.At >= ago(now, p.Options.StaleAfter) {
					break
				}
				read++
				at.Position = e.ID
				switch e.Event {
				case "stale":
				case "deleted":
					halfDeleted = append(halfDeleted, e)
				default:
					forgotten, err := store.MarkStale(ctx, tx, now, e)
					if err != nil {
						return err
					}
					if forgotten {
						marked++
					}
				}
			}
			if read == 0 {
				return nil
			}
			return store.MoveCursor(ctx, tx, now, staleCursor, at)
		})
		if err != nil {
			return p.mishap(ctx, "stale", err)
		}
		p.stats.Stale += int64(marked)
		for _, e := range halfDeleted {
			if err := p.Delete(ctx, e.Namespace, e.TaskID); err != nil {
				return p.mishap(ctx, "stale", err)
			}
		}
		if read < batch {
			return nil
		}
	}
}
