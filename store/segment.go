package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var segmentSQL = Texts(sqlFiles, "segment.sql")

// TasksOfFrame is how many tasks a frame has at most: one is read to restore one of them.
const TasksOfFrame = 16

// Segment is a row of segments: the archives of several tasks in one file, or in one body. It is a
// sequence of frames, each compressed by itself, and all of them together are one compressed text. The
// last frame has the line of the log.
type Segment struct {
	ID        int64
	Namespace string
	Frames    []Frame
	Path      string // "" = the table holds the body
	Body      []byte // as it is stored; only part of it is read
	Bytes     int64
	SHA256    string // of the whole
	CreatedAt int64  // µs
}

// Frame is a part of a segment. Its checksum is of its compressed bytes.
type Frame struct {
	Size  int64
	Sum   [sha256.Size]byte
	Tasks []string // in order; none = the frame of the log
}

// TaskIDs returns the tasks of a segment, in order.
func (s *Segment) TaskIDs() (out []string) {
	for _, f := range s.Frames {
		out = append(out, f.Tasks...)
	}
	return out
}

// FrameOf returns the index of the frame that has a task; -1 = none has.
func (s *Segment) FrameOf(taskID string) int {
	return slices.IndexFunc(s.Frames, func(f Frame) bool { return slices.Contains(f.Tasks, taskID) })
}

// Offset returns where a frame begins.
func (s *Segment) Offset(frame int) (at int64) {
	for _, f := range s.Frames[:frame] {
		at += f.Size
	}
	return at
}

// span returns the first and the last task.
func (s *Segment) span() (low, high TaskID) {
	ids := s.TaskIDs()
	return TaskID(slices.Min(ids)), TaskID(slices.Max(ids))
}

// PackFrames writes the sizes, checksums and tasks of frames.
func PackFrames(frames []Frame) []byte {
	var out []byte
	for _, f := range frames {
		out = binary.AppendUvarint(out, uint64(f.Size))
		out = append(out, f.Sum[:]...)
		out = binary.AppendUvarint(out, uint64(len(f.Tasks)))
		for _, id := range f.Tasks {
			b, _ := TaskID(id).Bytes()
			out = append(out, b[:]...)
		}
	}
	return out
}

// UnpackFrames reads what PackFrames wrote.
func UnpackFrames(packed []byte) (out []Frame, err error) {
	in := bytes.NewReader(packed)
	for in.Len() > 0 {
		var f Frame
		size, err := binary.ReadUvarint(in)
		if err != nil || size > math.MaxInt32 {
			return nil, errBadContents
		}
		f.Size = int64(size)
		if n, _ := in.Read(f.Sum[:]); n < len(f.Sum) {
			return nil, errBadContents
		}
		n, err := binary.ReadUvarint(in)
		if err != nil || n > uint64(in.Len()/16) {
			return nil, errBadContents
		}
		for range n {
			var b [16]byte
			_, _ = in.Read(b[:]) // there are enough
			f.Tasks = append(f.Tasks, formatID(taskPrefix, b))
		}
		out = append(out, f)
	}
	return out, nil
}

var errBadContents = errors.New("the contents of a segment cannot be read")

// PutSegment stores a new segment.
func PutSegment(ctx context.Context, tx Tx, s *Segment) error {
	low, high := s.span()
	_, err := tx.Exec(ctx, segmentSQL["put segment"], s.Namespace, low, high, PackFrames(s.Frames), Text(s.Path), s.Body, s.Bytes,
		s.SHA256, s.CreatedAt)
	return err
}

// OwnArchives returns those of the tasks that need archives of their own: other rows look these up.
func OwnArchives(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, segmentSQL["tasks with archives of their own"], TaskList(taskIDs))
}

// ForgetArchives removes the rows of the archives of tasks that get a place in a segment.
func ForgetArchives(ctx context.Context, tx Tx, taskIDs []string) error {
	_, err := tx.Exec(ctx, segmentSQL["forget archives"], TaskList(taskIDs))
	return err
}

// TasksThere returns those of the tasks that are not only archived.
func TasksThere(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, segmentSQL["tasks that are there"], TaskList(taskIDs))
}

// SegmentsOf returns the segments that have a task, the newest first. Many may have tasks of before and after it: tasks
// that ended together were not created together.
func SegmentsOf(ctx context.Context, tx Tx, namespace, taskID string) (out []Segment, err error) {
	id, ok := TaskID(taskID).Bytes()
	if !ok {
		return nil, nil
	}
	err = eachSegment(ctx, tx, id[:], func(s Segment) {
		if s.FrameOf(taskID) >= 0 {
			out = append(out, s)
		}
	}, "segments around", namespace, TaskID(taskID))
	return out, err
}

// SegmentIsUsed reports whether a segment with the file of this one was stored.
func SegmentIsUsed(ctx context.Context, tx Tx, s *Segment) (bool, error) {
	low, high := s.span()
	ids, err := Ints(ctx, tx, segmentSQL["segments with file"], s.Namespace, high, low, Text(s.Path))
	return len(ids) > 0, err
}

