package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// uniqueBatches bounds how many batches of unique keys one pass looks at. The next pass goes on
// where it ended.
const uniqueBatches = 20

// uniques removes the keys of tasks that have ended or are gone, if their windows are over.
func (p *pass) uniques(ctx context.Context) error {
	for range uniqueBatches {
		var over []store.Holding
		var n int
		last := p.uniquesSeen
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				over, last, n, err = keysAfter(ctx, tx, now, p.uniquesSeen, batch)
			}
			return err
		})
		if err == nil && len(over) > 0 {
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return releaseKeys(ctx, tx, over) })
		}
		if err != nil {
			return p.logError(ctx, "uniques", err)
		}
		if p.uniquesSeen = last; n < batch {
			p.uniquesSeen = store.UniqueKey{} // from the start in the next pass
			return nil
		}
	}
	return nil
}

// keysAfter reads the keys after a given one, in order, and which of them are over: the task
// has ended or is gone, and the window has ended.
func keysAfter(ctx context.Context, tx store.Tx, now int64, after store.UniqueKey, limit int) (
	over []store.Holding, last store.UniqueKey, n int, err error) {
	rows, err := tx.Query(ctx, uniqueSQL["keys after"], after.Namespace, after.Type, after.Key, now, limit)
	if err != nil {
		return nil, after, 0, err
	}
	defer rows.Close()
	for last = after; rows.Next(); n++ {
		var h store.Holding
		var ended int
		if err := rows.Scan(&h.Namespace, &h.Type, &h.Key, (*store.TaskID)(&h.TaskID), &h.Until, &ended); err != nil {
			return nil, after, 0, err
		}
		if last = h.UniqueKey; ended == 1 {
			over = append(over, h)
		}
	}
	return over, last, n, rows.Err()
}

// releaseKeys removes keys, except for those that other tasks have taken.
func releaseKeys(ctx context.Context, tx store.Tx, over []store.Holding) error {
	rows := make([][]any, len(over))
	for i, h := range over {
		rows[i] = []any{h.Namespace, h.Type, h.Key, store.TaskID(h.TaskID), h.Until}
	}
	return tx.ExecEach(ctx, uniqueSQL["release key"], rows)
}
