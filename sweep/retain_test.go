package sweep_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/archivetest"
	"github.com/pawl-work/pawl/store"
)

// createFullTask creates an ended task with a row in every table that belongs to tasks.
func createFullTask(h *fixture, more ...pawl.NewItem) pawl.Task {
	h.Helper()
	task := h.Create(pawl.NewTask{Type: "a", Title: "Ünïcode <&> \u2028",
		Payload:  json.RawMessage(`{"n": 9007199254740993, "s":"\u0041"}`),
		Metadata: json.RawMessage(`{"k":1}`), InputHash: "hash" + h.NewID("arc"),
		RequestedBy: &pawl.Requester{Type: "user", ID: "u"}, Items: append(more, pawl.NewItem{Key: "a", Input: json.RawMessage(`1`)},
			pawl.NewItem{Key: "b", After: []string{"a"}, Priority: new(int)})})
	for range 2 {
		l := h.claim(1)[0]
		h.save(l, pawl.ToolExecuted, "step")
		h.save(l, pawl.ManualCheckpoint, "")
		_, err := h.Service.BeginKeys(h.Context(), []pawl.KeyBegin{{Key: l.ID, RequestHash: "h", TaskID: task.ID, ItemID: l.ID, TTLSeconds: -1}})
		h.OK(err)
		h.exec("INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, seq, status, payload, worker_id, attempt, created_at) "+
			"VALUES ($1, 'default', $2, 'p', 3, 'validated', '{}', 'w', 1, 5)", "prt_"+l.ID, l.ID)
		h.exec("INSERT INTO pawl.provenances (id, namespace, task_id, item_id, verb, created_at) VALUES ($1, 'default', $2, $3, 'complete', 5)",
			"prv_"+l.ID, task.ID, l.ID)
		h.exec("INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, content, chunks, created_at) VALUES ($1, 'default', $2, "+
			"$3, 'assistant', 'hi', 1, 5)", "msg_"+l.ID, task.ID, l.ID)
		h.exec("INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at) VALUES ($1, 0, 1, 1, 'hi', 5)", "msg_"+l.ID)
		h.complete(l)
	}
	h.exec("INSERT INTO pawl.task_results (task_id, namespace, payload, created_at) VALUES ($1, 'default', '[]', 5)", task.ID)
	return task
}

// dump returns all rows of a task, in the format of the archive.
func (h *fixture) dump(taskID string) (lines []string) {
	h.Helper()
	h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
		return store.ReadTasks(ctx, tx, []string{taskID}, func(_ string, line []byte) error {
			lines = append(lines, string(line))
			return nil
		})
	}))
	return lines
}

func (h *fixture) archive(taskID string) archivetest.Archived {
	h.Helper()
	a, err := h.Read(h.Context(), "default", taskID)
	h.OK(err)
	return a
}

var hangingTables = []string{"task_counters", "items", "item_deps", "finished_items", "item_parts", "checkpoints", "task_events",
	"task_results", "provenances", "messages", "message_chunks", "tasks"}

func TestRetentionArchivesAndRestores(t *testing.T) {
	for _, where := range []string{"directory", "table"} {
		t.Run(where, func(t *testing.T) {
			each(t, func(h *fixture) {
				if where == "directory" {
					h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
				}
				task := createFullTask(h)
				before := h.dump(task.ID)
				for _, table := range hangingTables {
					if !slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, `{"table":"`+table+`",`) }) {
						t.Fatalf("the task has nothing in %s", table)
					}
				}
				h.Advance(30*day + time.Second)
				h.same(h.pass().TasksPruned, 1, "pruned")
				for _, table := range hangingTables {
					h.same(h.count("SELECT COUNT(*) FROM pawl."+table), 0, "rows left in "+table)
				}
				h.same(h.count("SELECT COUNT(*) FROM pawl.idempotency_keys WHERE task_id IS NULL AND item_id IS NULL"), 2, "keys, without links")
				h.same(h.unpack(task.ID), before, "what is in the archive")

				h.OK(h.Restore(h.Context(), "default", task.ID))
				h.same(h.dump(task.ID), before, "what came back")
				h.same(h.archive(task.ID).RestoredAt, h.Now(), "restored at")
				if err := h.Restore(h.Context(), "default", task.ID); pawl.CodeOf(err) != pawl.CodeConflict {
					t.Errorf("restored again: %v", err)
				}
				h.Advance(29 * day)
				h.same(h.pass().TasksPruned, 0, "pruned again after 29 days")
				h.Advance(day + time.Second)
				h.same(h.pass().TasksPruned, 1, "pruned again after 30 days")
				h.same(h.archive(task.ID).RestoredAt, nil, "restored at, after that")
				h.OK(h.Restore(h.Context(), "default", task.ID))
				h.same(h.dump(task.ID), before, "what came back the second time")
			})
		})
	}
}

