package engine_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/checkpoints"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/keys"
	"github.com/pawl-work/pawl/engine/internal/stats"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// full fills a database: n tasks of one item each, mostly completed, with column
// statistics. It has two namespaces and ten types.
func full(t *testing.T, p *pawltest.Pawl, n int) {
	t.Helper()
	numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),\n", n) +
		"x (i, id) AS (SELECT i, '000000000000000000000000' || substr(CAST(100000000 + i AS TEXT), 2) FROM n)\n"
	common := "CASE WHEN i % 50 = 0 THEN 'small' ELSE 'default' END"
	queries := []string{
		"INSERT INTO pawl.actors (id, kind, name)\n" + numbers + "SELECT 1000000 + i, 'worker', 'filled-' || i FROM n",
		"INSERT INTO pawl.queues (id, namespace, type)\n" +
			"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19)\n" +
			"SELECT 1000 + i, CASE WHEN i >= 10 THEN 'small' ELSE 'default' END, 'type-' || (i % 10) FROM n\n" +
			"WHERE NOT EXISTS (SELECT 1 FROM pawl.queues q WHERE q.id = 1000 + i)",
		"INSERT INTO pawl.tasks (id, namespace, type, solo, priority, payload, requested_by_id, input_hash, metadata, created_at, queue_id,\n" +
			"  max_attempts, input)\n" + numbers +
			"SELECT @id(id), " + common + ", 'type-' || (i % 10), CASE WHEN i % 7 = 3 THEN 0 ELSE 1 END, i % 5, NULL, 'user-' || i % 1000, " +
			"'hash-' || i, '{\"a\":1}', 1800000000000000 + CAST(i AS BIGINT) * 1000000, " +
			"@queue(" + common + ", 'type-' || (i % 10)), 3, '{}' FROM x",
		"INSERT INTO pawl.items (id, namespace, queue_id, task_id, type, kind, position, priority, max_attempts, input, created_at)\n" +
			"SELECT id, namespace, queue_id, id, type, 'work', 0, priority, 3, '{}', created_at FROM pawl.tasks WHERE solo = 0",
		"INSERT INTO pawl.task_counters (task_id, namespace, state, open)\n" +
			"SELECT id, namespace, 'completed', 0 FROM pawl.tasks WHERE solo = 0",
		"INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, attempt, failures, worker, ended_at)\n" +
			"SELECT id, queue_id, task_id, @state(completed), 1, 0, 1000001 + (created_at / 1000000) % 100, created_at FROM pawl.all_items WHERE " +
			"(created_at / 1000000) % 500 > 3",
		"INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, attempt, failures, max_attempts, solo,\n" +
			"  since, worker)\n" +
			"SELECT id, queue_id, task_id, priority, @state(failed), 3, 3, 3, 1, created_at, 1000001 FROM pawl.all_items WHERE (created_at / " +
			"1000000) % 500 = 1",
		"INSERT INTO pawl.leases (item_id, namespace, queue_id, task_id, priority, state, attempt, failures, max_attempts, solo, feeds, " +
			"acceptance, rework, spared, prefetch, worker, lease_seconds, started_at, acquired_at, heartbeat_at, lease_expires_at)\n" +
			"SELECT id, namespace, queue_id, task_id, priority, @state(leased), 1, 0, 3, 1, 0, 0, 0, 0, 0, 1000002, 60, " +
			"created_at, created_at, created_at, created_at FROM pawl.all_items WHERE (created_at / 1000000) % 500 = 2",
		"INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, max_attempts, solo)\n" +
			"SELECT queue_id, 1 - 2 * priority, id, task_id, 3, 1 FROM pawl.all_items WHERE (created_at / 1000000) % 500 IN (0, 3)",
		"INSERT INTO pawl.task_events (namespace, task_id, item_id, move, actor, created_at)\n" +
			"SELECT namespace, id, NULL, (SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'proposed'), " +
			"1000001 + (created_at / 1000000) % 1000, created_at FROM pawl.tasks ORDER BY id",
		"INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, seq, type, name, snapshot, metadata, created_at)\n" +
			"SELECT 'ckp_0000000000' || created_at, namespace, task_id, id, 1, 'custom', 'step-' || (created_at / 1000000) % 20, " +
			"'{}', '{\"a\":1}', " +
			"created_at FROM pawl.all_items",
		"INSERT INTO pawl.messages (id, namespace, thread, task_id, item_id, role, state, content, created_at, ended_at)\n" +
			"SELECT 'msg_0000000000' || created_at, namespace, 'chat-' || (created_at / 1000000) % 100, task_id, id, 'assistant', " +
			"'complete', '{}', " +
			"created_at, created_at FROM pawl.all_items",
		"INSERT INTO pawl.idempotency_keys (namespace, scope, key_hash, status, task_id, item_id, created_at, completed_at)\n" +
			"SELECT namespace, 's', CAST(created_at AS TEXT), 'completed', task_id, id, created_at, created_at FROM pawl.all_items",
		"INSERT INTO pawl.provenances (id, namespace, task_id, item_id, verb, created_at)\n" +
			"SELECT 'prv_0000000000' || created_at, namespace, task_id, id, 'create', created_at FROM pawl.all_items",
		"INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, payload, worker_id, attempt, created_at)\n" +
			"SELECT 'prt_0000000000' || created_at, namespace, id, 'a', '{}', 'w', 1, created_at FROM pawl.all_items",
		"INSERT INTO pawl.archives (task_id, namespace, bytes, sha256, created_at)\n" +
			"SELECT id, namespace, 1, '', created_at FROM pawl.tasks",
		"INSERT INTO pawl.workers (namespace, worker_id, started_at, last_seen_at)\n" +
			"SELECT namespace, 'w' || created_at, created_at, created_at FROM pawl.tasks WHERE (created_at / 1000000) % 10 = 0",
		"ANALYZE",
	}
	t.Cleanup(func() { // before the rules are checked: events of most changes are missing
		p.Tampered()
		clear := []string{"INSERT INTO pawl.retention_gate (reason) VALUES ('test')"}
		for _, table := range append(slices.Clone(filled), "retention_gate") {
			clear = append(clear, "DELETE FROM pawl."+table)
		}
		for _, q := range clear {
			if err := p.Exec(q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
	})
	if p.Database == pawltest.Postgres { // as autovacuum does
		queries = append(queries, "SELECT brin_summarize_new_values('pawl.task_events_by_time')",
			"SELECT brin_summarize_new_values('pawl.tasks_by_time')")
	}
	if p.Database == pawltest.Postgres { // rows that reuse the space of removed ones have no order, which an index by time needs
		queries = append([]string{"TRUNCATE pawl.task_events, pawl.tasks CASCADE"}, queries...)
	}
	for _, q := range queries {
		if err := p.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// filled lists the tables with as many rows as there are tasks, and some related tables.
var filled = []string{"task_counters",
	"finished_items",
	"parked_items",
	"leases",
	"ready",
	"task_events",
	"checkpoints",
	"messages",
	"idempotency_keys",
	"provenances",
	"item_parts",
	"archives",
	"workers",
	"items",
	"tasks",
}

// recorder records the queries that a list makes.
type recorder struct {
	store.Tx
	queries []string
	args    [][]any
}

func (r *recorder) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	r.queries, r.args = append(r.queries, query), append(r.args, args)
	return r.Tx.Query(ctx, query, args...)
}

// explain returns the plan of a query, one line per step.
func explain(ctx context.Context, tx store.Tx, lite bool, query string, args []any) (plan []string, err error) {
	var a, b, c int
	var line string
	prefix, dest := "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ", []any{&line}
	if lite {
		prefix, dest = "EXPLAIN QUERY PLAN ", []any{&a, &b, &c, &line}
	}
	rows, err := tx.Query(ctx, prefix+query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		plan = append(plan, line)
	}
	return plan, rows.Err()
}

var (
	actual  = regexp.MustCompile(`Scan.*rows=([0-9.]+) loops=(\d+)`)
	removed = regexp.MustCompile(`Rows Removed by (?:Filter|Index Recheck): (\d+)`)
)

// mostRead returns the largest number of rows that a step reads at once, or of times that
// a step runs.
func mostRead(plan []string) (most float64) {
	var rows, loops float64
	for _, line := range plan {
		if m := actual.FindStringSubmatch(line); m != nil {
			rows, _ = strconv.ParseFloat(m[1], 64)
			loops, _ = strconv.ParseFloat(m[2], 64)
		} else if m := removed.FindStringSubmatch(line); m != nil {
			n, _ := strconv.ParseFloat(m[1], 64)
			rows += n
		} else if strings.Contains(line, "->") {
			rows = 0
		}
		most = max(most, rows, loops)
	}
	return most
}

// sorted reports whether SQLite scans a large table and sorts it.
func sorted(plan []string) bool {
	all := strings.Join(plan, "\n") + "\n"
	return regexp.MustCompile(`(?m)^SCAN [twecmkp](\n| USING)`).MatchString(all) && strings.Contains(all, "TEMP B-TREE FOR ORDER BY")
}

// reads are lists with the filters that the interfaces offer.
func reads(n int) map[string]func(ctx context.Context, tx store.Tx, ns string) error {
	out := map[string]func(ctx context.Context, tx store.Tx, ns string) error{}
	page := pawl.Page{Limit: 100}
	var tasks, items []string
	for n := range 300 {
		b, _ := hex.DecodeString(fmt.Sprintf("%032d", n*7+1))
		var task store.TaskID
		task.SetBytes([16]byte(b))
		tasks, items = append(tasks, string(task)), append(items, "itm_"+string(task[4:]))
	}
	at := time.UnixMicro(1800000000000000 + 100_000_000).UTC()
	out["view of tasks, by uuid"] = func(ctx context.Context, tx store.Tx, _ string) error {
		rows, err := tx.Query(ctx, "SELECT retry_count, progress FROM pawl.v_tasks WHERE uuid @among_ids($1)", store.TaskList(tasks))
		if err == nil {
			rows.Close()
		}
		return err
	}
	late := time.UnixMicro(1800000000000000 + int64(n)*900_000).UTC() // events are read from the newest, so an early bound is slow
	newest := time.UnixMicro(1800000000000000 + int64(n)*999_000).UTC()
	low, yes, no := 4, true, false
	for name, f := range map[string]pawl.TaskFilter{
		"all": {}, "oldest": {Asc: true}, "ids": {IDs: tasks}, "one id": {IDs: tasks[:1]}, "ids, state": {IDs: tasks,
			States: []pawl.TaskState{pawl.TaskFailed}},
		"cursor": {Page: pawl.Page{Cursor: tasks[9]}}, "type": {Types: []string{"type-1"}}, "types": {Types: []string{"type-1", "type-2"}},
		"priority": {MinPriority: &low, MaxPriority: &low},
		"since":    {Since: at}, "until": {Until: at}, "requester": {RequestedBy: "user-7"}, "input hash": {InputHash: "hash-7"},
		"changed": {Changed: newest}, "by update": {ByUpdate: true}, "by update, oldest": {ByUpdate: true, Asc: true},
		"by update, cursor":  {ByUpdate: true, Page: pawl.Page{Cursor: fmt.Sprint(at.UnixMicro(), "_", tasks[9])}},
		"by update, changed": {ByUpdate: true, Changed: newest, Asc: true}, "by update, changed long ago": {ByUpdate: true, Changed: at,
			Asc: true},
		"by update, failed": {ByUpdate: true, States: []pawl.TaskState{pawl.TaskFailed}}, "by update, requester": {ByUpdate: true,
			RequestedBy: "user-7"}, "by update, type": {ByUpdate: true, Types: []string{"type-1"}}, "by priority": {ByPriority: true},
		"by priority, cursor": {ByPriority: true, Page: pawl.Page{Cursor: "3_" + tasks[9]}},
		"metadata":            {Metadata: map[string]string{"a": "1"}}, "failed, by priority": {States: []pawl.TaskState{pawl.TaskFailed},
			ByPriority: true}, "available": {Available: &yes}, "not available": {Available: &no},
	} {
		f.Limit = page.Limit
		out["tasks "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListTasks(ctx, tx, ns, f)
			return err
		}
	}
	for _, s := range pawl.TaskStates {
		if s.Shown {
			f := pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskState(s.Name)}, Page: page}
			out["tasks state "+s.Name] = func(ctx context.Context, tx store.Tx, ns string) error {
				_, err := store.ListTasks(ctx, tx, ns, f)
				return err
			}
		}
	}
	for _, s := range pawl.TaskStatuses {
		f := pawl.TaskFilter{Statuses: []pawl.Status{s}, Page: page}
		out["tasks status "+string(s)] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListTasks(ctx, tx, ns, f)
			return err
		}
	}
	for name, f := range map[string]pawl.ItemFilter{"all": {}, "ids": {IDs: items}, "task": {TaskID: tasks[0]},
		"type": {Types: []string{"type-1"}}, "worker": {WorkerID: "w1"}, "newest": {Desc: true}} {
		f.Limit = page.Limit
		out["items "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListItems(ctx, tx, ns, f, 1)
			return err
		}
	}
	for _, s := range pawl.ItemStates {
		f := pawl.ItemFilter{States: []pawl.ItemState{pawl.ItemState(s.Name)}, Page: page}
		out["items state "+s.Name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListItems(ctx, tx, ns, f, 1)
			return err
		}
	}
	for name, f := range map[string]pawl.EventFilter{"all": {}, "oldest": {Asc: true}, "task": {TaskID: tasks[0]},
		"item": {ItemID: items[0]}, "types": {Types: []string{"type-1"}}, "since": {Since: at}, "until": {Until: late},
		"deleted": {Event: "deleted"}, "event": {Event: "proposed"}, "cursor": {Page: pawl.Page{Cursor: "evt_1000"}}} {
		f.Limit = page.Limit
		out["events "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListEvents(ctx, tx, ns, f)
			return err
		}
	}
	for name, f := range map[string]pawl.CheckpointFilter{"all": {}, "task": {TaskID: tasks[0]}, "item": {ItemID: items[0]},
		"task, types": {TaskID: tasks[0], Types: []string{"custom"}}, "names": {Names: []string{"step-1", "step-2"}},
		"prefix": {NamePrefix: "step"}, "metadata": {Metadata: map[string]string{"a": "1"}}} {
		f.Limit = page.Limit
		out["checkpoints "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := checkpoints.List(ctx, tx, ns, f)
			return err
		}
	}
	for name, f := range map[string]pawl.MessageFilter{"all": {}, "thread": {Thread: "chat-1"}, "task": {TaskID: tasks[0]},
		"item": {ItemID: items[0]}, "status": {Statuses: []pawl.MessageState{"complete"}}, "stalled": {Stalled: true}} {
		f.Limit = page.Limit
		out["messages "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := store.ListMessages(ctx, tx, ns, f)
			return err
		}
	}
	for name, f := range map[string]pawl.KeyFilter{"all": {}, "status": {Status: "pending"}, "task": {TaskID: tasks[0]},
		"item": {ItemID: items[0]}} {
		f.Limit = page.Limit
		out["keys "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := keys.New(over(tx)).ListKeys(pawl.As(ctx, pawl.Caller{Namespace: ns}), f)
			return err
		}
	}
	for name, f := range map[string]pawl.ProvenanceFilter{"task": {TaskID: tasks[0]}, "item": {ItemID: items[0]}} {
		f.Limit = page.Limit
		out["provenances "+name] = func(ctx context.Context, tx store.Tx, ns string) error {
			_, err := engine.ListProvenances(ctx, tx, ns, f)
			return err
		}
	}
	out["parts"] = func(ctx context.Context, tx store.Tx, ns string) error {
		_, err := engine.ListPartsIn(ctx, tx, store.NewPageRoom(), ns, pawl.PartFilter{ItemID: items[0], Page: page})
		return err
	}
	out["workers"] = func(ctx context.Context, tx store.Tx, ns string) error {
		_, err := stats.New(over(tx)).ListWorkers(pawl.As(ctx, pawl.Caller{Namespace: ns}), pawl.WorkerFilter{Page: page})
		return err
	}
	out["namespaces"] = func(ctx context.Context, tx store.Tx, _ string) error {
		_, err := store.Namespaces(ctx, tx, "", 100)
		return err
	}
	out["archives"] = func(ctx context.Context, tx store.Tx, ns string) error {
		_, err := archives.New(over(tx), "", nil).ListArchives(pawl.As(ctx, pawl.Caller{Namespace: ns}), page)
		return err
	}
	out["items by id"] = func(ctx context.Context, tx store.Tx, ns string) error {
		_, err := store.GetItems(ctx, tx, items, 1)
		return err
	}
	return out
}

