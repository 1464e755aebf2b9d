package sweep_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// createLargeTask creates a task whose archive is restored in parts, and archives it. It returns its rows.
func createLargeTask(h *fixture) (id string, rows []string) {
	h.Helper()
	task := createFullTask(h, make([]pawl.NewItem, 200)...)
	h.complete(h.claim(199)...) // with one that waited for them
	h.complete(h.claim(1)...)
	return task.ID, h.retireLarge(task.ID)
}

// grow gives a task more than is restored at once.
func (h *fixture) grow(id string) {
	h.Helper()
	random := make([]byte, 12<<10)
	for range 30 {
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		h.exec("INSERT INTO pawl.provenances (id, namespace, task_id, verb, extra, created_at) VALUES ($1, 'default', $2, 'create', $3, 5)",
			h.NewID("prv"), id, `"`+hex.EncodeToString(random)+`"`)
	}
}

// retireLarge archives a task with more than is restored at once. It returns its rows.
func (h *fixture) retireLarge(id string) (rows []string) {
	h.Helper()
	h.grow(id)
	h.exec("INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, "+
		"attempt, sendings, senders, created_at) "+
		"SELECT 'eff_x', w.namespace, 'k', 'n', w.task_id, w.id, 'h', 'done', 0, 'gate', 'w', 1, 1, '[]', 5 "+
		"FROM pawl.all_items w WHERE w.task_id = $1 ORDER BY w.id LIMIT 1", id)
	h.exec("INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, seq, status, payload, worker_id, attempt, created_at) "+
		"SELECT 'prt_x', w.namespace, w.id, 'x', 3, 'validated', '{}', 'w', 1, 5 "+
		"FROM pawl.all_items w WHERE w.task_id = $1 ORDER BY w.id LIMIT 1", id)
	h.OK(h.Engine.Log(h.Context())) // its events get leaves
	h.pass()
	rows = h.dump(id)
	h.OK(h.Retire(h.Context(), id))
	if bytes := h.archive(id).Bytes; bytes < 300<<10 {
		h.Fatalf("the archive has %d bytes", bytes)
	}
	return rows
}

func (h *fixture) sound(when string) {
	h.Helper()
	found, err := h.Engine.Check(h.Context())
	h.OK(err)
	log, err := h.Engine.VerifyLog(h.Context(), -1, nil)
	h.OK(err)
	if len(found)+len(log.Faults) > 0 {
		h.Errorf("%s: doctor finds %+v, and in the log %+v", when, found, log.Faults)
	}
}

// A large archive is restored in parts. The process dies before each of its transactions in turn: what it has written is not
// seen, keeps the archive from others for a while, and is removed.
func TestALargeArchiveIsRestoredInParts(t *testing.T) {
	eachNew(t, func(h *fixture) {
		id, before := createLargeTask(h)
		tables := []string{"tasks", "items", "finished_items", "item_deps", "item_parts", "checkpoints", "task_events", "provenances",
			"messages", "message_chunks", "task_results", "effects", "idempotency_keys WHERE task_id IS NOT NULL OR scope = 'pawl.copy'"}
		steps, more := 0, 1
		if h.Database == pawltest.Postgres { // the same transactions, more slowly
			more = 5
		}
		for ; ; steps += more {
			err := h.server(&crashingDB{DB: h.DB, left: steps}).Restore(h.Context(), "default", id)
			if err == nil {
				break
			} else if !errors.Is(err, errCrash) {
				h.Fatal(err)
			}
			h.deadRestore(id)
			h.Advance(31 * time.Second)
			h.pass()
			for _, table := range tables {
				if n := h.count("SELECT COUNT(*) FROM pawl." + table); n > 0 {
					h.Errorf("after %d transactions %d rows of %s are left", steps, n, table)
				}
			}
		}
		if steps < 8 {
			h.Errorf("the restore took %d transactions", steps)
		}
		h.same(h.dump(id), before, "the rows")
		h.sound("in the end")
	})
}

