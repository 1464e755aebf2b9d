package archives

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/store"
)

// archiveSuffix ends the name of an archive file.
const archiveSuffix = ".jsonl.zst"

// maxBody bounds an archive that is stored in the database; larger ones need a
// directory.
const maxBody = 256 << 20

// archived is a task whose archive is written, and what it had at that time.
type archived struct {
	Archived
	extent extent
	sent   bool // the commit of a transaction that records it
}

// errBeingDeleted is returned for a task whose deletion has begun: what is left of it must
// not be archived.
var errBeingDeleted = errors.New("the deletion of the task has begun")

// maxTogether bounds the rows, in bytes, of tasks that are read together and held in memory, and the archives of
// several tasks that are held for the database. Each writer may pass that by the archive that it writes.
const maxTogether = 8 << 20

// errTogether means that tasks have too much to be held in memory together.
var errTogether = errors.New("the tasks have too many bytes to be archived together")

// writeAll archives tasks: all rows of each as compressed JSONL, one row for each line, in a file of ArchiveDir or, without
// a directory, for the database. The files are durable when it returns. Their names are new, so no archive is overwritten.
// Each task has a result of its own: one whose deletion has begun is errBeingDeleted, and one that does not exist has no
// namespace. The last line of an archive proves the task's events under the signed root.
//
// Small tasks are read together, with one statement for each table; others each alone, as a stream. If the archives of
// these are too large to be held for the database together, some have the error errTogether.
func (s *Keeper) writeAll(ctx context.Context, tasks []string, signed store.SignedRoot) ([]writeResult, error) {
	out, lines, err := s.readTogether(ctx, tasks, signed)
	alone := errors.Is(err, errTogether)
	if err != nil && !alone {
		return nil, err
	}
	var all errgroup.Group
	all.SetLimit(archiveWriters)
	var held atomic.Int64
	for i := range out {
		all.Go(func() error {
			a := &out[i]
			if alone && len(tasks) > 1 && held.Load() > maxTogether {
				a.err = errTogether
				return nil
			}
			if alone {
				*a = s.writeAlone(ctx, tasks[i], signed)
			} else if a.err == nil && a.Namespace != "" {
				a.err = s.writeLines(&a.Archived, lines[i].Bytes())
			}
			held.Add(int64(len(a.Body)))
			return nil
		})
	}
	_ = all.Wait() // each has its error in its result
	dirs := map[string]error{}
	for i := range out {
		if a := &out[i]; a.err == nil && a.Path != "" {
			dir := filepath.Dir(a.Path)
			if _, done := dirs[dir]; !done {
				dirs[dir] = diskError(durable.SyncDir(dir))
			}
			a.err = dirs[dir]
		}
	}
	return out, nil
}

// readTogether reads tasks into memory.
func (s *Keeper) readTogether(ctx context.Context, tasks []string, signed store.SignedRoot,
) (out []writeResult, lines []bytes.Buffer, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		lines = make([]bytes.Buffer, len(tasks))
		size := 0
		out, err = s.read(ctx, tx, tasks, signed, func(a *writeResult, row []byte) error {
			if size += len(row); size > maxTogether {
				return errTogether
			}
			_, err := lines[a.at].Write(row)
			return err
		})
		return err
	})
	if errors.Is(err, errTogether) {
		out = make([]writeResult, len(tasks))
	}
	return out, lines, err
}

// writeLines archives a task whose rows were read.
func (s *Keeper) writeLines(a *Archived, lines []byte) error {
	w, err := s.open(a.TaskID, a.CreatedAt)
	defer w.discard()
	if err == nil {
		err = w.line(lines)
	}
	if err != nil {
		return err
	}
	return w.finish(a)
}

// writeAlone archives one task.
func (s *Keeper) writeAlone(ctx context.Context, taskID string, signed store.SignedRoot) (a writeResult) {
	var w archiveWriter
	defer func() { w.discard() }()
	err := s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		w.discard() // of an earlier try
		w = archiveWriter{}
		all, err := s.read(ctx, tx, []string{taskID}, signed, func(a *writeResult, row []byte) (err error) {
			if w.zip == nil {
				w, err = s.open(taskID, a.CreatedAt)
			}
			if err != nil {
				return err
			}
			return w.line(row)
		})
		if err == nil {
			a = all[0]
		}
		return err
	})
	if a.err = cmp.Or(err, a.err); a.err == nil && a.Namespace != "" {
		a.err = w.finish(&a.Archived)
	}
	return a
}

