package stats

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// ListNamespaces lists the namespaces that had work; see pawl.StatsReader.
func (r *Stats) ListNamespaces(ctx context.Context, p pawl.Page) (pawl.List[pawl.NamespaceInfo], error) {
	if err := rules.CheckPage(&p); err != nil {
		return pawl.List[pawl.NamespaceInfo]{}, err
	}
	if err := r.seen.write(ctx, r.k); err != nil {
		return pawl.List[pawl.NamespaceInfo]{}, err
	}
	return kernel.Read(kernel.ForAll(ctx), r.k, func(ctx context.Context, tx store.Tx, _ string) (pawl.List[pawl.NamespaceInfo], error) {
		return namespacesPage(ctx, tx, p)
	})
}

func namespacesPage(ctx context.Context, tx store.Tx, p pawl.Page) (out pawl.List[pawl.NamespaceInfo], err error) {
	names, err := store.Namespaces(ctx, tx, p.Cursor, p.Limit+1)
	if err != nil {
		return out, err
	}
	list := store.Paged(names, p.Limit, func(name string) string { return name })
	counted, known, _, err := readTotals(ctx, tx, "")
	if err != nil {
		return out, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	out.Items, out.Next = make([]pawl.NamespaceInfo, len(list.Items)), list.Next
	var oldest oldestItems
	if known {
		if oldest, err = readOldest(ctx, tx, ""); err != nil {
			return out, err
		}
	}
	for i, name := range list.Items {
		n := &out.Items[i]
		if n.Namespace, n.OpenTasks, n.Queued = name, counted.openTasks(name), max(0, counted.items[name][string(pawl.ItemQueued)]); !known {
			err = countRows(ctx, tx, n, now)
		} else {
			n.OldestQueuedAt, err = oldest.queued(ctx, tx, name)
		}
		if err != nil {
			return out, err
		}
		if _, err := store.Row(ctx, tx, []any{&n.Workers}, texts["count live"], name, now-pawl.WorkerLive.Microseconds()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// countRows counts the tasks and items of a namespace where nothing has counted events yet.
func countRows(ctx context.Context, tx store.Tx, n *pawl.NamespaceInfo, now int64) error {
	s, err := read(ctx, tx, n.Namespace, now)
	for state, tasks := range s.TasksByState {
		if !state.Over() {
			n.OpenTasks += tasks
		}
	}
	n.Queued, n.OldestQueuedAt = s.ItemsByState[pawl.ItemQueued], s.OldestQueuedAt
	return err
}
