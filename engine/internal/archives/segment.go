package archives

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/store"
)

// together are tasks of one namespace that are read to be archived in one segment.
type together struct {
	namespace string
	tasks     []archived
	lines     [][]byte // of each, without that of the log
	plain     bool     // see store.NotPlain
	events    []store.PlainEvent
	log       *store.SegmentLog
	at        int64 // when they were read
}

func (t *together) ids() []string { return idsOf(t.tasks) }

// retireTogether archives tasks in segments, one for each namespace, and removes them. rest are those that
// need archives of their own, or that changed meanwhile. It fails if they have too much to be archived together: halve
// then tries each half.
func (s *retiring) retireTogether(ctx context.Context, tasks []string, signed store.SignedRoot) (rest []string, err error) {
	all, rest, err := s.readSegments(ctx, tasks, signed)
	if errors.Is(err, store.ErrNotProved) { // perhaps for one of them
		return tasks, nil
	}
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if len(t.tasks) == 1 {
			rest = append(rest, t.ids()...)
			continue
		}
		left, err := s.retireSegment(ctx, t)
		if err != nil {
			return nil, err
		}
		rest = append(rest, left...)
	}
	slices.Sort(rest)
	return rest, nil
}

// readSegments reads tasks by their namespaces, plain ones apart from others. own are those that need archives of their own.
func (s *retiring) readSegments(ctx context.Context, tasks []string, signed store.SignedRoot) (out []*together, own []string, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		r := segmentReads{events: map[string][]int64{}, room: s.room}
		if r.now, err = tx.Now(ctx); err != nil {
			return err
		}
		others, err := store.NotPlain(ctx, tx, tasks)
		if err != nil {
			return err
		}
		own = nil
		if len(others) > 0 {
			if own, err = ownArchives(ctx, tx, others); err != nil {
				return err
			}
		}
		if err := r.readPlain(ctx, tx, without(tasks, others)); err != nil {
			return err
		}
		if err := r.readOthers(ctx, tx, without(others, own)); err != nil {
			return err
		}
		out, own = r.out, append(own, r.own...)
		for _, t := range out {
			if t.log, err = store.ReadSegmentLog(ctx, tx, signed, t.ids(), r.events); err != nil {
				return err
			}
		}
		return nil
	})
	return out, own, err
}

// segmentReads is what readSegments has read.
type segmentReads struct {
	now    int64
	size   int
	out    []*together
	own    []string
	events map[string][]int64
	room   *store.PlainRoom
}

// grow bounds what is held in memory.
func (r *segmentReads) grow(bytes int) error {
	if r.size += bytes; r.size > maxTogether {
		return errTogether
	}
	return nil
}

// of returns the tasks that a task of a namespace is archived with.
func (r *segmentReads) of(namespace string, plain bool) *together {
	for _, t := range r.out {
		if t.namespace == namespace && t.plain == plain {
			return t
		}
	}
	r.out = append(r.out, &together{namespace: namespace, plain: plain, at: r.now})
	return r.out[len(r.out)-1]
}

func (r *segmentReads) readPlain(ctx context.Context, tx store.Tx, tasks []string) error {
	if len(tasks) == 0 {
		return nil
	}
	read, err := r.room.Read(ctx, tx, tasks, r.grow)
	if err != nil {
		return err
	}
	numbers := make([]int64, 0, 4*len(tasks))
	for _, id := range tasks {
		task := read[id]
		if task == nil {
			r.own = append(r.own, id)
			continue
		}
		t := r.of(task.Namespace, true)
		if t.tasks == nil { // most often all are of one namespace
			t.tasks, t.lines = make([]archived, 0, len(tasks)), make([][]byte, 0, len(tasks))
			t.events = make([]store.PlainEvent, 0, 4*len(tasks))
		}
		a := archived{}
		a.TaskID, a.Namespace, a.CreatedAt = id, task.Namespace, time.UnixMicro(r.now).UTC()
		t.tasks, t.lines, t.events = append(t.tasks, a), append(t.lines, task.Lines), append(t.events, task.Events...)
		from := len(numbers)
		for _, e := range task.Events {
			numbers = append(numbers, e.ID)
		}
		r.events[id] = numbers[from:len(numbers):len(numbers)]
	}
	return nil
}

func (r *segmentReads) readOthers(ctx context.Context, tx store.Tx, tasks []string) error {
	if len(tasks) == 0 {
		return nil
	}
	read, there, by, err := readHeads(ctx, tx, tasks)
	if err != nil {
		return err
	}
	r.own = append(r.own, without(tasks, there)...)
	if len(there) == 0 {
		return nil
	}
	lines := make([]bytes.Buffer, len(tasks))
	err = store.ReadTasks(ctx, tx, there, func(id string, row []byte) error {
		_, _ = lines[by[id].at].Write(row) // never fails
		return r.grow(len(row))
	})
	if err != nil {
		return err
	}
	events, err := store.EventsToRemove(ctx, tx, there)
	if err != nil {
		return err
	}
	maps.Copy(r.events, events)
	for _, id := range there {
		a := by[id]
		t := r.of(a.Namespace, false)
		t.tasks, t.lines = append(t.tasks, read[a.at].archived), append(t.lines, lines[a.at].Bytes())
	}
	return nil
}

// without returns the tasks that are not among others.
func without(tasks, others []string) []string {
	if len(others) == 0 {
		return tasks
	}
	is := make(map[string]bool, len(others))
	for _, id := range others {
		is[id] = true
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(id string) bool { return is[id] })
}

