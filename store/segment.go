package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var segmentSQL = Texts(sqlFiles, "segment.sql")

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
func (s *Segment) Span() (low, high TaskID) {
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

// Unpack sets the frames to what PackFrames wrote.
func (s *Segment) Unpack(packed []byte) error {
	s.Frames = nil
	in := bytes.NewReader(packed)
	for in.Len() > 0 {
		var f Frame
		size, err := binary.ReadUvarint(in)
		if err != nil || size > math.MaxInt32 {
			return errBadContents
		}
		f.Size = int64(size)
		if n, _ := in.Read(f.Sum[:]); n < len(f.Sum) {
			return errBadContents
		}
		n, err := binary.ReadUvarint(in)
		if err != nil || n > uint64(in.Len()/16) {
			return errBadContents
		}
		for range n {
			var b [16]byte
			_, _ = in.Read(b[:]) // there are enough
			f.Tasks = append(f.Tasks, formatID(taskPrefix, b))
		}
		s.Frames = append(s.Frames, f)
	}
	return nil
}

var errBadContents = errors.New("the contents of a segment cannot be read")

// EndFrame makes a frame of what the body has behind a place.
func (s *Segment) EndFrame(at int, tasks []string) {
	s.Frames = append(s.Frames, Frame{Size: int64(len(s.Body) - at), Sum: sha256.Sum256(s.Body[at:]), Tasks: tasks})
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

// archive returns the archive of one of its tasks, as lists show it. Its bytes are its share.
func (s *Segment) Archive(taskID string) pawl.Archive {
	tasks := int64(len(s.TaskIDs()))
	return pawl.Archive{TaskID: taskID, Path: s.Path, Bytes: (s.Bytes + tasks - 1) / tasks, SHA256: s.SHA256,
		CreatedAt: time.UnixMicro(s.CreatedAt).UTC()}
}
