package sweep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-work/pawl/store"
)

// errRewritten means that a segment was changed after it was read.
var errRewritten = errors.New("the segment was changed meanwhile")

// DeleteArchive removes all archives of a task that is not there any more: its own, and its rows in segments.
// The task cannot be restored afterwards. A task that was restored, and one that a task which is there
// is linked to, is a conflict.
func (s *Sweeper) DeleteArchive(ctx context.Context, namespace, taskID string) error {
	for {
		err := s.deleteArchive(ctx, namespace, taskID)
		if !errors.Is(err, errRewritten) {
			return err
		}
	}
}

func (s *Sweeper) deleteArchive(ctx context.Context, namespace, taskID string) error {
	a, err := readArchive(ctx, s.DB, namespace, taskID)
	if err != nil {
		return err
	}
	var in []store.Segment
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		in, err = store.SegmentsOf(ctx, tx, namespace, taskID)
		return err
	})
	if err != nil {
		return err
	}
	later := make([]*store.Segment, len(in))
	for i := range in {
		if later[i], err = s.withoutTask(ctx, &in[i], taskID); err != nil {
			return unreadable(taskID, err)
		}
	}
	err = s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
		if err := store.LockArchives(ctx, tx, namespace, taskID); err != nil {
			return err
		}
		now, err := store.SegmentsOf(ctx, tx, namespace, taskID)
		if err != nil {
			return err
		}
		if len(now) != len(in) {
			return errRewritten
		}
		for i := range now {
			if now[i].SHA256 != in[i].SHA256 {
				return errRewritten
			}
			if err := store.ChangeSegment(ctx, tx, later[i]); err != nil {
				return err
			}
		}
		return store.ForgetArchives(ctx, tx, []string{taskID})
	})
	files := later
	if err == nil {
		files = nil
		for i := range in {
			files = append(files, &in[i])
		}
		if a.Segment == nil {
			s.removeFile(ctx, a.Path)
		}
		s.Log.InfoContext(ctx, "archive deleted", "task_id", taskID, "namespace", namespace)
	}
	for _, g := range files {
		s.removeFile(ctx, g.Path)
	}
	return err
}

// withoutTask returns what a segment becomes without a task: its frame is written anew, and the last one. The other
// frames stay as they are, also if they cannot be read. Its file is durable, under a new name.
func (s *Sweeper) withoutTask(ctx context.Context, g *store.Segment, taskID string) (*store.Segment, error) {
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