// read reads tasks, and passes the lines of their archives to line, those of a task in their order.
func (s *Keeper) read(ctx context.Context, tx store.Tx, tasks []string, signed store.SignedRoot,
	line func(a *writeResult, row []byte) error) ([]writeResult, error) {
	out, there, by, err := readHeads(ctx, tx, tasks)
	if err != nil || len(there) == 0 {
		return out, err
	}
	if err := store.ReadTasks(ctx, tx, there, func(id string, row []byte) error { return line(by[id], row) }); err != nil {
		return nil, err
	}
	logs, flaws, err := store.ReadArchiveLogs(ctx, tx, signed, there)
	if err != nil {
		return nil, err
	}
	for _, id := range there {
		if flaw := flaws[id]; flaw != nil {
			s.Log.WarnContext(ctx, "the archive has no proofs that its events are in the transparency log", "task_id", id, "error", flaw)
		}
		if logs[id] == nil {
			continue
		}
		if err := line(by[id], logs[id]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readHeads reads what tasks have. there are those that exist and are not being deleted.
func readHeads(ctx context.Context, tx store.Tx, tasks []string,
) (out []writeResult, there []string, by map[string]*writeResult, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	extents, err := extents(ctx, tx, tasks)
	if err != nil {
		return nil, nil, nil, err
	}
	leaving, err := store.AreBeingDeleted(ctx, tx, tasks)
	if err != nil {
		return nil, nil, nil, err
	}
	out, by = make([]writeResult, len(tasks)), make(map[string]*writeResult, len(tasks))
	for i, id := range tasks {
		a := &out[i]
		a.at, a.TaskID, a.CreatedAt = i, id, time.UnixMicro(now).UTC()
		a.extent = extents[id]
		if a.Namespace = a.extent.Namespace; a.Namespace == "" {
			continue
		}
		if slices.Contains(leaving, id) {
			a.err = errBeingDeleted
			continue
		}
		there, by[id] = append(there, id), a
	}
	return out, there, by, nil
}

// archiveWriter is an archive being written.
type archiveWriter struct {
	pool *sync.Pool
	file *os.File // nil: body
	path string
	body *bytes.Buffer
	sum  hash.Hash
	size *counter
	zip  *zstd.Encoder

	release func() // of file
}

func (s *Keeper) open(taskID string, at time.Time) (archiveWriter, error) {
	w := archiveWriter{pool: &s.encoders, sum: sha256.New(), size: new(counter)}
	var out io.Writer
	if s.Dir == "" {
		w.body = &bytes.Buffer{}
		out = w.body
	} else {
		if taskID == "" || filepath.Base(taskID) != taskID {
			return w, fmt.Errorf("the task id %q is not a file name", taskID)
		}
		dir := filepath.Join(s.Dir, at.Format("2006-01"))
		f, release, err := createPart(dir, taskID)
		if err != nil {
			return w, err
		}
		w.file, w.release, w.path, out = f, release, filepath.Join(dir, taskID+"."+s.NewID("arc")+archiveSuffix), f
	}
	all := io.MultiWriter(out, w.sum, w.size)
	if zip, ok := s.encoders.Get().(*zstd.Encoder); ok {
		zip.Reset(all)
		w.zip = zip
		return w, nil
	}
	var err error
	w.zip, err = zstd.NewWriter(all, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	return w, err
}

func (w *archiveWriter) line(b []byte) error {
	if w.body != nil && w.body.Len() > maxBody {
		return errors.New("the archive is too large to be stored in the database: set sweep.archive_dir")
	}
	_, err := w.zip.Write(b)
	return diskError(err)
}

// finish completes the archive and makes it durable. Its name is durable after its directory is.
func (w *archiveWriter) finish(a *Archived) error {
	if err := w.zip.Close(); err != nil {
		return diskError(err)
	}
	w.pool.Put(w.zip) // creating an encoder costs more than a small task's rows
	if w.file != nil {
		if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
			return diskError(err)
		}
		if err := os.Rename(w.file.Name(), w.path); err != nil {
			return diskError(err)
		}
		w.file = nil
		w.release()
	} else {
		a.Body = w.body.Bytes()
	}
	a.Path, a.SHA256 = w.path, hex.EncodeToString(w.sum.Sum(nil))
	a.Bytes = int64(*w.size)
	return nil
}

// discard removes an archive that was not finished.
func (w *archiveWriter) discard() {
	if w.file != nil {
		_ = w.file.Close()
		_ = os.Remove(w.file.Name())
		w.file = nil
		w.release()
	}
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func diskError(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	if errors.As(err, &path) || errors.As(err, &link) {
		return fmt.Errorf("%w: %v", store.ErrDirectory, err) // not wrapped: it must not count as an error of the database
	}
	return err
}