// deadRestore checks what others see while a restore is not over whose process has died.
func (h *fixture) deadRestore(id string) {
	h.Helper()
	begun := h.count("SELECT COUNT(*) FROM pawl.idempotency_keys WHERE scope = 'pawl.copy'") > 0
	h.sound("in between")
	h.pass()
	if _, err := h.Service.GetTask(h.Context(), id); pawl.CodeOf(err) != pawl.CodeNotFound {
		h.Errorf("the task is seen: %v", err)
	}
	tasks, err := h.Service.ListTasks(h.Context(), pawl.TaskFilter{})
	h.OK(err)
	items, err := h.Service.ListItems(h.Context(), pawl.ItemFilter{})
	h.OK(err)
	messages, err := h.Service.ListMessages(h.Context(), pawl.MessageFilter{})
	h.OK(err)
	effects, err := h.Service.ListEffects(h.Context(), pawl.EffectFilter{})
	h.OK(err)
	failures, err := h.Service.ListFailures(h.Context(), pawl.FailureFilter{})
	h.OK(err)
	h.same([]int{len(tasks.Items), len(items.Items), len(messages.Items), len(effects.Items), len(failures.Items),
		len(h.events(pawl.EventFilter{}))}, make([]int, 6), "tasks, items, messages, effects, failures and events that are listed")
	if !begun {
		return
	}
	for what, err := range map[string]error{"restore": h.Restore(h.Context(), "default", id),
		"delete": h.DeleteArchive(h.Context(), "default", id, store.Deletion{})} {
		if pawl.CodeOf(err) != pawl.CodeUnavailable {
			h.Errorf("%s beside a restore: %v", what, err)
		}
	}
}

// A task that was deleted is restored in parts too. A restore that dies leaves it deleted.
func TestALargeArchiveOfADeletedTask(t *testing.T) {
	eachNew(t, func(h *fixture) {
		id, before := createLargeTask(h)
		h.OK(h.Restore(h.Context(), "default", id))
		h.OK(h.Delete(h.Context(), "default", id, store.Deletion{Actor: store.Actor{Type: pawl.ActorUser, ID: "somebody"}}))
		if err := h.server(&crashingDB{DB: h.DB, left: 7}).Restore(h.Context(), "default", id); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		rows := h.count("SELECT COUNT(*) FROM pawl.items")
		h.pass()
		if left := h.count("SELECT COUNT(*) FROM pawl.items"); rows == 0 || left != rows {
			t.Errorf("the deletion goes on: %d items of %d", left, rows)
		}
		h.Advance(31 * time.Second)
		h.pass()
		if _, err := h.Service.GetTask(h.Context(), id); err == nil || !strings.Contains(err.Error(), "was deleted on") {
			t.Errorf("after a restore that died: %v", err)
		}
		h.OK(h.Restore(h.Context(), "default", id))
		h.same(h.dump(id), before, "the rows")
		h.sound("in the end")
	})
}

