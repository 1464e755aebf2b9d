package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/archivetest"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// segmentBody returns the bytes of the segment of an archive.
func (h *fixture) segmentBody(a archivetest.Archived) (body []byte) {
	h.Helper()
	if a.Segment.Path != "" {
		body, err := os.ReadFile(a.Segment.Path)
		h.OK(err)
		return body
	}
	h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&body}, "SELECT body FROM pawl.segments WHERE id = $1", a.Segment.ID)
		return err
	}))
	return body
}

// retired makes tasks of one item and retires them together.
func (h *fixture) retired(n int) (ids []string, before [][]string) {
	h.Helper()
	ids = h.solos(n, 1)
	h.complete(h.claim(n)...)
	for _, id := range ids {
		before = append(before, h.dump(id))
	}
	h.Advance(31 * day)
	h.same(h.pass().TasksPruned, n, "pruned")
	return ids, before
}

// inBoth runs a test with segments in a directory and in the table.
func inBoth(t *testing.T, fn func(h *fixture)) {
	for _, where := range []string{"directory", "table"} {
		t.Run(where, func(t *testing.T) {
			each(t, func(h *fixture) {
				if where == "directory" {
					h.Options.ArchiveDir = filepath.Join(h.TempDir(), "archives")
				}
				fn(h)
			})
		})
	}
}

// Tasks that retention removes together share a segment. Each is listed, and comes back as it was, in any
// order; archived again, the newest counts.
func TestSegmentsKeepTasks(t *testing.T) {
	inBoth(t, func(h *fixture) {
		ids, before := h.retired(40)
		h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 1, "segments")
		h.same(h.count("SELECT COUNT(*) FROM pawl.archives"), 0, "archives of their own")
		for _, table := range hangingTables {
			h.same(h.count("SELECT COUNT(*) FROM pawl."+table), 0, "rows left in "+table)
		}
		var listed []string
		for page := (pawl.Page{Limit: 7}); ; {
			l, err := h.List(h.Context(), "default", page)
			h.OK(err)
			for _, a := range l.Items {
				if a.Bytes <= 0 || a.SHA256 == "" || a.RestoredAt != nil {
					h.Errorf("%+v", a)
				}
				listed = append(listed, a.TaskID)
			}
			if page.Cursor = l.Next; l.Next == "" {
				break
			}
		}
		sorted := slices.Sorted(slices.Values(ids))
		slices.Reverse(sorted)
		h.same(listed, sorted, "listed")
		for _, i := range []int{39, 0, 17} {
			h.OK(h.Restore(h.Context(), "default", ids[i]))
			h.same(h.dump(ids[i]), before[i], "what came back")
			h.same(h.archive(ids[i]).RestoredAt, h.Now(), "restored at")
			if err := h.Restore(h.Context(), "default", ids[i]); pawl.CodeOf(err) != pawl.CodeConflict {
				h.Errorf("restored again: %v", err)
			}
		}
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 3, "pruned again")
		h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 2, "segments, after that")
		h.same(h.count("SELECT COUNT(*) FROM pawl.archives"), 0, "rows of restored tasks, after that")
		h.same(h.archive(ids[17]).Segment.ID, 2, "the segment that counts")
		l, err := h.List(h.Context(), "default", pawl.Page{Limit: 100})
		h.OK(err)
		h.same(len(l.Items), 40, "listed again")
		h.OK(h.Restore(h.Context(), "default", ids[17]))
		h.same(h.dump(ids[17]), before[17], "what came back the second time")
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 1, "pruned alone")
		h.same(h.archive(ids[17]).Segment, nil, "the segment of a task with an archive of its own")
		h.OK(h.Restore(h.Context(), "default", ids[17]))
		h.same(h.dump(ids[17]), before[17], "what came back the third time")
	})
}

