package schedules

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// fromNowBatch is how many schedules FromNow reads at once.
const fromNowBatch = 500

// FromNow lets all schedules begin from now, without the ticks that were missed or queued. In a copy for
// tests they are paused.
func FromNow(ctx context.Context, tx store.Tx, asCopy bool) (n int64, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	for after := ""; ; {
		rows, err := lockAll(ctx, tx, after, fromNowBatch)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		after = rows[len(rows)-1].ID
		changed := rows[:0]
		for _, row := range rows {
			if row.PausedAt != nil && row.Queued == 0 {
				continue
			}
			if err := dropQueued(ctx, tx, row.ID); err != nil {
				return n, err
			}
			row.Queued, row.UpdatedAt = 0, now
			if row.PausedAt == nil {
				beginFrom(&row, now, asCopy)
				n++
			}
			changed = append(changed, row)
		}
		if len(changed) > 0 {
			if err := write(ctx, tx, changed, now); err != nil {
				return n, err
			}
		}
	}
}

// beginFrom lets a schedule begin from now. One whose rule cannot be read any more has no next tick.
func beginFrom(row *Row, now int64, asCopy bool) {
	row.NextTick, row.NextAt = nil, nil
	if rule, err := ruleOf(row); err != nil {
		row.Error, row.ErrorAt = failureText(err), &now
	} else {
		row.NextTick = nextTick(rule, now)
		row.NextAt = nextLook(rule, row, now)
	}
	if asCopy {
		row.PausedAt, row.NextAt = &now, nil
	}
}
