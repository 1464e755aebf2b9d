package archives

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"

	"github.com/pawl-work/pawl/store"
)

var (
	errFrame = errors.New("the checksum of its segment does not match: it was changed, or is another one")
	// errNoFrame means that the file ends before the frame does.
	errNoFrame = errors.New("the file of its segment is cut off, or is another one")
)

// loadFromSegment is load for a task of a segment: it reads the task's frame, and the last one. It passes on the
// lines that the task's archive would have by itself.
func (s *Keeper) loadFromSegment(a Archived, each func(line []byte) error) error {
	bad := func(err error) error { return unreadable(a.TaskID, err) }
	parts, err := s.parts(&a)
	if err != nil {
		return bad(err)
	}
	mine, found := false, false
	err = linesOf(parts[0], func(line []byte) error {
		if id, begins := store.BeginsArchive(line); begins {
			mine = id == a.TaskID
			found = found || mine
		}
		if !mine {
			return nil
		}
		return each(line)
	}, bad)
	if err != nil {
		return err
	}
	if !found {
		return bad(errors.New("its segment does not have it"))
	}
	return linesOf(parts[1], func(line []byte) error {
		log, err := store.ReadSegmented(line)
		if err != nil {
			return bad(err)
		}
		line, err = log.Line(a.TaskID)
		if err != nil {
			return bad(err)
		}
		if line == nil {
			return nil
		}
		return each(line)
	}, bad)
}

// parts returns the compressed bytes of a task's frame and of the last one of its segment, which are what was
// stored.
func (s *Keeper) parts(a *Archived) ([][]byte, error) {
	g := a.Segment
	frames := []int{g.FrameOf(a.TaskID), len(g.Frames) - 1}
	parts := a.Parts
	if parts == nil && g.Path != "" {
		f, err := s.openFile(g.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		parts = make([][]byte, len(frames))
		for i, frame := range frames {
			parts[i] = make([]byte, g.Frames[frame].Size)
			if _, err := f.ReadAt(parts[i], g.Offset(frame)); err != nil {
				return nil, cmp.Or(cutOff(err), err)
			}
		}
	}
	for i, frame := range frames {
		if sha256.Sum256(parts[i]) != g.Frames[frame].Sum {
			return nil, errFrame
		}
	}
	return parts, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoFrame
	}
	return nil
}

// linesOf passes the lines of a frame to each.
func linesOf(frame []byte, each func(line []byte) error, bad func(error) error) error {
	return eachLine(bytes.NewReader(frame), math.MaxInt64, each, bad)
}

// readSegment reads a whole segment into a reader, after a check that it is what was stored.
func (s *Keeper) readSegment(ctx context.Context, g *store.Segment) (*store.SegmentReader, error) {
	body, err := s.bodyOf(ctx, g)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != g.SHA256 {
		return nil, errFrame
	}
	var r store.SegmentReader
	return &r, linesOf(body, r.Line, func(err error) error { return err })
}

// bodyOf returns the bytes of a segment.
func (s *Keeper) bodyOf(ctx context.Context, g *store.Segment) (body []byte, err error) {
	if g.Path == "" {
		err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			body, err = g.ReadBody(ctx, tx)
			return err
		})
		return body, err
	}
	f, err := s.openFile(g.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err = io.ReadAll(io.LimitReader(f, g.Bytes+1))
	if err == nil && int64(len(body)) < g.Bytes {
		err = errNoFrame
	}
	return body, err
}
