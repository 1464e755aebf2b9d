package store

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

var addItemsSQL = Texts(sqlFiles, "add_items.sql")

// DependencyAdded marks the items that new items depend on, so that their end is noticed.
// The answer has the items that have not completed yet, and says which of them have
// failed.
func DependencyAdded(ctx context.Context, tx Tx, needs []string) (failed map[string]bool, err error) {
	one := 1
	held, err := Amend(ctx, tx, needs, aliveStates, Amendment{Feeds: &one})
	if err != nil {
		return nil, err
	}
	failed = make(map[string]bool, len(held))
	for i := range held {
		failed[held[i].ItemID] = pawl.ItemState(held[i].State).Status() == pawl.StatusFailed
	}
	for _, id := range needs {
		if _, alive := failed[id]; alive {
			continue
		}
		var state string
		if _, err := Row(ctx, tx, []any{(*StateCode)(&state)}, "SELECT state FROM pawl.finished_items WHERE item_id = $1",
			ItemID(id)); err != nil {
			return nil, err
		}
		if state != "completed" {
			return nil, &pawl.Error{Code: pawl.CodeConflict, Op: "add_items", State: state, Allowed: []string{},
				Message: fmt.Sprintf("the item %s that others are to wait for is %s", id, state)}
		}
	}
	return failed, nil
}
