package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Namespaces lists the namespaces that had work, in order, at most limit. An operator of all namespaces chooses from them.
func (e *Engine) Namespaces(ctx context.Context, limit int) (out []string, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		out, err = namespaces(ctx, tx, "", limit)
		return err
	})
	return out, err
}

// ListNamespaces lists the namespaces that had work; see pawl.StatsReader.
func (e *Engine) ListNamespaces(ctx context.Context, p pawl.Page) (pawl.List[pawl.NamespaceInfo], error) {
	if err := rules.CheckPage(&p); err != nil {
		return pawl.List[pawl.NamespaceInfo]{}, err
	}
	if err := e.flushSeen(ctx); err != nil {
		return pawl.List[pawl.NamespaceInfo]{}, err
	}
	return view(forAll(ctx), e, func(ctx context.Context, tx store.Tx, _ string) (pawl.List[pawl.NamespaceInfo], error) {
		return namespacesPage(ctx, tx, p)
	})
}

func namespacesPage(ctx context.Context, tx store.Tx, p pawl.Page) (out pawl.List[pawl.NamespaceInfo], err error) {
	names, err := namespaces(ctx, tx, p.Cursor, p.Limit+1)
	if err != nil {
		return out, err
	}
	list := store.Paged(names, p.Limit, func(name string) string { return name })
	counted, known, _, err := store.ReadTotals(ctx, tx, "")
	if err != nil {
		return out, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	open, queued := counted.OpenTasks(), map[string]int64{}
	for name, states := range counted.OfQueues() {
		queued[name.Namespace] += states[string(pawl.ItemQueued)]
	}
	out.Items, out.Next = make([]pawl.NamespaceInfo, len(list.Items)), list.Next
	var oldest store.OldestItems
	if known {
		if oldest, err = store.Oldest(ctx, tx, ""); err != nil {
			return out, err
		}
	}
	for i, name := range list.Items {
		n := &out.Items[i]
		if n.Namespace, n.OpenTasks, n.Queued = name, open[name], max(0, queued[name]); !known {
			err = countRows(ctx, tx, n, now)
		} else {
			n.OldestQueuedAt, err = oldest.Queued(ctx, tx, name)
		}
		if err != nil {
			return out, err
		}
		if _, err := store.Row(ctx, tx, []any{&n.Workers}, statsSQL["count live"], name, now-pawl.WorkerLive.Microseconds()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// countRows counts the tasks and items of a namespace where nothing has counted events yet.
func countRows(ctx context.Context, tx store.Tx, n *pawl.NamespaceInfo, now int64) error {
	stats, err := store.Stats(ctx, tx, n.Namespace, now)
	for state, tasks := range stats.TasksByState {
		if !state.Over() {
			n.OpenTasks += tasks
		}
	}
	n.Queued, n.OldestQueuedAt = stats.ItemsByState[pawl.ItemQueued], stats.OldestQueuedAt
	return err
}

// namespaces returns those after a name that had work, in order, at most limit.
func namespaces(ctx context.Context, tx store.Tx, after string, limit int) ([]string, error) {
	return store.Strings(ctx, tx, namesSQL["namespaces"], limit, after)
}
