package archives

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// tasksOfFrame is how many tasks a frame has at most: one is read to restore one of them.
const tasksOfFrame = 16

// forget removes the rows of the archives of tasks that get a place in a segment, or whose archives are deleted.
func forget(ctx context.Context, tx store.Tx, taskIDs ...string) error {
	_, err := tx.Exec(ctx, segmented["forget archives"], store.TaskList(taskIDs))
	return err
}

// putSegment stores a new segment.
func putSegment(ctx context.Context, tx store.Tx, s *store.Segment) error {
	low, high := s.Span()
	_, err := tx.Exec(ctx, segmented["put segment"], s.Namespace, low, high, store.PackFrames(s.Frames), store.Text(s.Path), s.Body, s.Bytes,
		s.SHA256, s.CreatedAt)
	return err
}

// ownArchives returns those of the tasks that need archives of their own: other rows look these up.
func ownArchives(ctx context.Context, tx store.Tx, taskIDs []string) ([]string, error) {
	return store.TaskIDs(ctx, tx, segmented["tasks with archives of their own"], store.TaskList(taskIDs))
}

// tasksThere returns those of the tasks that are not only archived.
func tasksThere(ctx context.Context, tx store.Tx, taskIDs []string) ([]string, error) {
	return store.TaskIDs(ctx, tx, segmented["tasks that are there"], store.TaskList(taskIDs))
}

// segmentsOf returns the segments that have a task, the newest first. Many may have tasks of before and after it: tasks
// that ended together were not created together.
func segmentsOf(ctx context.Context, tx store.Tx, namespace, taskID string) (out []store.Segment, err error) {
	id, ok := store.TaskID(taskID).Bytes()
	if !ok {
		return nil, nil
	}
	err = eachSegment(ctx, tx, id[:], func(s store.Segment) {
		if s.FrameOf(taskID) >= 0 {
			out = append(out, s)
		}
	}, "segments around", namespace, store.TaskID(taskID))
	return out, err
}

// segmentIsUsed reports whether a segment with the file of this one was stored.
func segmentIsUsed(ctx context.Context, tx store.Tx, s *store.Segment) (bool, error) {
	low, high := s.Span()
	ids, err := store.Ints(ctx, tx, segmented["segments with file"], s.Namespace, high, low, store.Text(s.Path))
	return len(ids) > 0, err
}

// newestSegments returns the newest segments, of all namespaces.
func newestSegments(ctx context.Context, tx store.Tx, limit int) ([]store.Segment, error) {
	return segments(ctx, tx, "newest segments", limit)
}

// lockArchives locks the archive of a task, and the segments that have it, before one of these is restored or
// deleted.
func lockArchives(ctx context.Context, tx store.Tx, namespace, taskID string) error {
	if _, err := store.TaskIDs(ctx, tx, segmented["lock archive"], store.TaskID(taskID)); err != nil {
		return err
	}
	in, err := segmentsOf(ctx, tx, namespace, taskID)
	for _, s := range slices.Backward(in) { // in the order of their ids
		if err == nil {
			_, err = store.Ints(ctx, tx, segmented["lock segment"], s.ID)
		}
	}
	return err
}

// needsArchive returns a conflict if a task is there, or one that it is linked to: that one needs its archive.
func needsArchive(ctx context.Context, tx store.Tx, taskID string) error {
	if err := (&store.Copy{TaskID: taskID}).NotBeingRestored(ctx, tx); err != nil {
		return err
	}
	there, err := store.TaskIDs(ctx, tx, segmented["tasks that need an archive"], store.TaskID(taskID))
	if err != nil || len(there) == 0 {
		return err
	}
	message := "task " + taskID + " is there: its archive is needed until the task is deleted"
	if !slices.Contains(there, taskID) {
		message = "task " + there[0] + " is there, and is linked to " + taskID + ", its parent or child"
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: "delete", Message: message, Allowed: []string{}}
}

// changeSegment stores other contents of a segment, and removes it when they have no task.
func changeSegment(ctx context.Context, tx store.Tx, s *store.Segment) (err error) {
	if len(s.TaskIDs()) == 0 {
		_, err = tx.Exec(ctx, segmented["remove segment"], s.ID)
	} else {
		_, err = tx.Exec(ctx, segmented["change segment"], s.ID, store.PackFrames(s.Frames), store.Text(s.Path), s.Body, s.Bytes, s.SHA256)
	}
	return err
}

func segments(ctx context.Context, tx store.Tx, query string, args ...any) (out []store.Segment, err error) {
	err = eachSegment(ctx, tx, nil, func(s store.Segment) { out = append(out, s) }, query, args...)
	return out, err
}

// eachSegment passes on the segments whose contents have some bytes.
func eachSegment(ctx context.Context, tx store.Tx, has []byte, fn func(store.Segment), query string, args ...any) error {
	return store.EachRow(ctx, tx, func(rows store.Rows) error {
		var s store.Segment
		var low, high store.TaskID
		var contents []byte
		err := rows.Scan(&s.ID, &s.Namespace, &low, &high, &contents, (*store.Text)(&s.Path), &s.Bytes, &s.SHA256, &s.CreatedAt)
		if err != nil {
			return err
		}
		if !bytes.Contains(contents, has) {
			return nil
		}
		if err := s.Unpack(contents); err != nil {
			return &pawl.Error{Code: pawl.CodeInternal, Op: "read", Message: fmt.Sprintf("segment %d of the archives cannot be read: %v", s.ID, err)}
		}
		fn(s)
		return nil
	}, segmented[query], args...)
}

// segmentsAtOnce is how many segments one read of a list looks at.
const segmentsAtOnce = 32

// archivedBefore returns the newest segment of each of the last tasks of a namespace that are before one
// and in segments, at most limit.
func archivedBefore(ctx context.Context, tx store.Tx, namespace string, before store.TaskID, limit int) (map[string]*store.Segment, error) {
	found := map[string]*store.Segment{}
	high, id := store.TaskID(store.LastTask), int64(math.MaxInt64)
	for {
		some, err := segments(ctx, tx, "segments before", namespace, before, high, id, segmentsAtOnce)
		if err != nil {
			return nil, err
		}
		for i := range some {
			s := &some[i]
			_, high = s.Span()
			id = s.ID
			if len(found) >= limit && string(high) < slices.Min(slices.Collect(maps.Keys(found))) { // no segment behind has a later one
				return found, nil
			}
			for _, task := range s.TaskIDs() {
				if task < string(before) && (found[task] == nil || found[task].ID < s.ID) {
					found[task] = s
				}
			}
			if last := slices.Sorted(maps.Keys(found)); len(last) > limit {
				for _, task := range last[:len(last)-limit] {
					delete(found, task)
				}
			}
		}
		if len(some) < segmentsAtOnce {
			return found, nil
		}
	}
}
