package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-work/pawl"
)

// ref is a link to something by its name; the id is shown second. Without a name the id stands alone.
type ref struct{ ID, Name string }

// names are the names of tasks or items, by id. What was deleted has none.
type names map[string]string

func (n names) of(id string) ref { return ref{id, n[id]} }

// distinct are the ids of a list, each once.
func distinct[T any](list []T, id func(T) string) (ids []string) {
	for _, v := range list {
		if text := id(v); text != "" && !slices.Contains(ids, text) {
			ids = append(ids, text)
		}
	}
	return ids
}

// tasksNamed reads the titles of tasks; a task without one has its type. The lists of a page have at most manyRows rows. A
// name that cannot be read is missing.
func (d *server) tasksNamed(ctx context.Context, ids []string) names {
	out := names{}
	for some := range slices.Chunk(distinct(ids, func(id string) string { return id }), pawl.MaxPage) {
		l, _ := d.svc.ListTasks(ctx, pawl.TaskFilter{IDs: some, Fields: []string{"id", "title", "type"}, Page: pawl.Page{Limit: len(some)}})
		for _, t := range l.Items {
			out[t.ID] = titleOf(t)
		}
	}
	return out
}

// itemsNamed reads the names of items: the titles of their tasks, with their keys.
func (d *server) itemsNamed(ctx context.Context, ids []string) names {
	out := names{}
	for some := range slices.Chunk(ids, pawl.MaxPage) {
		l, _ := d.svc.ListItems(ctx, pawl.ItemFilter{IDs: some, Fields: []string{"id", "task_id", "key"}, Page: pawl.Page{Limit: len(some)}})
		maps.Copy(out, d.tableOf(ctx, l.Items).Names)
	}
	return out
}

// labels are the names of the items of one task, for its own page.
func labels(items []pawl.Item) names {
	out := names{}
	for _, it := range items {
		out[it.ID] = labelOf(it)
	}
	return out
}

// labelOf names an item among those of its task: by its key, or by its type and place.
func labelOf(it pawl.Item) string {
	return cmp.Or(it.Key, it.Type+" "+strconv.Itoa(it.Position+1))
}

// titleOf is the title of a task, or else its type.
func titleOf(t pawl.Task) string { return cmp.Or(t.Title, t.Type) }

// itemTable is items of a page with their names.
type itemTable struct {
	Items []pawl.Item
	Names names
}

// tableOf names items of several tasks.
func (d *server) tableOf(ctx context.Context, items []pawl.Item) itemTable {
	of := d.tasksNamed(ctx, distinct(items, func(it pawl.Item) string { return it.TaskID }))
	t := itemTable{items, names{}}
	for _, it := range items {
		t.Names[it.TaskID] = of[it.TaskID]
		t.Names[it.ID] = of[it.TaskID]
		if it.Key != "" {
			t.Names[it.ID] += " · " + it.Key
		}
	}
	return t
}