// Small tasks are read together, large ones each alone: their archives are the same.
func TestTasksAreArchivedTogether(t *testing.T) {
	for _, size := range []int{10, 900 << 10} {
		each(t, func(h *fixture) {
			tasks := append([]string{createFullTask(h).ID, createFullTask(h).ID}, append(h.solos(10, 1), h.many(2, 1).ID)...)
			for _, l := range h.claim(12) {
				_, err := pawl.Complete(h.Context(), h.Service, l.Fence(), json.RawMessage(`"`+strings.Repeat("x", size)+`"`))
				h.OK(err)
			}
			var before [][]string
			for _, id := range tasks {
				before = append(before, h.dump(id))
			}
			h.Advance(30*day + time.Second)
			h.same(h.pass().TasksPruned, len(tasks), "pruned")
			for i, id := range tasks {
				h.same(h.unpack(id), before[i], "what is in the archive of "+id)
			}
		})
	}
}

// Tasks with children have archives of their own; these are read together up to a bound.
func TestLargeFamiliesAreArchivedWhole(t *testing.T) {
	each(t, func(h *fixture) {
		children := slices.Repeat([]pawl.NewTask{{Type: "a", Payload: json.RawMessage(`{}`)}}, 10)
		parent, tasks := h.waits(pawl.ChildWait{}, children...)
		for _, l := range h.claim(len(children)) {
			_, err := pawl.Complete(h.Context(), h.Service, l.Fence(), json.RawMessage(`"`+strings.Repeat("x", 900<<10)+`"`))
			h.OK(err)
		}
		h.quick()
		h.complete(h.claim(1)...)
		tasks = append(tasks, parent.TaskID)
		var before [][]string
		for _, id := range tasks {
			h.same(h.state(id), pawl.TaskCompleted, "state of "+id)
			before = append(before, h.dump(id))
		}
		h.Advance(30*day + time.Second)
		h.same(h.pass().TasksPruned, len(tasks), "pruned")
		for i, id := range tasks {
			h.same(h.unpack(id), before[i], "what is in the archive of "+id)
		}
	})
}

// unpack reads an archive without the tested code.
func (h *fixture) unpack(taskID string) (lines []string) {
	h.Helper()
	a := h.archive(taskID)
	body := a.Body
	if a.Segment != nil {
		return h.unpackSegment(a)
	}
	if h.Options.ArchiveDir != "" {
		if !strings.HasPrefix(a.Path, h.Options.ArchiveDir) || len(body) > 0 {
			h.Errorf("the archive is at %q, with %d bytes in the table", a.Path, len(body))
		}
		var err error
		body, err = os.ReadFile(a.Path)
		h.OK(err)
	}
	sum := sha256.Sum256(body)
	h.same([]any{a.SHA256, a.Bytes}, []any{hex.EncodeToString(sum[:]), len(body)}, "checksum and size")
	return h.unzip(body)
}

// unpackSegment reads the rows of a task in its segment.
func (h *fixture) unpackSegment(a archivetest.Archived) (lines []string) {
	h.Helper()
	body := h.segmentBody(a)
	sum := sha256.Sum256(body)
	h.same([]any{a.SHA256, a.Segment.Bytes}, []any{hex.EncodeToString(sum[:]), len(body)}, "checksum and size")
	mine := false
	for _, line := range h.unzip(body) {
		if strings.HasPrefix(line, `{"table":"tasks",`) || strings.HasPrefix(line, `{"table":"segment",`) {
			mine = strings.HasPrefix(line, `{"table":"tasks","id":"`+a.TaskID+`"`)
		}
		if mine {
			lines = append(lines, line)
		}
	}
	return lines
}

// unzip returns the lines of a compressed text.
func (h *fixture) unzip(body []byte) (lines []string) {
	h.Helper()
	zip, err := zstd.NewReader(bytes.NewReader(body))
	h.OK(err)
	defer zip.Close()
	in := bufio.NewScanner(zip)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		lines = append(lines, in.Text()+"\n")
	}
	h.OK(in.Err())
	return lines
}

