package hot

import (
	"context"
	_ "embed"
	"slices"

	"github.com/pawl-work/pawl/store"
)

//go:embed create.sql
var createSQL string

// Create implements store.Hot.
func (Verbs) Create(ctx context.Context, tx store.Tx, tasks []store.NewTask, items []store.NewItem) (now int64, err error) {
	type dep struct{ needs, item string }
	var deps []dep
	solo := map[string]*store.NewTask{}
	for i := range tasks {
		if tasks[i].Solo {
			solo[tasks[i].ID] = &tasks[i]
		}
	}
	for i := range items {
		needs := slices.Compact(slices.Sorted(slices.Values(items[i].Needs)))
		items[i].Needs = needs
		for _, id := range needs {
			deps = append(deps, dep{id, items[i].ID})
		}
		if t := solo[items[i].TaskID]; t != nil && items[i].Data == "" {
			items[i].Data = store.Text(t.Data)
		}
	}
	args := append(taskColumns(tasks), itemColumns(items)...)
	args = append(args, column(deps, func(d *dep) string { return d.needs }), column(deps, func(d *dep) string { return d.item }))
	err = read(ctx, tx, createSQL, args, func(r store.Rows) error { return r.Scan(&now) })
	return now, err
}

func taskColumns(tasks []store.NewTask) []any {
	return []any{
		column(tasks, func(t *store.NewTask) string { return t.ID }),
		column(tasks, func(t *store.NewTask) string { return t.Namespace }),
		column(tasks, func(t *store.NewTask) string { return t.Type }),
		column(tasks, func(t *store.NewTask) int { return t.TypeVersion }),
		column(tasks, func(t *store.NewTask) int { return bit(t.Solo) }),
		column(tasks, func(t *store.NewTask) *string { return null(t.Title) }),
		column(tasks, func(t *store.NewTask) int { return t.Priority }),
		column(tasks, func(t *store.NewTask) *string { return t.Payload }),
		column(tasks, func(t *store.NewTask) string { return t.Metadata }),
		column(tasks, func(t *store.NewTask) *string { return null(t.RequestedByType) }),
		column(tasks, func(t *store.NewTask) *string { return null(t.RequestedByID) }),
		column(tasks, func(t *store.NewTask) *string { return null(t.InputHash) }),
		column(tasks, func(t *store.NewTask) int { return bit(t.Dedupes) }),
		column(tasks, func(t *store.NewTask) *string { return null(t.TraceParent) }),
		column(tasks, func(t *store.NewTask) int { return t.Items }),
		column(tasks, func(t *store.NewTask) string { return t.Actor.Type }),
		column(tasks, func(t *store.NewTask) *string { return null(store.Text(t.Actor.ID)) }),
		column(tasks, func(t *store.NewTask) *string { return null(store.Text(t.Data)) }),
	}
}

func itemColumns(items []store.NewItem) []any {
	return []any{
		column(items, func(i *store.NewItem) string { return i.ID }),
		column(items, func(i *store.NewItem) string { return i.Namespace }),
		column(items, func(i *store.NewItem) string { return i.TaskID }),
		column(items, func(i *store.NewItem) string { return i.Type }),
		column(items, func(i *store.NewItem) string { return i.Kind }),
		column(items, func(i *store.NewItem) int { return bit(i.Solo) }),
		column(items, func(i *store.NewItem) int { return i.Position }),
		column(items, func(i *store.NewItem) *string { return null(i.Key) }),
		column(items, func(i *store.NewItem) int { return i.Priority }),
		column(items, func(i *store.NewItem) int { return i.MaxAttempts }),
		column(items, func(i *store.NewItem) *int64 { return i.RunAt }),
		column(items, func(i *store.NewItem) *string { return null(i.After) }),
		column(items, func(i *store.NewItem) int { return len(i.Needs) }),
		column(items, func(i *store.NewItem) int { return bit(i.Feeds) }),
		column(items, func(i *store.NewItem) int { return bit(i.Acceptance) }),
		column(items, func(i *store.NewItem) string { return i.Input }),
		column(items, func(i *store.NewItem) string { return i.Actor.Type }),
		column(items, func(i *store.NewItem) *string { return null(store.Text(i.Actor.ID)) }),
		column(items, func(i *store.NewItem) *string { return null(i.Data) }),
	}
}
