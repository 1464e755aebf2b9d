package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// List returns the archives of a namespace, newest task first.
func (s *Sweeper) List(ctx context.Context, namespace string, page pawl.Page) (pawl.List[pawl.Archive], error) {
	limit := page.Limit
	if limit <= 0 {
		limit = pawl.DefaultPage
	}
	limit = min(limit, pawl.MaxPage)
	list := pawl.List[pawl.Archive]{Items: []pawl.Archive{}}
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		found, err := store.ListArchives(ctx, tx, namespace, page.Cursor, limit+1)
		if len(found) > limit {
			found = found[:limit]
			list.Next = found[limit-1].TaskID
		}
		list.Items = append(list.Items[:0], found...)
		return err
	})
	return list, err
}

// Restore brings an archived task back: the same rows, ids and events. Two things
// differ: if another task has its input hash now, that task keeps it; and idempotency
// keys do not link to the task any more. An event that is not what was logged is an error.
// A task that exists already, or one of whose ids
// was reused, is a conflict.
func (s *Sweeper) Restore(ctx context.Context, namespace, taskID string) error {
	var a store.Archived
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		a, err = store.GetArchive(ctx, tx, namespace, taskID)
		return err
	})
	if err != nil {
		return err
	}
	read, err := s.signed()
	if err != nil {
		return err
	}
	err = s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		there, err := store.NamespaceOfTask(ctx, tx, taskID)
		if err != nil {
			return err
		}
		if there != "" {
			return &pawl.Error{Code: pawl.CodeConflict, Op: "restore", Message: "task " + taskID + " exists", Allowed: []string{}}
		}
		r := store.Restorer{TaskID: taskID, Namespace: namespace}
		if err := s.load(a, func(line []byte) error { return r.Line(ctx, tx, line) }); err != nil {
			return err
		}
		if err := r.Done(ctx, tx); err != nil {
			return err
		}
		signed, err := read(ctx, tx)
		if err != nil {
			return err
		}
		if err := store.SearchAgain(ctx, tx, namespace); err != nil { // its items have no gates yet
			return err
		}
		return store.LogRestored(ctx, tx, taskID, signed, r.Log)
	})
	if err == nil {
		s.Log.InfoContext(ctx, "task restored from its archive", "task_id", taskID, "namespace", namespace)
	}
	return err
}
