package archives

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/store"
)

// List returns the archives of a namespace, newest task first.
func (s *Keeper) List(ctx context.Context, namespace string, page pawl.Page) (pawl.List[pawl.Archive], error) {
	limit := page.Limit
	if limit <= 0 {
		limit = pawl.DefaultPage
	}
	limit = min(limit, pawl.MaxPage)
	list := pawl.List[pawl.Archive]{Items: []pawl.Archive{}}
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		found, err := listed(ctx, tx, namespace, page.Cursor, limit+1)
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
// was reused, is a conflict. A large archive is restored in parts: see store.Restorer.
func (s *Keeper) Restore(ctx context.Context, namespace, taskID string) error {
	read, err := s.signed()
	if err != nil {
		return err
	}
	if err := s.Tasks.RemoveCopy(ctx, taskID); err != nil { // of a restore whose process has died
		return err
	}
	var a Archived
	var r *store.Restorer
	inParts := store.Copy{TaskID: taskID, Token: s.NewID("run")}
	apart := false
	err = s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if a, err = restorable(ctx, tx, namespace, &inParts); err != nil {
			return err
		}
		if apart = a.Bytes > largeArchive; apart {
			if apart, err = inParts.BeginRestore(ctx, tx, namespace); err != nil || apart {
				return cmp.Or(err, s.keepParts(&a))
			}
		}
		if r, err = s.restore(ctx, tx, namespace, a); err != nil {
			return err
		}
		signed, err := read(ctx, tx)
		if err != nil {
			return err
		}
		if err := store.SearchAgain(ctx, tx, store.TaskID(taskID)); err != nil { // its items have no gates yet
			return err
		}
		return r.LogRestored(ctx, tx, signed)
	})
	if err == nil && apart {
		r = &store.Restorer{TaskID: taskID, Namespace: namespace}
		r.InParts(&inParts, s.DB.Do, read)
		if err = s.restoreInParts(ctx, a, r); err != nil {
			s.Tasks.DropCopy(ctx, &inParts)
		}
	}
	if err == nil {
		s.Log.InfoContext(ctx, "task restored from its archive", "task_id", taskID, "namespace", namespace)
	}
	return err
}

// restorable locks the archive of a task that is not there: it may be deleted meanwhile.
func restorable(ctx context.Context, tx store.Tx, namespace string, c *store.Copy) (a Archived, err error) {
	if err := lockArchives(ctx, tx, namespace, c.TaskID); err != nil {
		return a, err
	}
	if a, err = get(ctx, tx, namespace, c.TaskID); err != nil {
		return a, err
	}
	if err := c.NotBeingRestored(ctx, tx); err != nil {
		return a, err
	}
	there, err := store.NamespaceOfTask(ctx, tx, c.TaskID)
	if err == nil && there != "" {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "restore", Message: "task " + c.TaskID + " exists", Allowed: []string{}}
	}
	return a, err
}

// keepParts reads the frames of an archive of a segment while it is locked: another deletion gives the segment a new file.
func (s *Keeper) keepParts(a *Archived) (err error) {
	if a.Segment == nil {
		return nil
	}
	if a.Parts, err = s.parts(a); err != nil {
		err = unreadable(a.TaskID, err)
	}
	return err
}

// restoreInParts restores a task whose mark is written.
func (s *Keeper) restoreInParts(ctx context.Context, a Archived, r *store.Restorer) error {
	for more := true; more; {
		err := s.load(a, func(line []byte) error { return r.Line(ctx, nil, line) })
		if err != nil {
			return err
		}
		if more, err = r.Again(ctx); err != nil {
			return err
		}
	}
	return s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := r.Done(ctx, tx); err != nil {
			return err
		}
		return store.SearchAgain(ctx, tx, store.TaskID(a.TaskID))
	})
}

// Read reads the archive of a task, without its lines.
func (s *Keeper) Read(ctx context.Context, db store.DB, namespace, taskID string) (a Archived, err error) {
	err = db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		a, err = get(ctx, tx, namespace, taskID)
		return err
	})
	return a, err
}