// A segment that is missing, cut off, changed, or another one is said to be so by a restore.
func TestDamagedSegments(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		ids, before := h.retired(40)
		path := h.archive(ids[0]).Segment.Path
		whole, err := os.ReadFile(path)
		h.OK(err)
		_, _ = h.retired(40)
		others, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
		h.OK(err)
		other, err := os.ReadFile(others[slices.IndexFunc(others, func(p string) bool { return p != path })])
		h.OK(err)
		changed := bytes.Clone(whole)
		changed[len(changed)/4] ^= 1
		for name, x := range map[string]struct {
			bytes []byte
			says  string
		}{
			"missing":             {nil, "no such file"},
			"cut off":             {whole[:len(whole)/8], "cut off"},
			"changed":             {append([]byte{whole[0] ^ 1}, changed[1:]...), "checksum"},
			"of another database": {other, "is another one"},
		} {
			if h.OK(os.Remove(path)); x.bytes != nil {
				h.OK(os.WriteFile(path, x.bytes, 0o600))
			}
			id := slices.Min(ids)
			if err := h.Restore(h.Context(), "default", id); pawl.CodeOf(err) != pawl.CodeInternal || !strings.Contains(err.Error(), x.says) ||
				!strings.Contains(err.Error(), id) {
				h.Errorf("%s: %v", name, err)
			}
			h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, name+": tasks")
			found := 0
			h.OK(h.Check(h.Context(), h.DB, func(b store.Breach) {
				if found++; !strings.Contains(b.Found, x.says) {
					h.Errorf("%s: doctor says %+v", name, b)
				}
			}))
			if found == 0 {
				h.Errorf("%s: doctor says nothing", name)
			}
			h.OK(os.WriteFile(path, whole, 0o600))
		}
		h.OK(h.Restore(h.Context(), "default", ids[0]))
		h.same(h.dump(ids[0]), before[0], "what came back in the end")
		h.OK(h.Check(h.Context(), h.DB, func(b store.Breach) { h.Errorf("doctor says %+v", b) }))
	})
}

var byAnn = store.Deletion{Actor: store.Actor{Type: pawl.ActorUser, ID: "ann"}, Key: "key_a"}

// A task that is deleted out of a segment is gone from its bytes; the others, and their proofs, stay.
func TestATaskIsDeletedOutOfASegment(t *testing.T) {
	inBoth(t, func(h *fixture) {
		ids, before := h.retired(40)
		sorted := slices.Sorted(slices.Values(ids))
		for i, id := range sorted {
			if i%2 == 0 {
				continue
			}
			path := h.archive(id).Segment.Path
			h.OK(h.DeleteArchive(h.Context(), "default", id, byAnn))
			if err := h.DeleteArchive(h.Context(), "default", id, byAnn); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("deleted again: %v", err)
			}
			if err := h.Restore(h.Context(), "default", id); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("restored: %v", err)
			}
			if _, err := os.Stat(path); path != "" && err == nil {
				t.Errorf("%s is still there", path)
			}
		}
		for _, line := range h.unzip(h.segmentBody(h.archive(sorted[0]))) {
			if strings.Contains(line, sorted[1]) {
				t.Errorf("it is still there: %s", line)
			}
		}
		l, err := h.List(h.Context(), "default", pawl.Page{Limit: 100})
		h.OK(err)
		h.same(len(l.Items), 20, "listed")
		events, err := h.Service.ListEvents(h.Context(), pawl.EventFilter{TaskID: sorted[1]})
		h.OK(err)
		if len(events.Items) != 1 || events.Items[0].Event != "deleted" || events.Items[0].ActorID != "ann" ||
			text(events.Items[0].Data) != `{"key_id":"key_a","archive":true}` {
			t.Errorf("what is on record: %s", text(events.Items))
		}
		if _, err := h.Service.GetTask(h.Context(), sorted[1]); err == nil || !strings.Contains(err.Error(), "was deleted on") {
			t.Errorf("the task: %v", err)
		}
		h.OK(h.Check(h.Context(), h.DB, func(b store.Breach) { h.Errorf("doctor says %+v", b) }))
		h.OK(h.Restore(h.Context(), "default", sorted[2]))
		h.same(h.dump(sorted[2]), before[slices.Index(ids, sorted[2])], "what came back")
		if err := h.DeleteArchive(h.Context(), "default", sorted[2], byAnn); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("the archive of a task that is there: %v", err)
		}
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 1, "pruned again")
		h.OK(h.DeleteArchive(h.Context(), "default", sorted[2], byAnn)) // its own archive, and the older one in the segment
		if err := h.Restore(h.Context(), "default", sorted[2]); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("the older archive is there: %v", err)
		}
		for i := 0; i < 40; i += 2 {
			if i != 2 {
				h.OK(h.DeleteArchive(h.Context(), "default", sorted[i], byAnn))
			}
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 0, "segments left")
		files, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
		h.OK(err)
		if h.Options.ArchiveDir != "" {
			h.same(len(files), 0, "files left")
		}
	})
}

// errStatement is what the refused statement fails with.
var errStatement = errors.New("the statement is refused")

// refusing is a database whose transactions fail at one of their statements, as if the process died there.
type refusing struct {
	store.DB
	left int // the statements before that
}

func (r *refusing) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	return r.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &refusingTx{tx, r}) })
}

type refusingTx struct {
	store.Tx
	r *refusing
}