func TestRestoreRefusesWhatIsNotThatTask(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = t.TempDir()
		ids := h.solos(2, 3)
		h.complete(h.claim(2)...)
		h.Advance(31 * day)
		for _, id := range ids { // each has an archive of its own
			h.OK(h.Retire(h.Context(), id))
		}
		try := func(what, id string, code pawl.Code) {
			t.Helper()
			if err := h.Restore(h.Context(), "default", id); pawl.CodeOf(err) != code {
				t.Errorf("%s: %v, want %s", what, err, code)
			}
			h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, what+": tasks")
			h.same(h.count("SELECT COUNT(*) FROM pawl.event_rows"), 0, what+": events")
		}
		try("unknown", "tsk_none", pawl.CodeNotFound)
		if err := h.Restore(h.Context(), "other", ids[0]); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("from another namespace: %v", err)
		}
		first, second := h.archive(ids[0]), h.archive(ids[1])
		h.exec("UPDATE pawl.archives SET path = $2, sha256 = $3 WHERE task_id = $1", ids[0], second.Path, second.SHA256)
		try("another task's archive", ids[0], pawl.CodeInternal)
		h.exec("UPDATE pawl.archives SET path = $2, sha256 = $3 WHERE task_id = $1", ids[0], first.Path, first.SHA256)
		whole, err := os.ReadFile(first.Path)
		h.OK(err)
		harmed := bytes.Clone(whole)
		harmed[len(harmed)/2] ^= 1
		h.OK(os.WriteFile(first.Path, harmed, 0o600))
		try("a bit turned over", ids[0], pawl.CodeInternal)
		h.OK(os.Remove(first.Path))
		try("file gone", ids[0], pawl.CodeInternal)
		moved := t.TempDir()
		h.OK(os.MkdirAll(filepath.Join(moved, filepath.Base(filepath.Dir(first.Path))), 0o700))
		h.OK(os.WriteFile(filepath.Join(moved, filepath.Base(filepath.Dir(first.Path)), filepath.Base(first.Path)), whole, 0o600))
		h.Options.ArchiveDir = moved
		h.OK(h.Restore(h.Context(), "default", ids[0]))
		h.same(h.state(ids[0]), pawl.TaskCompleted, "state after the directory was moved")
	})
}

func TestRestoreLeavesTheInputHashToItsHolder(t *testing.T) {
	each(t, func(h *fixture) {
		old := h.Create(pawl.NewTask{Type: "a", InputHash: "h"})
		h.complete(h.claim(1)...)
		h.Advance(31 * day)
		h.pass()
		young := h.Create(pawl.NewTask{Type: "a", InputHash: "h"})
		if young.Deduplicated {
			t.Fatal("an archived task holds its input hash")
		}
		h.OK(h.Restore(h.Context(), "default", old.ID))
		h.same(h.Create(pawl.NewTask{Type: "a", InputHash: "h"}).ID, young.ID, "who holds the hash")
	})
}

func TestWhatCannotBeArchivedStays(t *testing.T) {
	each(t, func(h *fixture) {
		ids := h.solos(8, 3)
		h.complete(h.claim(8)...)
		// An item that has lost its end: the archive would not be whole.
		item := "itm_" + strings.TrimPrefix(ids[3], "tsk_")
		h.exec("INSERT INTO pawl.retention_gate VALUES ('test')")
		h.exec("DELETE FROM pawl.finished_items WHERE item_id = $1", item)
		h.exec("DELETE FROM pawl.retention_gate")
		h.Advance(31 * day)
		for range 2 { // the second pass tries it again, though its cursor is behind it
			s := h.pass()
			h.same(s.Errors, 1, "errors")
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 1, "tasks left")
		h.exec(
			"INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, attempt, failures, ended_at, result) SELECT w.id, w.queue_id, $2, "+
				"@state(completed), 1, 0, 1, '1' FROM pawl.all_items w WHERE w.id = $1",
			item,
			ids[3],
		)
		h.same(h.pass().TasksPruned, 1, "pruned after the repair")
		h.same(h.pass().Errors, 0, "errors in the end")
	})
}

func TestNothingIsRemovedWithoutItsArchive(t *testing.T) {
	each(t, func(h *fixture) {
		dir := filepath.Join(t.TempDir(), "taken")
		h.OK(os.WriteFile(dir, nil, 0o600)) // a file where the directory should be
		h.Options.ArchiveDir = dir
		h.solos(3, 3)
		h.complete(h.claim(3)...)
		h.Advance(31 * day)
		s := h.pass()
		h.same([]int64{s.TasksPruned, s.Errors}, []int64{0, 1}, "pruned, errors")
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 3, "tasks")
		h.OK(os.Remove(dir))
		h.same(h.pass().TasksPruned, 3, "pruned once there is a directory")
		parts, err := filepath.Glob(filepath.Join(dir, "*", "*.part"))
		h.same([]any{len(parts), err}, []any{0, nil}, "half-written files")
	})
}