// NewestSegments returns the newest segments, of all namespaces.
func NewestSegments(ctx context.Context, tx Tx, limit int) ([]Segment, error) {
	return segments(ctx, tx, "newest segments", limit)
}

// LockArchives locks the archive of a task, and the segments that have it, before one of these is restored or
// deleted.
func LockArchives(ctx context.Context, tx Tx, namespace, taskID string) error {
	if _, err := TaskIDs(ctx, tx, segmentSQL["lock archive"], TaskID(taskID)); err != nil {
		return err
	}
	in, err := SegmentsOf(ctx, tx, namespace, taskID)
	for _, s := range slices.Backward(in) { // in the order of their ids
		if err == nil {
			_, err = Ints(ctx, tx, segmentSQL["lock segment"], s.ID)
		}
	}
	return err
}

// NeedsArchive returns a conflict if a task is there, or one that it is linked to: that one needs its archive.
func NeedsArchive(ctx context.Context, tx Tx, taskID string) error {
	if err := (&Copy{TaskID: taskID}).NotBeingRestored(ctx, tx); err != nil {
		return err
	}
	there, err := TaskIDs(ctx, tx, segmentSQL["tasks that need an archive"], TaskID(taskID))
	if err != nil || len(there) == 0 {
		return err
	}
	message := "task " + taskID + " is there: its archive is needed until the task is deleted"
	if !slices.Contains(there, taskID) {
		message = "task " + there[0] + " is there, and is linked to " + taskID + ", its parent or child"
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: "delete", Message: message, Allowed: []string{}}
}

// ChangeSegment stores other contents of a segment, and removes it when they have no task.
func ChangeSegment(ctx context.Context, tx Tx, s *Segment) (err error) {
	if len(s.TaskIDs()) == 0 {
		_, err = tx.Exec(ctx, segmentSQL["remove segment"], s.ID)
	} else {
		_, err = tx.Exec(ctx, segmentSQL["change segment"], s.ID, PackFrames(s.Frames), Text(s.Path), s.Body, s.Bytes, s.SHA256)
	}
	return err
}

// ReadParts reads frames of a segment whose body is in the table.
func (s *Segment) ReadParts(ctx context.Context, tx Tx, frames ...int) ([][]byte, error) {
	out := make([][]byte, len(frames))
	for i, f := range frames {
		if _, err := Row(ctx, tx, []any{&out[i]}, segmentSQL["part of segment"], s.ID, s.Offset(f)+1, s.Frames[f].Size); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadBody reads the whole body of a segment that the table holds.
func (s *Segment) ReadBody(ctx context.Context, tx Tx) (body []byte, err error) {
	_, err = Row(ctx, tx, []any{&body}, segmentSQL["body of segment"], s.ID)
	return body, err
}

func segments(ctx context.Context, tx Tx, query string, args ...any) (out []Segment, err error) {
	err = eachSegment(ctx, tx, nil, func(s Segment) { out = append(out, s) }, query, args...)
	return out, err
}

// eachSegment passes on the segments whose contents have some bytes.
func eachSegment(ctx context.Context, tx Tx, has []byte, fn func(Segment), query string, args ...any) error {
	return EachRow(ctx, tx, func(rows Rows) error {
		var s Segment
		var low, high TaskID
		var contents []byte
		err := rows.Scan(&s.ID, &s.Namespace, &low, &high, &contents, (*Text)(&s.Path), &s.Bytes, &s.SHA256, &s.CreatedAt)
		if err != nil {
			return err
		}
		if !bytes.Contains(contents, has) {
			return nil
		}
		if s.Frames, err = UnpackFrames(contents); err != nil {
			return &pawl.Error{Code: pawl.CodeInternal, Op: "read", Message: fmt.Sprintf("segment %d of the archives cannot be read: %v", s.ID, err)}
		}
		fn(s)
		return nil
	}, segmentSQL[query], args...)
}

// archive returns the archive of one of its tasks, as lists show it. Its bytes are its share.
func (s *Segment) archive(taskID string) pawl.Archive {
	tasks := int64(len(s.TaskIDs()))
	return pawl.Archive{TaskID: taskID, Path: s.Path, Bytes: (s.Bytes + tasks - 1) / tasks, SHA256: s.SHA256,
		CreatedAt: time.UnixMicro(s.CreatedAt).UTC()}
}

// segmentsAtOnce is how many segments one read of a list looks at.
const segmentsAtOnce = 32

// archivedBefore returns the newest segment of each of the last tasks of a namespace that are before one
// and in segments, at most limit.
func archivedBefore(ctx context.Context, tx Tx, namespace string, before TaskID, limit int) (map[string]*Segment, error) {
	found := map[string]*Segment{}
	high, id := TaskID(LastTask), int64(math.MaxInt64)
	for {
		some, err := segments(ctx, tx, "segments before", namespace, before, high, id, segmentsAtOnce)
		if err != nil {
			return nil, err
		}
		for i := range some {
			s := &some[i]
			_, high = s.span()
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
