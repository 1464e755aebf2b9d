package bulk

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed bulk.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "bulk.sql")

// item is the item of a bulk call that waits to be carried out.
type item struct{ ItemID, TaskID, Namespace string }

// waiting lists up to limit items of bulk calls, oldest first.
func waiting(ctx context.Context, tx store.Tx, limit int) ([]item, error) {
	return store.All(ctx, tx, texts["waiting"], []any{limit, pawl.TypeBulk}, func(rows store.Rows, i *item) error {
		return rows.Scan((*store.ItemID)(&i.ItemID), (*store.TaskID)(&i.TaskID), &i.Namespace)
	})
}

// save stores how far a bulk call is, while its item is locked.
func save(ctx context.Context, tx store.Tx, taskID, state string) error {
	_, err := tx.Exec(ctx, texts["save"], store.TaskID(taskID), state)
	return err
}

// touched returns the tasks among taskIDs that have an event with the given data.
func touched(ctx context.Context, tx store.Tx, taskIDs []string, data store.Text) ([]string, error) {
	return store.TaskIDs(ctx, tx, texts["touched"], store.TaskList(taskIDs), data)
}