func TestRetentionForEver(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options = pawl.SweepOptions{ScanIntervalSeconds: 60}
		h.solos(1, 3)
		h.complete(h.claim(1)...)
		h.solos(2, 1)
		h.fail(h.claim(1)...)
		h.Advance(3650 * day)
		s := h.pass()
		h.same([]int64{s.TasksPruned, s.Buried, s.Stale, s.KeysPruned, s.Errors}, []int64{0, 0, 0, 0, 0}, "what a pass did")
	})
}

// A task larger than a batch is removed in several transactions. If the removal is interrupted
// between two of them, the task is marked, the invariant checks leave it out, and the next sweep
// continues.
func TestLargeTaskGoesInBatches(t *testing.T) {
	each(t, func(h *fixture) {
		const n = 1500
		task := h.many(n, 3)
		h.complete(h.claim(n)...)
		before := h.dump(task.ID)
		one := func() (done bool) {
			h.OK(h.DB.Do(h.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				done, err = store.DeleteTask(ctx, tx, "default", task.ID, nil, 400)
				return err
			}))
			return done
		}
		steps := 0
		for ; steps < 4; steps++ {
			if one() {
				t.Fatalf("gone after %d batches", steps+1)
			}
			breaches, err := h.Engine.Check(h.Context())
			h.OK(err)
			if len(breaches) > 0 {
				t.Fatalf("after %d batches: %+v", steps+1, breaches[0])
			}
		}
		h.same(len(h.events(pawl.EventFilter{TaskID: task.ID, Event: "deleted"})), 1, "the mark")
		h.Advance(day + time.Second)
		h.pass()
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, "tasks, after a pass carried on")
		h.same(h.count("SELECT COUNT(*) FROM pawl.archives"), 0, "archives of a task that was deleted")

		again := h.many(n, 3)
		h.complete(h.claim(n)...)
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 1, "pruned, archived first")
		h.OK(h.Restore(h.Context(), "default", again.ID))
		h.same(len(h.dump(again.ID)), len(before), "rows that came back")
	})
}

func TestArchivesAreListed(t *testing.T) {
	each(t, func(h *fixture) {
		ids := h.solos(5, 3)
		h.complete(h.claim(5)...)
		h.Advance(31 * day)
		h.pass()
		var seen []string
		page := pawl.Page{Limit: 2}
		for {
			l, err := h.List(h.Context(), "default", page)
			h.OK(err)
			for _, a := range l.Items {
				seen = append(seen, a.TaskID)
			}
			if page.Cursor = l.Next; page.Cursor == "" {
				break
			}
		}
		slices.Reverse(seen)
		h.same(seen, ids, "archives, oldest first")
		l, err := h.List(h.Context(), "other", pawl.Page{})
		h.OK(err)
		h.same(len(l.Items), 0, "archives of another namespace")
	})
}

// Pruning keeps the checkpoints that the rule names, for a random history of three items.
func TestCheckpointsThatAResumeNeedsStay(t *testing.T) {
	each(t, func(h *fixture) {
		sweeps := h.pruning(10, true)
		task := h.many(3, 3)
		leases := h.claim(3)
		kinds := []string{pawl.IterationStart, pawl.IterationEnd, pawl.ToolExecuted, pawl.LLMResponse, pawl.ErrorBoundary, pawl.CustomCheckpoint}
		for i := range 120 {
			name := ""
			if i%3 == 0 {
				name = fmt.Sprintf("step %d", i%12)
			}
			h.save(leases[i*7%3], kinds[i*5%len(kinds)], name)
		}
		list := func() []pawl.Checkpoint {
			l, err := h.Service.ListCheckpoints(h.Context(), pawl.CheckpointFilter{TaskID: task.ID, Page: pawl.Page{Limit: 1000}})
			h.OK(err)
			return l.Items
		}
		all := list()
		want := map[int64]bool{}
		last := map[string]int64{}
		for i, c := range all {
			if i >= len(all)-10 {
				want[c.Sequence] = true
			}
			last[c.ItemID] = c.Sequence
			if c.Name != "" {
				last[c.ItemID+" name "+c.Name] = c.Sequence
			}
			if slices.Contains([]string{pawl.IterationStart, pawl.IterationEnd, pawl.ErrorBoundary}, c.Type) {
				last[c.ItemID+" type "+c.Type] = c.Sequence
			}
		}
		for _, n := range last {
			want[n] = true
		}
		h.same(sweeps().Checkpoints, len(all)-len(want), "pruned")
		for _, c := range list() {
			if !want[c.Sequence] {
				t.Errorf("number %d (%s %q) stayed", c.Sequence, c.Type, c.Name)
			}
			delete(want, c.Sequence)
		}
		h.same(want, map[int64]bool{}, "gone, though needed")
		h.same(sweeps().Checkpoints, 0, "pruned again")
		h.save(leases[0], pawl.CustomCheckpoint, "")
		h.same(sweeps().Checkpoints > 0, true, "pruned after a new one")
		for range 20 {
			h.save(leases[0], pawl.CustomCheckpoint, "")
		}
		h.same(h.pruning(10, false)().Checkpoints, 0, "pruned with the cleanup off")
	})
}

