package budgets

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// reclaimAll ends the lost reservations of all budgets, each batch in a transaction of its own.
func reclaimAll(ctx context.Context, p store.Sweeping) error {
	for last := ""; ; {
		var ids []string
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			ids, err = store.Strings(ctx, tx, texts["budgets with lost reservations"], last, p.Limit)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			for more := true; more && err == nil; {
				err = p.Do(ctx, func(ctx context.Context, tx store.Tx) error {
					b, now, err := locked(ctx, tx, "", texts["lock budget by id"], id, id)
					if err == nil {
						more, err = b.reclaim(ctx, tx, now)
					}
					return err
				})
			}
			if last = id; err != nil && pawl.CodeOf(err) != pawl.CodeNotFound { // not found: deleted meanwhile
				return err
			}
			err = nil
		}
		if len(ids) < p.Limit {
			return nil
		}
	}
}

// endQuestions ends the questions of items that do not ask for a budget any more.
func endQuestions(ctx context.Context, p store.Sweeping) error {
	for last := ""; ; {
		var old []store.TaskRef
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			old, err = oldQuestions(ctx, tx, last, p.Limit)
			return err
		})
		for _, q := range old {
			if last = q.ID; err == nil {
				err = p.In(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return endQuestion(ctx, tx, now, q) })
			}
		}
		if err != nil || len(old) < p.Limit {
			return err
		}
	}
}

// removeOf returns what removes rows of budgets that were deleted.
func removeOf(query string) func(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
	return func(ctx context.Context, tx store.Tx, _ int64, limit int) (int64, error) {
		return tx.Exec(ctx, texts[query], limit)
	}
}