// restore inserts the rows of an archive.
func (s *Keeper) restore(ctx context.Context, tx store.Tx, namespace string, a Archived) (*store.Restorer, error) {
	r := &store.Restorer{TaskID: a.TaskID, Namespace: namespace}
	if err := s.load(a, func(line []byte) error { return r.Line(ctx, tx, line) }); err != nil {
		return nil, err
	}
	return r, r.Done(ctx, tx)
}

// errPeeked rolls back the transaction of Peek.
var errPeeked = errors.New("the archive was read")

// largeArchive is the size of archives above which Peek inserts their rows into a database of their own, and Restore in
// several transactions.
const largeArchive = 256 << 10

// Peek runs fn in a transaction that has the rows of an archived task. It is one of a database that goes away, or if the
// archive is small, one of db, which it rolls back. If the task has been restored, fn runs on its own rows, and archived is
// false.
func (s *Keeper) Peek(ctx context.Context, db store.DB, namespace, taskID string,
	fn func(ctx context.Context, tx store.Tx, archived bool) error) error {
	for again := true; ; again = false {
		a, err := s.Read(ctx, db, namespace, taskID)
		if err != nil {
			return err
		}
		peek := s.peek
		if s.Scratch != nil && a.Bytes > largeArchive {
			peek = s.peekBeside
		}
		beside, err := peek(ctx, db, namespace, a, fn)
		if !beside || !again {
			return err
		}
	}
}

// peek reports whether it failed because a restore that ended meanwhile has inserted the rows, or another task was deleted
// from their segment.
func (s *Keeper) peek(ctx context.Context, db store.DB, namespace string, a Archived,
	fn func(ctx context.Context, tx store.Tx, archived bool) error) (beside bool, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := (&store.Copy{TaskID: a.TaskID}).NotBeingRestored(ctx, tx); err != nil {
			return err
		}
		there, err := store.NamespaceOfTask(ctx, tx, a.TaskID)
		if err == nil && there == "" {
			_, err = s.restore(ctx, tx, namespace, a)
			beside = pawl.CodeOf(err) == pawl.CodeConflict || pawl.CodeOf(err) == pawl.CodeInternal
		}
		if err == nil {
			err = fn(ctx, tx, there == "")
		}
		return cmp.Or(err, errPeeked)
	})
	if errors.Is(err, errPeeked) {
		return false, nil
	}
	return beside, err
}

// peekBeside is peek with the rows in a database of their own: nothing waits for it.
func (s *Keeper) peekBeside(ctx context.Context, db store.DB, namespace string, a Archived,
	fn func(ctx context.Context, tx store.Tx, archived bool) error) (beside bool, err error) {
	there := ""
	err = db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if there, err = store.NamespaceOfTask(ctx, tx, a.TaskID); err == nil && there == namespace {
			err = fn(ctx, tx, false)
		}
		return err
	})
	if err != nil || there == namespace {
		return false, err
	}
	scratch, done, err := s.scratch(ctx)
	if err != nil { // such as no directory for temporary files
		s.Log.WarnContext(ctx, "an archive is read beside the tasks of others", "task_id", a.TaskID, "error", err)
		return s.peek(ctx, db, namespace, a, fn)
	}
	defer done()
	err = scratch.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := s.restore(ctx, tx, namespace, a)
		beside = pawl.CodeOf(err) == pawl.CodeInternal
		return err
	})
	if err != nil {
		return beside, err
	}
	return false, scratch.View(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, tx, true) })
}

// scratch opens a database in the directory of temporary files.
func (s *Keeper) scratch(ctx context.Context) (db store.DB, done func(), err error) {
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return nil, nil, err
	}
	release, err := durable.Hold(dir)
	if err == nil {
		db, err = s.Scratch(ctx, dir)
	}
	done = func() {
		var closed error
		if db != nil {
			closed = db.Close()
		}
		if err := errors.Join(closed, os.RemoveAll(dir)); err != nil {
			s.Log.ErrorContext(ctx, "temporary files were not removed", "error", err)
		}
		if release != nil {
			release()
		}
	}
	if err != nil {
		done()
	}
	return db, done, err
}
