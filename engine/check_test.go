package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// scene is a database with an item in every table that has items.
type scene struct {
	*testing.T
	*pawltest.Pawl
	solo, many, waits pawl.Task
	lease             pawl.Lease
	ids               map[string]string // table → an item in it
}

func newScene(t *testing.T, p *pawltest.Pawl) *scene {
	t.Helper()
	s := &scene{T: t, Pawl: p, ids: map[string]string{}}
	later := p.Now().Add(time.Hour)
	s.solo = s.Create(pawl.NewTask{Type: "solo", Payload: []byte(`1`), Dedupe: pawl.Dedupe{All: true}})
	s.many = s.Create(pawl.NewTask{Type: "many", Items: []pawl.NewItem{
		{Input: []byte(`1`)}, {Input: []byte(`2`)}, {Input: []byte(`3`)}, {Input: []byte(`4`)}, {Input: []byte(`5`), RunAt: &later}}})
	s.waits = s.Create(
		pawl.NewTask{Type: "waits", Items: []pawl.NewItem{{Input: []byte(`1`), Key: "a"}, {Input: []byte(`2`), Key: "b", After: []string{"a"}}}})
	ended := s.Claim("solo")
	s.ok(first(p.Service.Complete(s.Context(), []pawl.CompleteCall{{Fence: ended.Fence(), Result: []byte(`1`)}})))
	failed := s.Claim("many")
	s.ok(pawl.Fail(s.Context(), p.Service, failed.Fence(), pawl.Permanent(errors.New("no"))))
	s.lease = s.Claim("many")
	for range 3 {
		s.ok(
			pawl.SaveCheckpoint(s.Context(), p.Service, s.lease.Fence(), pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: []byte(`{}`)}))
	}
	s.ok(first(p.Service.BeginKeys(s.Context(), []pawl.KeyBegin{{Key: "k", RequestHash: "h", ItemID: s.lease.ID}})))
	s.ok(p.Service.PutBudget(s.Context(), "llm", pawl.NewBudget{Unit: "tokens", Limit: 10}))
	s.ok(p.Service.ReserveBudget(s.Context(), "llm",
		pawl.ReserveCall{ItemID: s.lease.ID, WorkerID: "w", Attempt: s.lease.Attempt, Amount: 3, Key: "k"}))
	s.ok(p.Service.CreateSchedule(s.Context(), pawl.NewSchedule{Name: "nightly", Cron: "0 2 * * *", Task: pawl.NewTask{Type: "scheduled"}}))
	s.ok(p.Service.RunSchedule(s.Context(), "nightly"))
	s.ids["finished_items"], s.ids["parked_items"], s.ids["leases"] = ended.ID, failed.ID, s.lease.ID
	for _, place := range []string{"ready", "scheduled", "waiting"} {
		s.ids[place] = s.value("SELECT @item_text(item_id) FROM pawl." + place +
			" WHERE @type_of(queue_id) <> 'waits' OR '" + place + "' = 'waiting' ORDER BY item_id LIMIT 1")
	}
	if found := s.check(); len(found) != 0 {
		t.Fatalf("before anything is broken: %v", found)
	}
	return s
}

func (s *scene) ok(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) check() []store.Breach {
	s.Helper()
	found, err := s.Engine.Check(s.Context())
	s.ok(nil, err)
	return found
}

// value reads one text from the database.
func (s *scene) value(query string, args ...any) (v string) {
	s.Helper()
	s.ok(nil, s.Engine.DB().View(s.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&v}, query, args...)
		return err
	}))
	return v
}