// retireSegment archives tasks in a segment and removes them. If some of them changed after they were
// read, it does nothing and returns all of them: each is then looked at by itself.
func (s *retiring) retireSegment(ctx context.Context, t *together) (rest []string, err error) {
	g, err := s.writeSegment(t)
	if err != nil {
		return nil, err
	}
	var unneeded []string
	sent := false
	err = s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
		unneeded, err = recordSegment(ctx, tx, t, g)
		sent = sent || err == nil
		return err
	})
	if err != nil {
		s.discardSegment(ctx, g, sent, func(ctx context.Context, tx store.Tx) error {
			_, err := store.LockTasksLast(ctx, tx, t.ids())
			return err
		})
		if errors.Is(err, store.ErrChanged) {
			return t.ids(), nil
		}
		return nil, err
	}
	for _, path := range unneeded {
		s.removeFile(ctx, path)
	}
	s.pruned += int64(len(t.tasks))
	return nil, nil
}

// recordSegment stores a segment and removes the rows of its tasks; store.ErrChanged means that some of them changed
// after they were read. It locks the tasks before it looks, because another server may be retiring them
// too. unneeded are the files of their previous archives.
func recordSegment(ctx context.Context, tx store.Tx, t *together, s *store.Segment) (unneeded []string, err error) {
	if t.plain {
		return nil, recordPlain(ctx, tx, t, s)
	}
	ids := t.ids()
	there, err := store.LockTasksLast(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	leaving, err := store.AreBeingDeleted(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	extents, err := extents(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	pending, err := store.StillPending(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	own, err := ownArchives(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	if len(there) < len(ids) || len(leaving)+len(pending)+len(own) > 0 ||
		slices.ContainsFunc(t.tasks, func(a archived) bool { return extents[a.TaskID] != a.extent }) {
		return nil, store.ErrChanged
	}
	if unneeded, err = archivePaths(ctx, tx, ids); err != nil {
		return nil, err
	}
	if err := forget(ctx, tx, ids...); err != nil {
		return nil, err
	}
	if err := putSegment(ctx, tx, s); err != nil {
		return nil, err
	}
	return unneeded, store.RemoveTasks(ctx, tx, ids, removeBatch)
}

// recordPlain is recordSegment for plain tasks. One has changed if it is not plain any more, or has other events than
// were read: nothing else of it changes without an event.
func recordPlain(ctx context.Context, tx store.Tx, t *together, s *store.Segment) error {
	ids := t.ids()
	there, err := store.LockPlain(ctx, tx, ids)
	if err != nil {
		return err
	}
	others, err := store.NotPlain(ctx, tx, ids)
	if err != nil {
		return err
	}
	if len(there) < len(ids) || len(others) > 0 {
		return store.ErrChanged
	}
	if err := putSegment(ctx, tx, s); err != nil {
		return err
	}
	gone, err := store.RemovePlain(ctx, tx, ids, t.events)
	if err == nil && !gone {
		err = store.ErrChanged
	}
	return err
}

// writeSegment makes the segment of tasks, and its file durable.
func (s *Keeper) writeSegment(t *together) (*store.Segment, error) {
	zip, err := s.frameEncoder()
	if err != nil {
		return nil, err
	}
	defer s.frames.Put(zip)
	out := &store.Segment{Namespace: t.namespace, CreatedAt: t.at}
	var plain []byte
	for i := 0; i < len(t.tasks); i += tasksOfFrame {
		end := min(i+tasksOfFrame, len(t.tasks))
		plain = plain[:0]
		for _, lines := range t.lines[i:end] {
			plain = append(plain, lines...)
		}
		addFrame(out, zip, plain, idsOf(t.tasks[i:end]))
	}
	line, err := json.Marshal(t.log)
	if err != nil {
		return nil, err
	}
	addFrame(out, zip, append(line, '\n'), nil)
	return out, s.keepSegment(out, time.UnixMicro(t.at))
}

// addFrame compresses the lines of tasks into the next frame of a segment.
func addFrame(s *store.Segment, zip *zstd.Encoder, lines []byte, tasks []string) {
	at := len(s.Body)
	s.Body = zip.EncodeAll(lines, s.Body)
	s.EndFrame(at, tasks)
}

// frameEncoder returns an encoder that gives each frame its checksum and size.
func (s *Keeper) frameEncoder() (*zstd.Encoder, error) {
	if zip, ok := s.frames.Get().(*zstd.Encoder); ok {
		return zip, nil
	}
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
}

// keepSegment completes a segment whose frames are there: with a directory, its body becomes a durable file.
func (s *Keeper) keepSegment(g *store.Segment, at time.Time) error {
	sum := sha256.Sum256(g.Body)
	g.Bytes, g.SHA256 = int64(len(g.Body)), hex.EncodeToString(sum[:])
	if s.Dir == "" {
		return nil
	}
	dir := filepath.Join(s.Dir, at.UTC().Format("2006-01"))
	f, release, err := createPart(dir, "segment")
	if err != nil {
		return err
	}
	defer release()
	_, err = f.Write(g.Body)
	path := filepath.Join(dir, s.NewID("seg")+archiveSuffix)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return diskError(err)
	}
	g.Path, g.Body = path, nil
	return nil
}

// discardSegment removes the file of a segment that was not recorded. If the commit of a transaction that was to record
// it was sent, this may have committed, or still do so: lock waits for its end. Then the file stays.
func (s *Keeper) discardSegment(ctx context.Context, g *store.Segment, sent bool, lock func(context.Context, store.Tx) error) {
	if g.Path == "" {
		return
	}
	if !sent {
		s.removeFile(ctx, g.Path)
		return
	}
	var used bool
	err := s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
		if err = lock(ctx, tx); err == nil {
			used, err = segmentIsUsed(ctx, tx, g)
		}
		return err
	})
	if err == nil && !used {
		s.removeFile(ctx, g.Path)
	}
}
