package archives

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// checkedArchives bounds the archives that a check reads: the newest ones.
	checkedArchives = 1000
	// checkedSegments bounds the segments that a check reads: the newest ones.
	checkedSegments = 20
)

// Check searches for archives that cannot be read, among those in db.
func (s *Keeper) Check(ctx context.Context, db store.DB, breach func(store.Breach)) error {
	report := func(taskID, found string) { breach(store.BreachOf(store.RuleArchive, taskID, found)) }
	var all []store.TaskRef
	var segments []store.Segment
	var signed store.SignedRoot
	read, err := s.signed()
	if err != nil {
		return err
	}
	err = db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if all, err = archivesToCheck(ctx, tx, checkedArchives); err != nil {
			return err
		}
		if segments, err = newestSegments(ctx, tx, checkedSegments); err == nil && len(all)+len(segments) > 0 {
			signed, err = read(ctx, tx)
		}
		return err
	})
	for i := range segments {
		if err != nil || ctx.Err() != nil {
			break
		}
		err = s.checkSegment(ctx, &segments[i], signed, report)
	}
	for _, t := range all {
		if err != nil || ctx.Err() != nil {
			break
		}
		err = s.checkArchive(ctx, t, signed, report)
	}
	return err
}

// checkSegment reads a whole segment, and each archive in it by itself if that fails: the frames of others may be sound.
func (s *Keeper) checkSegment(ctx context.Context, g *store.Segment, signed store.SignedRoot, report func(taskID, found string)) error {
	var there []string
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		there, err = tasksThere(ctx, tx, g.TaskIDs())
		return err
	})
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(g.TaskIDs(), func(id string) bool { return slices.Contains(there, id) })
	r, unread := s.readSegment(ctx, g)
	of := map[string]*store.ArchiveReader{}
	if unread == nil {
		for _, a := range r.Tasks {
			of[a.TaskID] = a
		}
	}
	for _, id := range gone {
		a := of[id]
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a == nil || a.Namespace != g.Namespace:
			if err := s.checkArchive(ctx, store.TaskRef{ID: id, Namespace: g.Namespace}, signed, report); err != nil {
				return err
			}
		default:
			checkProofs(a, signed, id, report)
		}
	}
	return nil
}

// checkArchive reads an archive as a restore does. A task that is restored meanwhile has none to check.
func (s *Keeper) checkArchive(ctx context.Context, t store.TaskRef, signed store.SignedRoot, report func(taskID, found string)) error {
	a, err := s.Read(ctx, s.DB, t.Namespace, t.ID)
	if pawl.CodeOf(err) == pawl.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var r store.ArchiveReader
	if err := s.load(a, r.Line); err != nil {
		report(t.ID, err.Error())
		return nil
	}
	if r.TaskID != t.ID || r.Namespace != t.Namespace {
		report(t.ID, "it is the archive of "+r.TaskID)
		return nil
	}
	checkProofs(&r, signed, t.ID, report)
	return nil
}

// checkProofs compares the events of an archive with its proofs, if a known key has signed their checkpoint.
func checkProofs(r *store.ArchiveReader, signed store.SignedRoot, taskID string, report func(taskID, found string)) {
	if r.Log == nil || r.Log.Checkpoint == "" || signed.Open == nil {
		return
	}
	root, known := signed.Open(r.Log.Checkpoint)
	if !known {
		return
	}
	_, faults := r.Check(root)
	for _, f := range faults {
		if f.Kind == store.FaultChanged || f.Kind == store.FaultMissing {
			report(taskID, fmt.Sprintf("%s: %s", f.EventID, f.Found))
			break
		}
	}
}

// archivesToCheck lists the newest archives of tasks that are not there: their tasks and namespaces.
func archivesToCheck(ctx context.Context, tx store.Tx, limit int) (out []store.TaskRef, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var t store.TaskRef
		err := rows.Scan((*store.TaskID)(&t.ID), &t.Namespace)
		out = append(out, t)
		return err
	}, texts["archives to check"], limit)
	return out, err
}