// Pages of tasks in order of updated_at are complete and do not overlap, among many tasks
// whose newest events are not in the order of their numbers.
func TestTasksInOrderOfUpdate(t *testing.T) {
	const n = 11_000
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		full(t, p, n)
		// Some times belong to many tasks. A few lie before or after the times of all
		// other events.
		if err := p.Exec("INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at)\n" +
			"SELECT namespace, id, (SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'updated'), 0, " +
			"CASE WHEN priority = 0 THEN 1700000000000000 ELSE 1800000000000000 + (created_at / " +
			"1000000 * 7919) % 500 * 20000000 END\n" +
			"FROM pawl.tasks WHERE (created_at / 1000000) % 3 = 0"); err != nil {
			t.Fatal(err)
		}
		var all []pawl.Task
		for _, ns := range []string{"default", "small"} {
			ctx, s := pawl.As(t.Context(), pawl.Caller{Namespace: ns}), p.Engine
			all = nil
			for f := (pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
				l := need[pawl.List[pawl.Task]](t)(s.ListTasks(ctx, f))
				if all = append(all, l.Items...); l.Next == "" {
					break
				}
				f.Cursor = l.Next
			}
			since := all[len(all)/2].UpdatedAt
			for name, f := range map[string]pawl.TaskFilter{"all": {}, "type": {Types: []string{"type-3"}},
				"failed": {States: []pawl.TaskState{pawl.TaskFailed}}, "changed": {Changed: since},
				"completed, changed": {Changed: since, States: []pawl.TaskState{pawl.TaskCompleted}},
				"metadata":           {Metadata: map[string]string{"a": "1"}, RequestedBy: "user-9"}} {
				for _, asc := range []bool{false, true} {
					f.ByUpdate, f.Asc, f.Limit, f.Cursor = true, asc, 997, ""
					var want, got []string
					for _, task := range all {
						if (f.Types == nil || task.Type == f.Types[0]) && (f.States == nil || task.State == f.States[0]) &&
							!task.UpdatedAt.Before(f.Changed) &&
							(f.RequestedBy == "" || task.RequestedBy.ID == f.RequestedBy) {
							want = append(want, fmt.Sprint(task.UpdatedAt.UnixMicro(), task.ID))
						}
					}
					if slices.Sort(want); !asc {
						slices.Reverse(want)
					}
					for {
						l := need[pawl.List[pawl.Task]](t)(s.ListTasks(ctx, f))
						for _, task := range l.Items {
							got = append(got, fmt.Sprint(task.UpdatedAt.UnixMicro(), task.ID))
						}
						if l.Next == "" {
							break
						}
						f.Cursor = l.Next
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s, %s, asc %v: %d tasks instead of %d, or in another order", ns, name, asc, len(got), len(want))
					}
				}
			}
		}
	})
}