// A type may set a shorter or longer retention, also where the default is for ever. A task has the
// retention of the type's version that it was created with.
func TestTypesSayHowLongTheirTasksAreKept(t *testing.T) {
	each(t, func(h *fixture) {
		put := func(name string, days int) {
			rs, err := h.Service.PutTypes(h.Context(), []pawl.Type{{Name: name, Retention: pawl.Retention{TaskSeconds: days * 24 * 3600}}})
			h.OK(err)
			h.OK(rs[0].Err)
		}
		ended := func(name string) string {
			task := h.Create(pawl.NewTask{Type: name})
			h.complete(h.claim(1)[0])
			return task.ID
		}
		there := func(id string) bool {
			_, err := h.Service.GetTask(h.Context(), id)
			return err == nil
		}
		put("short", 1)
		put("long", 60)
		short, long, plain := ended("short"), ended("long"), ended("plain")
		put("short", 45)
		later := ended("short")
		after := func(days int, want ...bool) {
			h.Helper()
			h.Advance(time.Duration(days) * day)
			h.pass()
			h.same([]bool{there(short), there(later), there(long), there(plain)}, want, "there")
		}
		h.pass()
		after(0, true, true, true, true)
		h.Advance(time.Second)
		after(1, false, true, true, true)
		h.OK(h.Restore(h.Context(), "default", short))
		after(0, true, true, true, true)
		after(2, false, true, true, true)
		after(27, false, true, true, false)
		h.Options.RetainTasks = 0
		last := ended("plain")
		after(15, false, false, true, false)
		after(15, false, false, false, false)
		h.same(there(last), true, "of those kept for ever")
		put("new", 1)
		last = ended("new")
		h.Advance(2 * day)
		h.pass()
		h.same(there(last), false, "of a type that was registered after the first pass")
	})
}

// lostAnswer is a database whose connection is lost after a commit, once.
type lostAnswer struct {
	store.DB
	lose func() bool // asked after each commit
}

func (d *lostAnswer) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	err := d.DB.Do(ctx, fn)
	if err == nil && d.lose() {
		return store.ErrLost
	}
	return err
}

// An archive stays if the transaction that records it was committed and its answer was lost.
func TestARecordedArchiveStays(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.ArchiveDir = t.TempDir()
		id := h.solos(1, 3)[0]
		h.complete(h.claim(1)...)
		h.Advance(31 * day)
		lost := false
		h.DB = &lostAnswer{h.DB, func() bool {
			now := !lost && h.count("SELECT COUNT(*) FROM pawl.archives") == 1
			lost = lost || now
			return now
		}}
		_, _ = h.Pass(h.Context())
		h.same(lost, true, "lost")
		h.OK(h.Restore(h.Context(), "default", id))
		h.same(h.state(id), pawl.TaskCompleted, "restored")
	})
}

// Steps of a message stay when they have a snapshot of their own; of those that refer to the
// message, only the newest is needed.
func TestStepsThatAResumeNeedsStay(t *testing.T) {
	each(t, func(h *fixture) {
		task, err := pawl.Create(h.Context(), h.Service, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{MaxSteps: 20}})
		h.OK(err)
		claimed, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"chat"}})
		h.OK(err)
		l := claimed[0]
		for n := range 12 {
			call := pawl.StepCall{MessageFence: pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: "w", Attempt: 1}}
			if n%2 == 0 {
				call.Snapshot = json.RawMessage(`{"own":true}`)
			}
			_, err := h.Service.StepMessages(h.Context(), []pawl.StepCall{call})
			h.OK(err)
		}
		h.same(h.pruning(3, true)().Checkpoints, 4, "pruned")
		list, err := h.Service.ListCheckpoints(h.Context(), pawl.CheckpointFilter{TaskID: task.ID})
		h.OK(err)
		var names []string
		for _, c := range list.Items {
			names = append(names, c.Name)
		}
		h.same(names, []string{"step:1", "step:3", "step:5", "step:7", "step:9", "step:10", "step:11", "step:12"}, "steps")
	})
}
