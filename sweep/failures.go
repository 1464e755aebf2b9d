package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// failures sets the group of failed items that an older program wrote.
func (p *pass) failures(ctx context.Context) error {
	for n := batch; n == batch; {
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			n, err = groupFailures(ctx, tx, batch)
			return err
		})
		if err != nil {
			return p.logError(ctx, "groups of failures", err)
		}
	}
	return nil
}

// groupFailures sets the group of up to limit failed items that have none, because an older
// program wrote them. It returns how many it set.
func groupFailures(ctx context.Context, tx store.Tx, limit int) (int, error) {
	rows, err := tx.Query(ctx, failureSQL["without group"], limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var set [][]any
	for rows.Next() {
		var id store.ItemID
		var failure store.Text
		if err := rows.Scan(&id, &failure); err != nil {
			return 0, err
		}
		set = append(set, []any{id, store.FailureKey(failure)})
	}
	if err := rows.Err(); err != nil || len(set) == 0 {
		return 0, err
	}
	rows.Close()
	return len(set), tx.ExecEach(ctx, failureSQL["set group"], set)
}