// exec runs statements. {table} stands for the item in that table; {solo}, {many} and
// {waits} stand for the tasks.
func (s *scene) exec(statements string) {
	s.Helper()
	pairs := []string{"{solo}", s.solo.ID, "{many}", s.many.ID, "{waits}", s.waits.ID}
	for place, id := range s.ids {
		pairs = append(pairs, "{"+place+"}", id)
	}
	text := strings.NewReplacer(pairs...).Replace(statements)
	s.ok(nil, s.Engine.DB().Do(s.Context(), func(ctx context.Context, tx store.Tx) error {
		for _, q := range strings.Split(text, ";\n") {
			q, _ = pawltest.SQL(q)
			if _, err := tx.Exec(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}))
}

const (
	lastEvent = "INSERT INTO pawl.retention_gate VALUES ('test');\nDELETE FROM pawl.task_events WHERE id = (SELECT MAX(id) FROM " +
		"pawl.task_events);\nDELETE FROM pawl.retention_gate"
	readyColumns = "queue_id, rank, item_id, task_id, attempt, failures, max_attempts, solo, feeds"
)

// insertEvent returns a statement that inserts an event of a task, or of an item if it names one.
// move is its class, its name and its states.
func insertEvent(task, item, move string) string {
	if item != "" {
		item = "'" + item + "'"
	}
	for _, m := range store.MoveCodes {
		if move == strings.TrimSuffix(m.Class+" "+m.Event+" "+m.From+">"+m.To, " >") {
			return fmt.Sprintf("INSERT INTO pawl.task_events (namespace, task_id, item_id, move, actor, created_at) VALUES "+
				"('default', '%s', %s, %d, 0, 1)", task, cmp.Or(item, "NULL"), m.Code)
		}
	}
	panic("no such event: " + move)
}

// breakages has one or more ways to break each rule, and to repair it again.
var breakages = []struct{ rule, subject, harm, mend string }{
	{
		"one place",
		"{ready}",
		"INSERT INTO pawl.ready (" + readyColumns + ") SELECT queue_id, rank - 1, item_id, task_id, attempt, failures, max_attempts," +
			" solo, feeds FROM pawl.ready WHERE item_id = '{ready}'",
		"DELETE FROM pawl.ready WHERE item_id = '{ready}' AND rank = 0",
	},
	{
		"one place",
		"{waiting}",
		"UPDATE pawl.waiting SET item_id = 'itm_00000000000000000E1SEWHERE' WHERE item_id = '{waiting}'",
		"UPDATE pawl.waiting SET item_id = '{waiting}' WHERE item_id = 'itm_00000000000000000E1SEWHERE'",
	},
	{
		"carried",
		"{ready}",
		"UPDATE pawl.ready SET queue_id = queue_id + 1000 WHERE item_id = '{ready}'",
		"UPDATE pawl.ready SET queue_id = queue_id - 1000 WHERE item_id = '{ready}'",
	},
	{
		"carried",
		"{ready}",
		"UPDATE pawl.ready SET rank = 7 WHERE item_id = '{ready}'",
		"UPDATE pawl.ready SET rank = 1 WHERE item_id = '{ready}'",
	},
	{
		"carried",
		"{scheduled}",
		"UPDATE pawl.scheduled SET queue_id = @queue('default', 'waits') WHERE item_id = '{scheduled}'",
		"UPDATE pawl.scheduled SET queue_id = @queue('default', 'many') WHERE item_id = '{scheduled}'",
	},
	{
		"carried",
		"{leases}",
		"UPDATE pawl.leases SET namespace = 'other' WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET namespace = 'default' WHERE item_id = '{leases}'",
	},
	{
		"queues",
		"{leases}",
		"UPDATE pawl.items SET queue_id = 999999 WHERE id = '{leases}';\nUPDATE pawl.leases SET queue_id = 999999 WHERE item_id = '{leases}'",
		"UPDATE pawl.items SET queue_id = @queue('default', 'many') WHERE id = '{leases}';\n" +
			"UPDATE pawl.leases SET queue_id = @queue('default', 'many') WHERE item_id = '{leases}'",
	},
	{
		"queues",
		"itm_",
		"UPDATE pawl.queues SET type = 'other' WHERE type = 'waits'",
		"UPDATE pawl.queues SET type = 'waits' WHERE type = 'other'",
	},
	{
		"gates",
		"{leases}",
		"UPDATE pawl.leases SET gate = 999999 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET gate = NULL WHERE item_id = '{leases}'",
	},
	{
		"names",
		"{leases}",
		"UPDATE pawl.leases SET worker = 999999 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET worker = (SELECT MIN(id) FROM pawl.actors WHERE kind = 'worker') WHERE item_id = '{leases}'",
	},
	{
		"names",
		"{many}",
		strings.Replace(insertEvent("{many}", "", "task updated"), ", 0, 1)", ", 999999, 1)", 1),
		lastEvent,
	},
	{
		"carried",
		"{leases}",
		"UPDATE pawl.leases SET solo = 1 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET solo = 0 WHERE item_id = '{leases}'",
	},
	{
		"carried",
		"{leases}",
		"UPDATE pawl.leases SET max_attempts = 9 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET max_attempts = 3 WHERE item_id = '{leases}'",
	},
	{
		"carried",
		"{parked_items}",
		"UPDATE pawl.parked_items SET task_id = '{solo}' WHERE item_id = '{parked_items}'",
		"UPDATE pawl.parked_items SET task_id = '{many}' WHERE item_id = '{parked_items}'",
	},
	{
		"carried",
		"itm_0000000000000000000000N0NE",
		"INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, attempt, failures, ended_at)\n" +
			"VALUES ('itm_0000000000000000000000N0NE', 1, '{solo}', " +
			"@state(completed), 1, 0, 1)",
		"INSERT INTO pawl.retention_gate VALUES ('test');\nDELETE FROM pawl.finished_items WHERE item_id = 'itm_0000000000000000000000N0NE';\n" +
			"DELETE FROM pawl.retention_gate",
	},
	{
		"lease",
		"{leases}",
		"UPDATE pawl.leases SET lease_expires_at = 0 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET lease_expires_at = heartbeat_at + 300000000 WHERE item_id = '{leases}'",
	},
	{
		"lease",
		"{leases}",
		"UPDATE pawl.leases SET worker = @system WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET worker = (SELECT MIN(id) FROM pawl.actors WHERE kind = 'worker') WHERE item_id = '{leases}'",
	},
	{
		"budget",
		"{leases}",
		"UPDATE pawl.leases SET failures = 3 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET failures = 0 WHERE item_id = '{leases}'",
	},
	{
		"dependencies",
		"{waiting}",
		"UPDATE pawl.waiting SET needs = 0, until = 9000000000000000 WHERE item_id = '{waiting}'",
		"UPDATE pawl.waiting SET needs = 1, until = NULL WHERE item_id = '{waiting}'",
	},
	{"feeders", "itm_", "UPDATE pawl.ready SET feeds = 0 WHERE queue_id = @queue('default', 'waits')",
		"UPDATE pawl.ready SET feeds = 1 WHERE queue_id = @queue('default', 'waits')"},
	{
		"counters",
		"{many}",
		"UPDATE pawl.task_counters SET open = open + 1 WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET open = open - 1 WHERE task_id = '{many}'",
	},
	{
		"counters",
		"{many}",
		"UPDATE pawl.task_counters SET failed = 0 WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET failed = 1 WHERE task_id = '{many}'",
	},
	{
		"counters",
		"{waits}",
		"UPDATE pawl.task_counters SET task_id = 'tsk_00000000000000000E1SEWHERE' WHERE task_id = '{waits}'",
		"UPDATE pawl.task_counters SET task_id = '{waits}' WHERE task_id = 'tsk_00000000000000000E1SEWHERE'",
	},
	{
		"settled",
		"{many}",
		"UPDATE pawl.task_counters SET state = 'failed', version = 1 WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET state = 'open', version = 0 WHERE task_id = '{many}'",
	},
	{"only item", "{many}", "UPDATE pawl.tasks SET solo = 1 WHERE id = '{many}'", "UPDATE pawl.tasks SET solo = 0 WHERE id = '{many}'"},
	{
		"checkpoints",
		"{many}",
		"UPDATE pawl.task_counters SET checkpoints = checkpoints + 1 WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET checkpoints = checkpoints - 1 WHERE task_id = '{many}'",
	},
	{
		"checkpoints",
		"{solo}",
		"INSERT INTO pawl.checkpoints (id, namespace, task_id, seq, type, snapshot, created_at) VALUES ('ckp_x', 'default', '{solo}', 1, " +
			"'custom', '{}', 1)",
		"INSERT INTO pawl.retention_gate VALUES ('test');\nDELETE FROM pawl.checkpoints WHERE id = 'ckp_x';\nDELETE FROM pawl.retention_gate",
	},
	{
		"item record",
		"{leases}",
		insertEvent("{many}", "{leases}", "item ready waiting>queued"),
		lastEvent,
	},
	{"codes", "event ", insertEvent("{many}", "{leases}", "task stale"), lastEvent},
	{"codes", "event ", insertEvent("{many}", "", "item progressed"), lastEvent},
	{
		"item state",
		"{leases}",
		insertEvent("{many}", "{leases}", "item released in_progress>queued"),
		lastEvent,
	},
	{
		"item state",
		"{leases}",
		"UPDATE pawl.leases SET attempt = 2 WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET attempt = 1 WHERE item_id = '{leases}'",
	},
	{
		"item state",
		"{leases}",
		"UPDATE pawl.leases SET state = @state(leased) WHERE item_id = '{leases}'",
		"UPDATE pawl.leases SET state = @state(in_progress) WHERE item_id = '{leases}'",
	},
	{
		"task record",
		"{many}",
		insertEvent("{many}", "", "task cancelled failed>cancelled"),
		lastEvent,
	},
	{"task state", "{many}", insertEvent("{many}", "", "task failed open>failed"), lastEvent},
	{
		"task state",
		"{solo}",
		insertEvent("{solo}", "{finished_items}", "only retried failed>queued"),
		lastEvent,
	},
	{
		"task state",
		"{many}",
		"UPDATE pawl.task_counters SET version = 5 WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET version = 0 WHERE task_id = '{many}'",
	},
	{
		"hangs on its task",
		"task_events of tsk_0000000000000000000000N0NE",
		insertEvent("tsk_0000000000000000000000N0NE", "", "task updated"),
		lastEvent,
	},
	{
		"hangs on its task",
		"task_counters of {many}",
		"UPDATE pawl.task_counters SET namespace = 'other' WHERE task_id = '{many}'",
		"UPDATE pawl.task_counters SET namespace = 'default' WHERE task_id = '{many}'",
	},
	{
		"hangs on its item",
		"task_events of {leases}",
		insertEvent("{solo}", "{leases}", "only progressed"),
		lastEvent,
	},
	{
		"loose ends",
		"item_deps",
		"INSERT INTO pawl.item_deps (needs_id, item_id) VALUES ('{ready}', 'itm_0000000000000000000000N0NE')",
		"DELETE FROM pawl.item_deps WHERE item_id = 'itm_0000000000000000000000N0NE'",
	},
	{
		"links of children",
		"{solo}",
		"INSERT INTO pawl.child_links (child_id, namespace, parent_id, depth) VALUES ('{solo}', 'default', '{many}', 1)",
		"DELETE FROM pawl.child_links",
	},
	{
		"parent_unlinked",
		"{many}",
		"UPDATE pawl.tasks SET parent_id = '{waits}' WHERE id = '{many}'",
		"UPDATE pawl.tasks SET parent_id = NULL WHERE id = '{many}'",
	},
	{
		"orphan_child",
		"{many}",
		"UPDATE pawl.tasks SET parent_id = 'tsk_0000000000000000000000N0NE' WHERE id = '{many}'",
		"UPDATE pawl.tasks SET parent_id = NULL WHERE id = '{many}'",
	},
	{
		"waits for children",
		"{leases}",
		"INSERT INTO pawl.child_waits (item_id, namespace, task_id, attempt, need, on_failure, total, ended, failed) " +
			"VALUES ('{leases}', 'default', '{many}', 1, 1, 'fail', 2, 1, 0)",
		"DELETE FROM pawl.child_waits",
	},
	{
		"loose ends",
		"deadlines of {ready}",
		"INSERT INTO pawl.deadlines (item_id, namespace, task_id, at) VALUES ('{ready}', 'default', '{many}', 5)",
		"DELETE FROM pawl.deadlines",
	},
	{
		"loose ends",
		"uniques key:k",
		"INSERT INTO pawl.uniques (namespace, type, key, task_id, until) VALUES ('default', 'none of this type', 'key:k', '{many}', 0)",
		"DELETE FROM pawl.uniques",
	},
	{
		"loose ends",
		"uniques key:gone",
		"INSERT INTO pawl.uniques (namespace, type, key, task_id, until) VALUES ('default', 'a', 'key:gone', " +
			"'tsk_0000000000000000000000N0NE', 9000000000000000000)",
		"DELETE FROM pawl.uniques",
	},
	{
		"loose ends",
		"item_parts",
		"INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, payload, worker_id, attempt, created_at) VALUES ('prt_x', " +
			"'other', '{leases}', 'p', '1', 'w', 1, 1)",
		"DELETE FROM pawl.item_parts WHERE id = 'prt_x'",
	},
	{
		"loose ends",
		"message_chunks",
		"INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at) VALUES ('msg_none', 0, 1, 1, 'x', 1)",
		"DELETE FROM pawl.message_chunks",
	},
	{
		"chunks",
		"msg_1",
		"INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, chunks, created_at) VALUES ('msg_1', 'default', '{many}'," +
			" '{leases}', 'assistant', 'streaming', 3, 1);\n" +
			"INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at) VALUES ('msg_1', 0, 1, 1, 'x', 1), ('msg_1', " +
			"2, 1, 1, 'x', 1)",
		"DELETE FROM pawl.message_chunks;\nDELETE FROM pawl.messages",
	},
	{
		"chunks",
		"msg_1",
		"INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, chunks, created_at) VALUES ('msg_1', 'default', '{many}'," +
			" '{leases}', 'assistant', 'streaming', 3, 1)",
		"DELETE FROM pawl.messages",
	},
	{
		"steps",
		"ckp_1",
		"UPDATE pawl.task_counters SET checkpoints = checkpoints + 1 WHERE task_id = '{many}';\n" +
			"INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, name, message_id, said, created_at) " +
			"SELECT 'ckp_1', 'default', '{many}', '{leases}', 1, checkpoints, 'iteration_end', 'step:1', 'msg_none', '1 1 0 0 0 200', 1 " +
			"FROM pawl.task_counters WHERE task_id = '{many}'",
		"INSERT INTO pawl.retention_gate (reason) VALUES ('x');\nDELETE FROM pawl.checkpoints WHERE id = 'ckp_1';\n" +
			"DELETE FROM pawl.retention_gate;\nUPDATE pawl.task_counters SET checkpoints = checkpoints - 1 WHERE task_id = '{many}'",
	},
	{
		"open message",
		"msg_1",
		"INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) VALUES ('msg_1', 'default', '{many}', " +
			"'{leases}', 'assistant', 'streaming', 1), ('msg_2', 'default', '{many}', '{leases}', 'assistant', 'streaming', 1)",
		"DELETE FROM pawl.messages",
	},
	{
		"open message",
		"msg_1",
		"INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) VALUES ('msg_1', 'default', '{many}', " +
			"'{leases}', 'assistant', 'complete', 1)",
		"DELETE FROM pawl.messages",
	},
	{
		"signals",
		"{waiting}",
		"INSERT INTO pawl.signals (namespace, name, key, sent_at, created_at) VALUES ('default', 's', '', 1, 1);\nUPDATE pawl.waiting SET " +
			"signal = 's', since = 0 WHERE item_id = '{waiting}'",
		"DELETE FROM pawl.signals;\nUPDATE pawl.waiting SET signal = NULL WHERE item_id = '{waiting}'",
	},
	{"spending", "llm", "UPDATE pawl.budgets SET reserved = reserved + 1", "UPDATE pawl.budgets SET reserved = reserved - 1"},
	{"spending", "llm", "UPDATE pawl.budgets SET spent = spent + 1", "UPDATE pawl.budgets SET spent = spent - 1"},
	{
		"gates",
		"gate ",
		"INSERT INTO pawl.gates (queue_id, namespace, pointer, key) VALUES (999999, 'default', '', '')",
		"DELETE FROM pawl.gates",
	},
	{
		"reservations",
		"rsv_x",
		"INSERT INTO pawl.budget_reservations (id, namespace, budget_id, period_number, item_id, task_id, attempt, key, state, amount, " +
			"charged, created_at, ended_at) VALUES ('rsv_x', 'default', 'none', 0, 'itm_0000000000000000000000N0NE', '{many}', 1, 'x', 1, 1, " +
			"1, 1, 1)",
		"DELETE FROM pawl.budget_reservations WHERE id = 'rsv_x'",
	},
	{
		"reservations",
		"rsv_",
		"UPDATE pawl.budget_reservations SET charged = 1;\nUPDATE pawl.budgets SET spent = 1",
		"UPDATE pawl.budget_reservations SET charged = 0;\nUPDATE pawl.budgets SET spent = 0",
	},
	{"effects", "{leases}", "UPDATE pawl.leases SET effects = 1 WHERE item_id = '{leases}'", "UPDATE pawl.leases SET effects = 0"},
	{"schedules", "nightly", "UPDATE pawl.schedules SET queued = 1", "UPDATE pawl.schedules SET queued = 0"},
	{
		"schedules",
		"nightly",
		"INSERT INTO pawl.firings (schedule_id, tick, namespace, outcome, fired_at) " +
			"SELECT id, next_tick, namespace, 'skipped', 1 FROM pawl.schedules",
		"DELETE FROM pawl.firings WHERE outcome = 'skipped'",
	},
	{
		"firings",
		"sch_",
		"UPDATE pawl.firings SET task_id = NULL WHERE outcome = 'created'",
		"UPDATE pawl.firings SET task_id = (SELECT last_task_id FROM pawl.schedules) WHERE outcome = 'created'",
	},
	{
		"firings",
		"sch_",
		"UPDATE pawl.firings SET task_id = '{solo}' WHERE outcome = 'created'",
		"UPDATE pawl.firings SET task_id = (SELECT last_task_id FROM pawl.schedules) WHERE outcome = 'created'",
	},
	{
		"firings",
		"gone at 1",
		"INSERT INTO pawl.firings (schedule_id, tick, namespace, outcome, fired_at) VALUES ('gone', 1, 'default', 'queued', 1)",
		"DELETE FROM pawl.firings WHERE schedule_id = 'gone'",
	},
	{
		"firings",
		"gone at 1",
		"INSERT INTO pawl.firings (schedule_id, tick, until, namespace, outcome, fired_at) VALUES ('gone', 1, 9, 'default', 'missed', 1), " +
			"('gone', 5, NULL, 'default', 'skipped', 1)",
		"DELETE FROM pawl.firings WHERE schedule_id = 'gone'",
	},
	{"input hash", "{many}", "UPDATE pawl.tasks SET dedupes = 1 WHERE id = '{many}'", "UPDATE pawl.tasks SET dedupes = 0 WHERE id = '{many}'"},
	{"keys", "", "UPDATE pawl.idempotency_keys SET status = 'completed'", "UPDATE pawl.idempotency_keys SET status = 'pending'"},
	{"gate", "retention_gate", "INSERT INTO pawl.retention_gate VALUES ('test')", "DELETE FROM pawl.retention_gate"},
}

func TestCheckFindsEveryBreach(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := newScene(t, p)
		// TestCheckReadsTheFile, TestDamagedBlobsAreNamed, TestStatisticsByTotalsAreExact
		// TestDoctorFindsLostArchives, TestDoctorFindsWhatRetentionHasPassed
		tried := map[string]bool{store.RuleArchive: true, store.RuleRetention: true,
			"file": true, "blobs": true, "blob contents": true, "totals": true}
		for _, b := range breakages {
			tried[b.rule] = true
			s.exec(b.harm)
			found := s.check()
			subject := strings.NewReplacer("{many}", s.many.ID, "{solo}", s.solo.ID, "{waits}", s.waits.ID).Replace(b.subject)
			for place, id := range s.ids {
				subject = strings.ReplaceAll(subject, "{"+place+"}", id)
			}
			if !slices.ContainsFunc(found, func(f store.Breach) bool {
				return f.Rule == b.rule && strings.Contains(f.Subject, subject) && f.Found != "" && f.Repair != ""
			}) {
				t.Errorf("rule %q, subject %s: after\n%s\nthe check found %+v", b.rule, subject, b.harm, found)
			}
			s.leftOut(b.harm)
			s.exec(b.mend)
			if found := s.check(); len(found) != 0 {
				t.Fatalf("after %s: %+v", b.mend, found)
			}
		}
		for _, r := range engine.Rules() {
			if !tried[r.Name] {
				t.Errorf("the rule %q was not broken here", r.Name)
			}
		}
	})
}

