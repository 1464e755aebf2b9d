package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/pawl-work/pawl"
)

// archives reports whether a task of the round may have been archived.
func (w *concurrentWalk) archives() bool {
	for _, typ := range w.types {
		if walkBrief(typ) {
			return true
		}
	}
	return false
}

// restore restores a task of the round from its archive.
func (w *concurrentWalk) restore(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	list, err := svc.ListArchives(ctx, pawl.Page{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	tasks := w.tasks
	w.mu.Unlock()
	gone := slices.DeleteFunc(list.Items, func(a pawl.Archive) bool { return !slices.Contains(tasks, a.TaskID) })
	if len(gone) == 0 {
		return w.read(ctx, draw, svc)
	}
	_, err = svc.RestoreArchive(asOperator(ctx), gone[draw.IntN(len(gone))].TaskID)
	return err
}

// readTasks reads the round's tasks and restores those that were archived. A sweep that
// began before may archive one of them again.
func (w *concurrentWalk) readTasks() []pawl.Task {
	w.Helper()
	for try := 0; ; try++ {
		list, err := w.p.Service.ListTasks(w.Context(), pawl.TaskFilter{IDs: w.tasks, Page: pawl.Page{Limit: pawl.MaxPage}})
		w.accept(err)
		if len(list.Items) == len(w.tasks) || err != nil {
			return list.Items
		}
		missing := slices.DeleteFunc(slices.Clone(w.tasks), func(id string) bool {
			return slices.ContainsFunc(list.Items, func(t pawl.Task) bool { return t.ID == id })
		})
		for _, id := range missing {
			if w.record.gone[w.record.parents[id]] { // it was deleted with its parent
				w.tasks = slices.DeleteFunc(slices.Clone(w.tasks), func(other string) bool { return other == id })
				continue
			}
			if !walkBrief(w.types[id]) || try == 50 {
				w.Errorf("task %s of type %s was made and is not there", id, w.types[id])
				return list.Items
			}
			if _, err := w.p.Service.RestoreArchive(w.Context(), id); !errors.Is(err, pawl.ErrConflict) && !errors.Is(err, pawl.ErrNotFound) {
				w.accept(err)
			}
		}
	}
}