func (t *refusingTx) next() error {
	if t.r.left--; t.r.left == -1 {
		return errStatement
	}
	return nil
}

func (t *refusingTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := t.next(); err != nil {
		return 0, err
	}
	return t.Tx.Exec(ctx, query, args...)
}

func (t *refusingTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	if err := t.next(); err != nil {
		return nil, err
	}
	return t.Tx.Query(ctx, query, args...)
}

// A retirement that fails in any of its statements leaves the tasks as they were and no file; the next one retires them.
func TestARetirementFailsInEachStatement(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		ids := h.solos(20, 1)
		h.complete(h.claim(20)...)
		h.Advance(31 * day)
		before := h.dump(ids[7])
		db := h.DB
		statements := 0
		for ; ; statements++ {
			r := &refusing{db, statements}
			h.DB = r
			err := h.Retire(h.Context(), ids...)
			h.DB = db
			if r.left >= 0 {
				h.OK(err)
				break
			}
			if !errors.Is(err, errStatement) {
				t.Fatalf("statement %d: %v", statements, err)
			}
			h.same(h.dump(ids[7]), before, "the task")
			h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 0, "segments")
			files, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
			h.OK(err)
			h.same(len(files), 0, "files")
		}
		if statements < 10 {
			t.Errorf("only %d statements", statements)
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, "tasks left")
		h.OK(h.Restore(h.Context(), "default", ids[7]))
		h.same(h.dump(ids[7]), before, "what came back")
	})
}

// Two servers that retire the same tasks keep one archive of each, and each task comes back.
func TestTwoServersRetireTheSameTasks(t *testing.T) {
	each(t, func(h *fixture) {
		ids := h.solos(30, 1)
		h.complete(h.claim(30)...)
		before := h.dump(ids[3])
		h.Advance(31 * day)
		other := archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log})
		both := make(chan error)
		for _, s := range []*archivetest.Sweeper{h.Sweeper, other} {
			go func() { both <- s.Retire(h.Context(), ids...) }()
		}
		h.OK(errors.Join(<-both, <-both))
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, "tasks left")
		l, err := h.List(h.Context(), "default", pawl.Page{Limit: 100})
		h.OK(err)
		h.same(len(l.Items), 30, "listed")
		h.OK(h.Restore(h.Context(), "default", ids[3]))
		h.same(h.dump(ids[3]), before, "what came back")
	})
}

// servers runs a call on two servers at once, and returns their errors.
func (h *fixture) servers(calls ...func(s *archivetest.Sweeper) error) []error {
	ended := make(chan error)
	for i, call := range calls {
		s := h.Sweeper
		if i > 0 {
			s = archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log})
		}
		go func() { ended <- call(s) }()
	}
	var out []error
	for range calls {
		out = append(out, <-ended)
	}
	return out
}

// allRestore restores the tasks, and compares them with what they were.
func (h *fixture) allRestore(ids []string, before [][]string, but ...string) {
	h.Helper()
	for i, id := range ids {
		if !slices.Contains(but, id) {
			h.OK(h.Restore(h.Context(), "default", id))
			h.same(h.dump(id), before[i], "what came back")
		}
	}
}

// before is a database that calls a function before its next transaction that writes.
type before struct {
	store.DB
	call func()
}

func (b *before) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	call := b.call
	b.call = func() {}
	call()
	return b.DB.Do(ctx, fn)
}

// Another server changes the segment after a delete has read it: both tasks are gone.
func TestTwoDeletesOutOfOneReading(t *testing.T) {
	inBoth(t, func(h *fixture) {
		ids, was := h.retired(20)
		db := h.DB
		h.DB = &before{db, func() {
			other := archivetest.New(&sweep.Sweeper{DB: db, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log})
			h.OK(other.DeleteArchive(h.Context(), "default", ids[1], byAnn))
		}}
		h.OK(h.DeleteArchive(h.Context(), "default", ids[0], byAnn))
		h.DB = db
		for _, id := range ids[:2] {
			h.same(pawl.CodeOf(h.Restore(h.Context(), "default", id)), pawl.CodeNotFound, "a deleted task comes back")
		}
		h.allRestore(ids, was, ids[:2]...)
	})
}

