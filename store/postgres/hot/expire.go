package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed expire.sql
var expireSQL string

// The groups of failures of items that have no attempt left: see the messages in expire.sql.
var (
	lostKey   = pawl.Failure{Code: "lease_expired", Message: "Max retries exceeded"}.Key()
	cappedKey = pawl.Failure{Code: pawl.FailedByStartToClose,
		Message: "The attempt took longer than start_to_close_seconds - max retries exceeded"}.Key()
)

// Expire implements store.Timed. A spared item leaves no error_boundary, because it never
// ran.
func (Verbs) Expire(ctx context.Context, tx store.Tx, limit int, only []string, boundary bool, ids []string) ([]store.Expired, error) {
	if boundary {
		limit = min(limit, len(ids))
	} else {
		ids = []string{}
	}
	var out []store.Expired
	rows, err := tx.Query(ctx, expireSQL, limit, boundary, ids, store.IDs[store.ItemID](only), lostKey, cappedKey)
	err = read(rows, err, func(r store.Rows) error {
		var e store.Expired
		var fed int
		err := r.Scan(&e.Namespace, (*store.ItemID)(&e.ItemID), (*store.TaskID)(&e.TaskID), &e.Type, &e.State, &e.Rank, &e.Checkpoint, &fed)
		e.Fed, e.Child = fed%2 == 1, fed > 1
		out = append(out, e)
		return err
	})
	return out, err
}
