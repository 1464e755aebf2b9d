package hot

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed create.sql
var createSQL string

// plainSQL is createSQL without the parts that have nothing to insert for tasks of one item that is
// queued. Together they took 5 to 15 % of the server's time without inserting anything.
var plainSQL = without(createSQL, "live", "item", "scheduled", "waiting", "deps")

// without cuts named parts out of a statement. Each ends a line with its closing parenthesis.
func without(query string, parts ...string) string {
	for _, name := range parts {
		before, rest, _ := strings.Cut(query, "\n"+name+" AS (")
		_, after, found := strings.Cut(rest, "),\n")
		if !found {
			panic("hot: the statement has no part " + name) // the texts of statements are part of the program
		}
		query = before + "\n" + after
	}
	return query
}

// arePlain says whether plainSQL inserts the tasks and their items.
func arePlain(tasks []store.NewTask, items []store.NewItem) bool {
	for i := range tasks {
		if !tasks[i].Solo {
			return false
		}
	}
	for i := range items {
		if it := &items[i]; it.Mark() != 1 || it.RunAt != nil || len(it.Needs) > 0 {
			return false
		}
	}
	return true
}

// Create implements store.Hot.
func (Verbs) Create(ctx context.Context, tx store.Tx, tasks []store.NewTask, items []store.NewItem) (now int64, err error) {
	type dep struct{ needs, item store.ItemID }
	var deps []dep
	store.JoinOnlyItems(tasks, items)
	plain := arePlain(tasks, items)
	if plain && areAlike(tasks, items) {
		return createAlike(ctx, tx, tasks, items)
	}
	for i := range items {
		if len(items[i].Needs) > 0 {
			items[i].Needs = slices.Compact(slices.Sorted(slices.Values(items[i].Needs)))
		}
		for _, id := range items[i].Needs {
			deps = append(deps, dep{store.ItemID(id), store.ItemID(items[i].ID)})
		}
	}
	var actors nameList[store.ActorName]
	var queues nameList[store.QueueName]
	inQueue := once(column(items, func(i *store.NewItem) int { return queues.place(i.Queue()) }))
	queueOfTask := once(column(tasks, func(t *store.NewTask) int {
		if !t.Solo {
			return 0 // none
		}
		return queues.place(t.OnlyQueue())
	}))
	args := createArgs(tasks, items, &actors, queues.names)
	args = append(args, inQueue, queueOfTask, sparse(items, nil, func(i *store.NewItem) *int64 { return i.Deadline }),
		some(column(tasks, (*store.NewTask).Digest)), column(items, (*store.NewItem).Digest))
	var given store.Carried
	args = append(args, arrays(given.Given(), items, func(i *store.NewItem) { given = i.Carried() })...)
	var task store.NewTask
	args = append(args, arrays(task.Columns(), tasks, func(t *store.NewTask) { task = *t })...)
	query := plainSQL
	if !plain {
		query = createSQL
		args = append(args, column(deps, func(d *dep) store.ItemID { return d.needs }), column(deps, func(d *dep) store.ItemID { return d.item }))
	}
	if err := store.EnsureActors(ctx, tx, actors.names...); err != nil {
		return 0, err
	}
	if err := store.EnsureQueues(ctx, tx, queues.names...); err != nil {
		return 0, err
	}
	rows, err := tx.Query(ctx, query, args...)
	err = read(rows, err, func(r store.Rows) error { return r.Scan(&now) })
	return now, err
}

// createArgs returns the columns of the tasks' events and of the items. A column in which
// every value is the default is sent empty, as most are. A column with the same value in
// all rows is sent with that value once. unnest fills both up with NULLs, and the statement
// puts in the default or the first value.
func createArgs(tasks []store.NewTask, items []store.NewItem, actors *nameList[store.ActorName], queues []store.QueueName) []any {
	byTask := once(column(tasks, func(t *store.NewTask) int { return actors.place(t.Actor.Named()) }))
	byItem := once(column(items, func(i *store.NewItem) int { return actors.place(i.Actor.Named()) }))
	return append([]any{
		once(column(tasks, func(t *store.NewTask) int { return t.Items })),
		byTask,
		column(actors.names, func(n *store.ActorName) string { return n.Kind }),
		column(actors.names, func(n *store.ActorName) string { return n.Name }),
		sparse(tasks, "", func(t *store.NewTask) store.Text { return ofMany(t, t.Data) }),
		sparse(tasks, "", func(t *store.NewTask) store.Text { return ofMany(t, t.Actor.Key) }),
	}, itemColumns(items, byItem, queues)...)
}

// ofMany returns a value for the event of a task of many items, or NULL for a task of one
// item: its item's event has the value.
func ofMany(t *store.NewTask, s string) store.Text {
	if t.Solo {
		return ""
	}
	return store.Text(s)
}

func itemColumns(items []store.NewItem, actors []int, queues []store.QueueName) []any {
	return []any{
		column(items, func(i *store.NewItem) store.ItemID { return store.ItemID(i.ID) }),
		column(queues, func(q *store.QueueName) string { return q.Namespace }),
		once(column(items, func(i *store.NewItem) store.TaskID { return store.TaskID(i.TaskID) })),
		column(queues, func(q *store.QueueName) string { return q.Type }),
		sparse(items, pawl.KindWork, func(i *store.NewItem) string { return i.Kind }),
		sparse(items, 0, func(i *store.NewItem) int { return i.Position }),
		sparse(items, "", func(i *store.NewItem) store.Text { return i.Key }),
		sparse(items, 0, func(i *store.NewItem) int { return i.Priority }),
		sparse(items, nil, func(i *store.NewItem) *int64 { return i.RunAt }),
		sparse(items, "", func(i *store.NewItem) store.Text { return i.After }),
		sparse(items, 0, func(i *store.NewItem) int { return len(i.Needs) }),
		sparse(items, "", func(i *store.NewItem) store.Text {
			if i.Solo {
				return ""
			}
			return store.Text(i.Input)
		}),
		actors,
		sparse(items, "", func(i *store.NewItem) store.Text { return i.Data }),
		sparse(items, "", func(i *store.NewItem) store.Text { return store.Text(i.Actor.Key) }),
	}
}
