package sweep

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// checkedArchives bounds the archives that a check reads: the newest ones.
	checkedArchives = 1000
	// checkedSegments bounds the segments that a check reads: the newest ones.
	checkedSegments = 20
	// checkedTasks bounds the tasks that one read of the check of retention covers.
	checkedTasks = 20_000
)

// Check searches for archives that cannot be read, and for tasks that no pass of retention will find, among those in db.
func (s *Sweeper) Check(ctx context.Context, db store.DB, report func(store.Breach)) error {
	if err := s.checkArchives(ctx, db, breaches(store.RuleArchive, report)); err != nil {
		return err
	}
	return s.checkRetention(ctx, db, breaches(store.RuleRetention, report))
}

// breaches returns a function that reports breaches of a rule.
func breaches(rule string, report func(store.Breach)) func(taskID, found string) {
	return func(taskID, found string) {
		report(store.Breach{Rule: rule, Code: store.CodeOfRule(rule), Subject: taskID, Found: found, Repair: store.RuleOf(rule).Repair})
	}
}

func (s *Sweeper) checkArchives(ctx context.Context, db store.DB, report func(taskID, found string)) error {
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
func (s *Sweeper) checkSegment(ctx context.Context, g *store.Segment, signed store.SignedRoot, report func(taskID, found string)) error {
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
func (s *Sweeper) checkArchive(ctx context.Context, t store.TaskRef, signed store.SignedRoot, report func(taskID, found string)) error {
	a, err := readArchive(ctx, s.DB, t.Namespace, t.ID)
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

// checkRetention searches for tasks that the cursors of retention have passed.
func (s *Sweeper) checkRetention(ctx context.Context, db store.DB, report func(taskID, found string)) error {
	p := s.pass(nil)
	p.preview = &preview{}
	own, err := p.retentions(ctx)
	if err == nil {
		err = p.settle(ctx)
	}
	if err != nil {
		return err
	}
	type tried struct{ cursor, taskID string }
	cursors, again, furthest := map[string]recordCursor{}, map[tried]bool{}, int64(0)
	spans := retentionSpans(p.Options, own)
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, x := range spans {
			lists, err := listsOf(ctx, tx, x.cursor, math.MaxInt32)
			if err != nil {
				return err
			}
			for _, name := range append(lists, x.cursor) {
				at, err := cursorOf(ctx, tx, name)
				if err != nil {
					return err
				}
				for _, id := range at.Again {
					again[tried{x.cursor, id}] = true
				}
				cursors[name], furthest = at, max(furthest, at.Position)
			}
		}
		return nil
	})
	states := append(slices.Clone(ended), string(pawl.TaskFailed), string(pawl.TaskDeadLettered))
	for after := ""; err == nil && furthest > 0 && after != store.LastTask; {
		err = db.View(ctx, func(ctx context.Context, tx store.Tx) error {
			tasks, end, err := atRestBefore(ctx, tx, after, furthest, states, checkedTasks)
			after = end
			for _, t := range tasks {
				for _, x := range spans {
					at := cursors[x.cursor]
					if slices.Contains(x.states, t.State) && x.own(own[t.Type]) == x.seconds && at.Position >= t.Last &&
						!again[tried{x.cursor, t.TaskID}] && !at.Has(t.Last) {
						report(t.TaskID, "it is "+t.State+", and the cursor "+x.cursor+" has passed its events")
					}
				}
			}
			return err
		})
	}
	return err
}