// leftOut checks that no breach is found in a namespace that moves in, or out. A row without an owner is in none.
func (s *scene) leftOut(harm string) {
	s.Helper()
	for _, none := range []string{"retention_gate VALUES", "'msg_none'", "queue_id + 1000", "INTO pawl.item_deps"} {
		if strings.Contains(harm, none) {
			return
		}
	}
	for _, move := range []string{"'target', '%s', 'copying'", "'source', '%s', 'flipped'"} {
		for _, namespace := range []string{"default", "other"} {
			s.exec("INSERT INTO pawl.relocations (id, side, namespace, step, peer, created_at, changed_at) VALUES ('" + namespace + "', " +
				fmt.Sprintf(move, namespace) + ", 'p', 0, 0)")
		}
		for _, b := range s.check() {
			s.Errorf("beside a move, after\n%s\nthe check found %+v", harm, b)
		}
		s.exec("DELETE FROM pawl.relocations")
	}
}

func TestCheckBoundsItsAnswer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := newScene(t, p)
		s.exec("INSERT INTO pawl.retention_gate VALUES ('x')")
		for range 5 {
			s.exec("INSERT INTO pawl.retention_gate SELECT reason FROM pawl.retention_gate")
		}
		found := s.check()
		if len(found) != 21 || found[20].Subject != "12 more" || found[20].Found != "32 in all" {
			t.Errorf("32 breaches of one rule: %d answered, the last %+v", len(found), found[len(found)-1])
		}
		s.exec("DELETE FROM pawl.retention_gate")
	})
}

func TestCheckReadsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db")
	ctx := t.Context()
	e, err := engine.Open(ctx, "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Payload: []byte(`"` + strings.Repeat("x", 1000) + `"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := bytes.Index(file, []byte(strings.Repeat("x", 500))) / 4096
	copy(file[page*4096:], strings.Repeat("\x55", 64))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err = engine.Open(ctx, "sqlite:"+path); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	found, err := e.Check(ctx)
	if err != nil || len(found) == 0 || found[0].Rule != "file" || found[0].Repair == "" {
		t.Errorf("the check of a damaged file: %v, %v", found, err)
	}
}