// No list scans a large table, whatever its filter. On PostgreSQL the rows that it reads are counted, and some lists read up
// to 18,000 rows at a time. SQLite tells its plan alone.
func TestListsReadByTheirIndexes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		lite, n := p.Database == pawltest.SQLite, times(60_000, 1_000_000)
		if lite {
			n = times(6_000, 1_000_000)
		}
		full(t, p, n)
		openMessages(t, p)
		for name, read := range reads(n) {
			err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				r := &recorder{Tx: tx}
				if err := read(ctx, r, "default"); err != nil {
					return err
				}
				for i, q := range r.queries {
					plan, err := explain(ctx, tx, lite, q, r.args[i])
					if err != nil {
						return err
					}
					if most := mostRead(plan); most > float64(n)/3 || lite && sorted(plan) {
						t.Errorf("%s: it reads %.0f rows of %d:\n%s", name, most, n, strings.Join(plan, "\n"))
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v %v", name, err, errors.Unwrap(err))
			}
		}
	})
}

// openMessages checks that statistics count the open messages by their index: the others are many.
func openMessages(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		plan, err := planOfStats(ctx, tx, p, "default", "FROM pawl.messages")
		if all := strings.Join(plan, "\n"); !strings.Contains(all, "messages_streaming") {
			t.Errorf("it reads all messages:\n%s", all)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// planOfStats returns the plan of the first query with a text that the statistics of a namespace need.
func planOfStats(ctx context.Context, tx store.Tx, p *pawltest.Pawl, namespace, text string) ([]string, error) {
	r := &recorder{Tx: tx}
	if _, err := stats.New(over(r)).Stats(pawl.As(ctx, pawl.Caller{Namespace: namespace})); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r.queries, func(q string) bool { return strings.Contains(q, text) })
	if i < 0 {
		return nil, errors.New("no query has " + text)
	}
	return explain(ctx, tx, p.Database == pawltest.SQLite, r.queries[i], r.args[i])
}

// over is a Kernel that reads in a transaction.
func over(tx store.Tx) *kernel.Kernel {
	k := kernel.New(nil, nil)
	k.DB = readsIn{tx: tx}
	k.Sweeps = func(context.Context, store.Tx) (t pawl.SweepTotals, err error) { return t, nil }
	return k
}

type readsIn struct {
	store.DB
	tx store.Tx
}

// View implements store.DB.
func (r readsIn) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return fn(ctx, r.tx)
}
