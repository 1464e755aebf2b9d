package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed create_alike.sql
var alikeSQL string

// areAlike says whether createAlike inserts the tasks and their items, which are plain.
func areAlike(tasks []store.NewTask, items []store.NewItem) bool {
	if len(items) == 0 || len(tasks) != len(items) {
		return false
	}
	first, common := &items[0], items[0].Carried()
	for i := range items {
		it := &items[i]
		if it.ID[len("itm_"):] != tasks[i].ID[len("tsk_"):] || it.Priority != first.Priority || it.Queue() != first.Queue() ||
			it.Actor != first.Actor || it.Carried() != common || !tasks[0].IsAlike(&tasks[i]) {
			return false
		}
	}
	return true
}

// createAlike inserts tasks of one queued item that differ in their ids, inputs and data alone.
func createAlike(ctx context.Context, tx store.Tx, tasks []store.NewTask, items []store.NewItem) (now int64, err error) {
	it := &items[0]
	if err := store.EnsureActors(ctx, tx, it.Actor.Named()); err != nil {
		return 0, err
	}
	if err := store.EnsureQueues(ctx, tx, it.Queue()); err != nil {
		return 0, err
	}
	args := []any{
		column(items, func(i *store.NewItem) store.ItemID { return store.ItemID(i.ID) }),
		column(items, func(i *store.NewItem) string { return i.Input }),
		once(column(items, func(i *store.NewItem) store.Text { return i.Data })),
		column(items, (*store.NewItem).Digest),
		it.Namespace, it.Type, it.Actor.Type, it.Actor.ID, store.Text(it.Actor.Key), it.Priority, bit(it.ScheduleToStart != nil),
	}
	given := it.Carried()
	args = append(append(args, scalars(given.Given())...), scalars(tasks[0].Alike())...)
	rows, err := tx.Query(ctx, alikeSQL, args...)
	err = read(rows, err, func(r store.Rows) error { return r.Scan(&now) })
	return now, err
}

// scalars returns the arguments of the columns of one row.
func scalars(list []store.Column) []any {
	out := store.Values(list)
	for i, v := range out {
		if b, is := v.(bool); is {
			out[i] = bit(b)
		}
	}
	return out
}
