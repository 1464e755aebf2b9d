package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed expire.sql
var expireSQL string

// Expire implements store.Timed. A spared item leaves no error_boundary, because it never
// ran.
func (Verbs) Expire(ctx context.Context, tx store.Tx, limit int, only []string, boundary bool, ids []string) ([]store.Expired, error) {
	if boundary {
		limit = min(limit, len(ids))
	} else {
		ids = []string{}
	}
	var out []store.Expired
	rows, err := tx.Query(ctx, expireSQL, limit, boundary, ids, store.IDs[store.ItemID](only))
	err = read(rows, err, func(r store.Rows) error {
		var e store.Expired
		var fed int
		err := r.Scan(&e.Namespace, (*store.ItemID)(&e.ItemID), (*store.TaskID)(&e.TaskID), &e.Type, &e.State, &e.Priority, &e.Checkpoint, &fed)
		e.Fed, e.Child = fed%2 == 1, fed > 1
		out = append(out, e)
		return err
	})
	return out, err
}
