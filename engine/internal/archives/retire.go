package archives

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// removeBatch bounds the rows that one transaction removes; a smaller task is removed in one.
const removeBatch = 5000

// retiring is one call of Retire.
type retiring struct {
	*Keeper
	room   *store.PlainRoom // what it reads
	pruned int64
}

// Retire archives tasks and removes them: small ones together in segments, others each in an archive of its
// own. What is archived is durable before the transaction that records it and removes the first rows. It returns how many
// were archived. A task that changes meanwhile, or has consequences that are still to come, is store.ErrChanged.
func (s *Keeper) Retire(ctx context.Context, tasks []string) (pruned int64, err error) {
	room, again := s.rooms.Get().(*store.PlainRoom)
	if !again {
		room = &store.PlainRoom{}
	}
	defer s.rooms.Put(room)
	r := retiring{Keeper: s, room: room}
	slices.Sort(tasks) // rows are locked in this order
	signed, err := s.newestSigned(ctx)
	if err == nil && len(tasks) > 1 {
		tasks, err = r.retireTogether(ctx, tasks, signed)
	}
	if err == nil && len(tasks) > 0 {
		err = r.retireApart(ctx, tasks, signed)
	}
	return r.pruned, err
}

// retireApart archives tasks each by itself, and removes them.
func (s *retiring) retireApart(ctx context.Context, tasks []string, signed store.SignedRoot) error {
	all, err := s.writeAll(ctx, tasks, signed)
	var written, beingDeleted []archived
	for _, a := range all {
		switch {
		case errors.Is(a.err, errBeingDeleted):
			beingDeleted = append(beingDeleted, a.archived)
		case a.err != nil:
			err = cmp.Or(err, a.err)
		case a.Namespace == "":
			err = cmp.Or(err, s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return forgetRestored(ctx, tx, a.TaskID) }))
		default:
			written = append(written, a.archived)
		}
	}
	var unfinished []archived
	if err == nil {
		unfinished, err = s.removeTasks(ctx, written)
	}
	if err != nil {
		s.discard(ctx, written)
		return err
	}
	for _, a := range append(beingDeleted, unfinished...) {
		if err := s.Tasks.Resume(ctx, a.Namespace, a.TaskID); err != nil {
			return err
		}
	}
	return nil
}

// archiveWriters is how many archives are written at a time: each waits for its reads and its disk.
const archiveWriters = 4

// writeResult is what archiving a task gave. at is its place among the tasks.
type writeResult struct {
	archived
	at  int
	err error
}

// removeTasks records the archives of tasks and removes these: in one transaction if they are small. It
// returns those that are not removed as a whole, or whose deletion had begun.
func (s *retiring) removeTasks(ctx context.Context, written []archived) (unfinished []archived, err error) {
	if len(written) == 0 {
		return nil, nil
	}
	var unneeded []archived
	var ended store.ChildrenEnded
	err = s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
		if ended, err = store.EndRemoved(ctx, tx, idsOf(written)); err == nil {
			unneeded, unfinished, err = retireTasks(ctx, tx, written)
		}
		for i := range written {
			written[i].sent = written[i].sent || err == nil
		}
		return err
	})
	if errors.Is(err, store.ErrManyRows) {
		half := len(written) / 2
		if unfinished, err = s.removeTasks(ctx, written[:half]); err != nil {
			return nil, err
		}
		more, err := s.removeTasks(ctx, written[half:])
		return append(unfinished, more...), err
	}
	if err != nil {
		return nil, err
	}
	s.Tasks.ChildrenEnded(ctx, ended)
	s.removeFiles(ctx, unneeded)
	s.pruned += int64(len(written))
	return unfinished, nil
}

func idsOf(tasks []archived) []string {
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].TaskID
	}
	return ids
}

// retireTasks records the archives of tasks and removes their rows, of a single one the first rows;
// unfinished are those of which rows are left. It locks the tasks before it checks them, because
// another server may be retiring them too, and only an archive of the whole task may be recorded.
// unneeded are the archives that are not needed any more: the previous ones, or the tasks' own.
func retireTasks(ctx context.Context, tx store.Tx, all []archived) (unneeded, unfinished []archived, err error) {
	there, err := store.LockTasksLast(ctx, tx, idsOf(all))
	if err != nil {
		return nil, nil, err
	}
	leaving, err := store.AreBeingDeleted(ctx, tx, there)
	if err != nil {
		return nil, nil, err
	}
	extents, err := extents(ctx, tx, there)
	if err != nil {
		return nil, nil, err
	}
	pending, err := store.StillPending(ctx, tx, there)
	if err != nil {
		return nil, nil, err
	}
	var rows []Archived
	var ids []string
	for _, a := range all {
		switch {
		case !slices.Contains(there, a.TaskID):
			unneeded = append(unneeded, a)
		case slices.Contains(leaving, a.TaskID):
			unneeded, unfinished = append(unneeded, a), append(unfinished, a)
		case extents[a.TaskID] != a.extent:
			return nil, nil, store.ErrChanged
		case slices.Contains(pending, a.TaskID):
			return nil, nil, store.ErrChanged
		default:
			rows, ids = append(rows, a.Archived), append(ids, a.TaskID)
		}
	}
	if len(rows) == 0 {
		return unneeded, unfinished, nil
	}
	old, err := archivePaths(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range old {
		unneeded = append(unneeded, archived{Archived: Archived{Archive: pawl.Archive{Path: path}}})
	}
	if err := keepArchives(ctx, tx, rows); err != nil {
		return nil, nil, err
	}
	if len(ids) > 1 {
		return unneeded, unfinished, store.RemoveTasks(ctx, tx, ids, removeBatch)
	}
	done, err := store.DeleteTask(ctx, tx, rows[0].Namespace, ids[0], nil, removeBatch)
	if !done {
		unfinished = append(unfinished, archived{Archived: rows[0]})
	}
	return unneeded, unfinished, err
}

// discard removes the files of archives that were not recorded. If the commit of the transaction that was
// to record them was sent, it may have committed: the lock on the task waits for it. If that cannot
// be found out, the files stay; they do no harm.
func (s *Keeper) discard(ctx context.Context, written []archived) {
	sent := func(a archived) bool { return a.sent }
	s.removeFiles(ctx, slices.DeleteFunc(slices.Clone(written), sent))
	if !slices.ContainsFunc(written, sent) {
		return
	}
	written = slices.DeleteFunc(slices.Clone(written), func(a archived) bool { return !a.sent })
	var unneeded []archived
	err := s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
		ids := idsOf(written)
		if _, err := store.LockTasksLast(ctx, tx, ids); err != nil {
			return err
		}
		used, err := archivePaths(ctx, tx, ids)
		if err != nil {
			return err
		}
		unneeded = slices.DeleteFunc(slices.Clone(written), func(a archived) bool { return slices.Contains(used, a.Path) })
		return nil
	})
	if err == nil {
		s.removeFiles(ctx, unneeded)
	}
}