// A delete that fails in any of its statements has changed nothing; if its answer is lost, the other tasks stay.
func TestADeleteFailsInEachStatement(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		ids, before := h.retired(20)
		files := func() []string {
			all, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
			h.OK(err)
			return all
		}
		db, was := h.DB, files()
		statements := 0
		for ; ; statements++ {
			r := &refusing{db, statements}
			h.DB = r
			err := h.DeleteArchive(h.Context(), "default", ids[7], byAnn)
			h.DB = db
			if r.left >= 0 {
				h.OK(err)
				break
			}
			if !errors.Is(err, errStatement) {
				t.Fatalf("statement %d: %v", statements, err)
			}
			h.same(files(), was, "files")
			h.same(h.archive(ids[7]).TaskID, ids[7], "the archive")
		}
		if statements < 6 {
			t.Errorf("only %d statements", statements)
		}
		lost := false
		h.DB = &lostAnswer{db, func() bool {
			now := !lost
			lost = true
			return now
		}}
		if err := h.DeleteArchive(h.Context(), "default", ids[8], byAnn); !errors.Is(err, store.ErrLost) {
			t.Errorf("a lost answer: %v", err)
		}
		h.DB = db
		h.allRestore(ids, before, ids[7], ids[8])
	})
}

// Two servers that delete at once delete each what it was asked to, and the same only once.
func TestTwoServersDeleteOutOfASegment(t *testing.T) {
	inBoth(t, func(h *fixture) {
		ids, before := h.retired(20)
		deletes := func(id string) func(s *archivetest.Sweeper) error {
			return func(s *archivetest.Sweeper) error { return s.DeleteArchive(h.Context(), "default", id, byAnn) }
		}
		for i := 0; i < 12; i += 2 {
			h.OK(errors.Join(h.servers(deletes(ids[i]), deletes(ids[i+1]))...))
		}
		errs := h.servers(deletes(ids[12]), deletes(ids[12]))
		slices.SortFunc(errs, func(a, b error) int { return len(pawl.CodeOf(a)) - len(pawl.CodeOf(b)) })
		if errs[0] != nil || pawl.CodeOf(errs[1]) != pawl.CodeNotFound {
			t.Errorf("deleted twice: %v", errs)
		}
		for _, id := range ids[13:16] { // beside a restore of the same task
			done := 0
			for _, err := range h.servers(deletes(id), func(s *archivetest.Sweeper) error { return s.Restore(h.Context(), "default", id) }) {
				switch pawl.CodeOf(err) {
				case "":
					done++
				case pawl.CodeConflict, pawl.CodeNotFound:
				default:
					t.Errorf("deleted and restored at once: %v", err)
				}
			}
			h.same(done, 1, "one of the two")
		}
		h.allRestore(ids, before, ids[:16]...)
		h.OK(h.Check(h.Context(), h.DB, func(b store.Breach) { h.Errorf("doctor says %+v", b) }))
	})
}

// A copy of the archives has what is removed, and what is added, while the database is copied.
func TestACopyOfArchivesHasWhatIsRemovedMeanwhile(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		to := filepath.Join(t.TempDir(), "copy")
		ids, _ := h.retired(20)
		before := h.archive(ids[0]).Segment.Path
		c, err := archivetest.BeginCopy(h.Context(), h.Options.ArchiveDir, to)
		h.OK(err)
		defer c.Remove()
		h.OK(h.DeleteArchive(h.Context(), "default", ids[0], byAnn))
		after := h.archive(ids[1]).Segment.Path
		h.OK(c.End(h.Context()))
		for _, path := range []string{before, after} {
			name, err := filepath.Rel(h.Options.ArchiveDir, path)
			h.OK(err)
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
		if before == after {
			t.Error("the segment has the same file")
		}
	})
}

// Tasks that ended together were not created together: many segments have tasks of before and after one. Only those that
// have it are locked.
func TestSegmentsAroundATaskAreLeft(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database != pawltest.Postgres {
			return // transactions follow each other
		}
		h.solos(40, 1)
		for range 2 {
			h.complete(h.claim(20)...)
			h.Advance(31 * day)
			h.same(h.pass().TasksPruned, 20, "pruned")
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 2, "segments")
		h.exec("UPDATE pawl.segments SET low = (SELECT low FROM pawl.segments ORDER BY low LIMIT 1), " +
			"high = (SELECT high FROM pawl.segments ORDER BY high DESC LIMIT 1)")
		l, err := h.List(h.Context(), "default", pawl.Page{Limit: 1})
		h.OK(err)
		id := l.Items[0].TaskID
		conn, err := pgx.Connect(h.Context(), h.URL)
		h.OK(err)
		defer conn.Close(h.Context())
		tx, err := conn.Begin(h.Context())
		h.OK(err)
		_, err = tx.Exec(h.Context(), "SELECT 1 FROM "+h.Schema+".segments WHERE id <> $1 FOR UPDATE", h.archive(id).Segment.ID)
		h.OK(err)
		h.OK(h.DeleteArchive(store.WithLockWait(h.Context(), time.Second), "default", id, byAnn))
	})
}