// A restore that fails removes what it has written.
func TestALargeArchiveThatCannotBeRestored(t *testing.T) {
	eachNew(t, func(h *fixture) {
		id, _ := createLargeTask(h)
		lines := h.unpack(id)
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"table":"message_chunks"`) })
		var chunk struct {
			ID string `json:"message_id"`
		}
		h.OK(json.Unmarshal([]byte(lines[at]), &chunk))
		h.exec("INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at) VALUES ($1, 0, 1, 1, 'hi', 5)", chunk.ID)
		if err := h.Restore(h.Context(), "default", id); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("with a row of its that is there: %v", err)
		}
		if n := h.count("SELECT COUNT(*) FROM pawl.items") + h.count("SELECT COUNT(*) FROM pawl.tasks"); n > 0 {
			t.Errorf("%d rows are left", n)
		}
		h.exec("DELETE FROM pawl.message_chunks")
		h.OK(h.Restore(h.Context(), "default", id))
	})
}

// The log knows the result of the only item of a task, which is in the row of the item.
func TestALargeArchiveOfOneItem(t *testing.T) {
	eachNew(t, func(h *fixture) {
		id := h.Create(pawl.NewTask{Type: "a"}).ID
		h.complete(h.claim(1)...)
		before := h.retireLarge(id)
		for left := 2; left < 8; left++ { // with its row, its state and its parts
			if err := h.server(&crashingDB{DB: h.DB, left: left}).Restore(h.Context(), "default", id); !errors.Is(err, errCrash) {
				h.Fatal(err)
			}
			h.deadRestore(id)
			h.Advance(31 * time.Second)
			h.pass()
		}
		h.OK(h.Restore(h.Context(), "default", id))
		h.same(h.dump(id), before, "the rows")
		h.sound("in the end")
	})
}

// An item that failed with a dependency is not looked at while its task is being restored: the pass would not end.
func TestDependentsOfARestoreInParts(t *testing.T) {
	eachNew(t, func(h *fixture) {
		_, err := h.Service.PutTypes(h.Context(), []pawl.Type{{Name: "i", OnItemFailure: pawl.FailureIgnore, MaxAttempts: 1}})
		h.OK(err)
		task := h.Create(pawl.NewTask{Type: "i", Items: []pawl.NewItem{{Key: "done"}, {Key: "fails"}, {Key: "cancelled"},
			{Key: "both", After: []string{"fails", "cancelled"}}}})
		ls := h.claim(3)
		h.complete(ls[0])
		h.fail(ls[1])
		h.pass()
		_, err = h.Service.CancelTasks(h.Context(), []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{ls[2].ID}}})
		h.OK(err)
		if n := h.count("SELECT COUNT(*) FROM pawl.parked_items WHERE left_by = 'dependency'"); n != 1 {
			h.Fatalf("%d items failed with a dependency", n)
		}
		h.retireLarge(task.ID)
		for left := range 12 {
			if h.server(&crashingDB{DB: h.DB, left: left}).Restore(h.Context(), "default", task.ID) == nil {
				return
			}
			h.deadRestore(task.ID)
			h.Advance(31 * time.Second)
			h.pass()
		}
	})
}

// The segment of an archive gets a new file when another archive of it is deleted.
func TestALargeArchiveWhoseSegmentIsChanged(t *testing.T) {
	eachNew(t, func(h *fixture) {
		h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		ids := h.solos(2, 1)
		h.complete(h.claim(2)...)
		for _, id := range ids {
			h.grow(id)
		}
		h.pass()
		before := h.dump(ids[0])
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 2, "pruned")
		if a := h.archive(ids[0]); a.Segment == nil || a.Bytes < 300<<10 {
			t.Fatalf("the archive is %+v", a.Archive)
		}
		db := &crashingDB{DB: h.DB, left: 3, then: func() {
			h.OK(h.DeleteArchive(h.Context(), "default", ids[1], store.Deletion{Actor: store.Actor{Type: pawl.ActorUser, ID: "somebody"}}))
		}}
		h.OK(h.server(db).Restore(h.Context(), "default", ids[0]))
		h.same(db.then == nil, true, "the other archive was deleted meanwhile")
		h.same(h.dump(ids[0]), before, "the rows")
	})
}

// The leaf of a creation, and of each replacement of the payload, has a digest that a later event says.
func TestALargeArchiveOfAReplacedPayload(t *testing.T) {
	eachNew(t, func(h *fixture) {
		create := pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`),
			Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}}
		id := h.Create(create).ID
		for i := range 510 {
			_, err := h.Service.UpdateTasks(h.Context(), []pawl.TaskUpdate{{TaskID: id, Title: new(strconv.Itoa(i))}})
			h.OK(err)
		}
		for i := range 510 { // more than are inserted at once
			create.Payload = json.RawMessage(strconv.Itoa(i + 2))
			h.same(h.Create(create).ID, id, "the task whose payload is replaced")
		}
		h.complete(h.claim(1)...)
		before := h.retireLarge(id)
		h.OK(h.Restore(h.Context(), "default", id))
		h.same(h.dump(id), before, "the rows")
		h.sound("in the end")
	})
}
