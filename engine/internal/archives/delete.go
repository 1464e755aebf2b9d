package archives

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl/store"
)

// errRewritten means that a segment was changed after it was read.
var errRewritten = errors.New("the segment was changed meanwhile")

// Delete removes all archives of a task that is not there any more: its own, and its rows in segments.
// The task cannot be restored afterwards. A task that is there, and one that a task which is there
// is linked to, is a conflict. An event `deleted` stays, as of a task that is deleted.
func (s *Keeper) Delete(ctx context.Context, namespace, taskID string, by store.Deletion) error {
	for {
		err := s.deleteArchive(ctx, namespace, taskID, &by)
		if !errors.Is(err, errRewritten) {
			return err
		}
	}
}

func (s *Keeper) deleteArchive(ctx context.Context, namespace, taskID string, by *store.Deletion) error {
	var own Archived
	var in []store.Segment
	read := func(ctx context.Context, tx store.Tx) (err error) {
		if own, err = get(ctx, tx, namespace, taskID); err != nil {
			return err
		}
		in, err = segmentsOf(ctx, tx, namespace, taskID)
		return err
	}
	if err := s.DB.View(ctx, read); err != nil {
		return err
	}
	path, sums, before := own.Path, sumsOf(own, in), in
	later, err := s.segmentsWithout(ctx, before, taskID)
	sent := false
	if err != nil { // perhaps it was changed meanwhile
		if now := s.DB.View(ctx, read); now != nil || !slices.Equal(sumsOf(own, in), sums) {
			err = cmp.Or(now, errRewritten)
		}
	} else {
		err = s.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
			if err := lockArchives(ctx, tx, namespace, taskID); err != nil {
				return err
			}
			if err := read(ctx, tx); err != nil {
				return err
			}
			if !slices.Equal(sumsOf(own, in), sums) {
				return errRewritten
			}
			if err := needsArchive(ctx, tx, taskID); err != nil {
				return err
			}
			for _, g := range later {
				if err := changeSegment(ctx, tx, g); err != nil {
					return err
				}
			}
			err := bury(ctx, tx, now, namespace, taskID, by)
			sent = sent || err == nil
			return err
		})
	}
	if err != nil {
		for _, g := range later {
			s.discardSegment(ctx, g, sent, func(ctx context.Context, tx store.Tx) error {
				return lockArchives(ctx, tx, namespace, taskID)
			})
		}
		return err
	}
	s.Log.InfoContext(ctx, "archive deleted", "task_id", taskID, "namespace", namespace, "actor", by.Actor.ID)
	s.removeFile(ctx, path) // its own, or that of the newest segment
	for _, g := range before {
		s.removeFile(ctx, g.Path)
	}
	return nil
}

// bury removes the rows of the archives of a task, which leave a tombstone.
func bury(ctx context.Context, tx store.Tx, now int64, namespace, taskID string, by *store.Deletion) error {
	if err := store.BuryArchive(ctx, tx, now, namespace, taskID, by); err != nil {
		return err
	}
	return forget(ctx, tx, taskID)
}

// sumsOf returns the checksums of what has a task.
func sumsOf(own Archived, in []store.Segment) []string {
	sums := []string{own.Path, own.SHA256}
	for _, g := range in {
		sums = append(sums, g.SHA256)
	}
	return sums
}

// segmentsWithout returns what segments become without a task, also those before an error.
func (s *Keeper) segmentsWithout(ctx context.Context, in []store.Segment, taskID string) (out []*store.Segment, err error) {
	for i := range in {
		g, err := s.withoutTask(ctx, &in[i], taskID)
		if err != nil {
			return out, unreadable(taskID, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// withoutTask returns what a segment becomes without a task: its frame is written anew, and the last one. The other
// frames stay as they are, also if they cannot be read. Its file is durable, under a new name.
func (s *Keeper) withoutTask(ctx context.Context, g *store.Segment, taskID string) (*store.Segment, error) {
	out := &store.Segment{ID: g.ID, Namespace: g.Namespace, CreatedAt: g.CreatedAt}
	if len(g.TaskIDs()) == 1 {
		return out, nil
	}
	body, err := s.bodyOf(ctx, g)
	if err != nil {
		return nil, err
	}
	zip, err := s.frameEncoder()
	if err != nil {
		return nil, err
	}
	defer s.frames.Put(zip)
	mine := g.FrameOf(taskID)
	for i, f := range g.Frames {
		at := g.Offset(i)
		part := body[at : at+f.Size]
		if i != mine && i != len(g.Frames)-1 {
			out.Body, out.Frames = append(out.Body, part...), append(out.Frames, f)
			continue
		}
		if sha256.Sum256(part) != f.Sum {
			return nil, errFrame
		}
		lines, err := linesWithout(part, taskID)
		if err != nil {
			return nil, err
		}
		tasks := without(f.Tasks, []string{taskID})
		if i == mine && len(tasks) == 0 {
			continue
		}
		addFrame(out, zip, lines, tasks)
	}
	return out, s.keepSegment(out, time.UnixMicro(g.CreatedAt))
}

// linesWithout returns the lines of a frame without those of a task.
func linesWithout(frame []byte, taskID string) ([]byte, error) {
	var out bytes.Buffer
	mine := false
	err := linesOf(frame, func(line []byte) error {
		if id, begins := store.BeginsArchive(line); begins {
			mine = id == taskID
		}
		if store.EndsSegment(line) {
			var log store.SegmentLog
			if err := json.Unmarshal(line, &log); err != nil {
				return err
			}
			log.Forget(taskID)
			return json.NewEncoder(&out).Encode(&log)
		}
		if !mine {
			out.Write(line)
		}
		return nil
	}, func(err error) error { return err })
	return out.Bytes(), err
}
