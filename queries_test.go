package pawl_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

var (
	sqlBlock = regexp.MustCompile("(?ms)^```sql\n(.*?)^```$")
	readFrom = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+(\w+)`)
)

// queries returns the queries of docs/sql.md for a database, by their headings.
func queries(t *testing.T, d pawltest.Database) (out [][2]string) {
	t.Helper()
	raw, err := os.ReadFile("docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	form := map[pawltest.Database]string{pawltest.SQLite: "-- SQLite", pawltest.Postgres: "-- PostgreSQL"}[d]
	for _, section := range strings.Split(string(raw), "\n### ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		for _, b := range sqlBlock.FindAllStringSubmatch(section, -1) {
			query := strings.TrimSuffix(strings.TrimSpace(b[1]), ";")
			if only, rest, _ := strings.Cut(query, "\n"); only == form {
				query = rest
			} else if strings.HasPrefix(only, "-- ") {
				continue
			}
			out = append(out, [2]string{heading, query})
		}
	}
	return out
}

var anyView = regexp.MustCompile(`\bv_(\w+)`)

// read runs a query and scans each row into dest, if there is any.
func read(t *testing.T, p *pawltest.Pawl, query string, dest ...any) (rows int) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		got, err := tx.Query(ctx, anyView.ReplaceAllString(query, "pawl.v_$1"))
		if err != nil {
			return err
		}
		defer got.Close()
		for rows = 0; got.Next(); rows++ {
			if len(dest) == 0 {
				continue
			}
			if err := got.Scan(dest...); err != nil {
				return err
			}
		}
		return got.Err()
	})
	if err != nil {
		t.Errorf("%v:\n%s", err, query)
	}
	return rows
}

// queryOf is the query under a heading.
func queryOf(t *testing.T, d pawltest.Database, heading string) string {
	t.Helper()
	for _, q := range queries(t, d) {
		if q[0] == heading {
			return q[1]
		}
	}
	t.Fatalf("no query for %q", heading)
	return ""
}

// Every query of docs/sql.md reads only views, and finds something in a database
// that has something of everything.
func TestQueriesInDocsRun(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		words := furnish(t, p)
		all := queries(t, p.Database)
		for _, q := range all {
			for _, m := range readFrom.FindAllStringSubmatch(strings.ReplaceAll(q[1], "EXTRACT(EPOCH FROM", ""), -1) {
				if !strings.HasPrefix(m[1], "v_") {
					t.Errorf("reads %s, which is no view:\n%s", m[1], q[1])
				}
			}
			if strings.Contains(q[1], "datetime(") {
				t.Errorf("compares with another form of time:\n%s", q[1])
			}
			if read(t, p, words.Replace(q[1])) == 0 {
				t.Errorf("found nothing:\n%s", q[1])
			}
		}
		if len(all) < 15 {
			t.Errorf("only %d queries were found", len(all))
		}
	})
}

// The length of a lease is that of its last heartbeat, not of the claim.
func TestLeaseHealthInDocs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, l := range []struct{ claimed, beaten, ago int }{{60, 3600, 100}, {60, 3600, 1000}, {3600, 60, 30}} {
			if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}); err != nil {
				t.Fatal(err)
			}
			ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: l.claimed})
			if err != nil || len(ls) != 1 {
				t.Fatal(ls, err)
			}
			beats, err := p.Service.Heartbeat(t.Context(), []pawl.HeartbeatCall{{Fence: ls[0].Fence(), LeaseSeconds: l.beaten}})
			if err != nil || beats[0].Err != nil {
				t.Fatal(beats, err)
			}
			forward := time.Now().Add(-time.Duration(l.ago)*time.Second).UnixMicro() - p.Now().UnixMicro()
			if err := p.Exec("UPDATE pawl.leases SET heartbeat_at = heartbeat_at + $1, lease_expires_at = lease_expires_at + $1 WHERE item_id = "+
				"$2", forward, ls[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		var active, stale int
		var age float64
		read(t, p, queryOf(t, p.Database, "Lease health"), &active, &stale, &age)
		if active != 3 || stale != 1 {
			t.Errorf("%d of %d leases are stale, want 1 of 3: the one that was shortened", stale, active)
		}
	})
}

// An hour is an hour, and not the day that it began in.
func TestLastHourInDocs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}) // long ago by the machine's clock
		if err != nil {
			t.Fatal(err)
		}
		for _, ago := range []time.Duration{time.Hour - time.Minute, time.Hour + time.Second} {
			if err := p.Exec("INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at) VALUES ('default', $1, "+
				"(SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'stale'), 0, $2)",
				task.ID, time.Now().Add(-ago).UnixMicro()); err != nil {
				t.Fatal(err)
			}
		}
		var event string
		var count int
		read(t, p, queryOf(t, p.Database, "What happened in the last hour"), &event, &count)
		if event != "stale" || count != 1 {
			t.Errorf("%d events %q, want 1 of 2", count, event)
		}
	})
}

// furnish creates rows of every kind, and returns the values of TASK, ITEM and WORKER.
func furnish(t *testing.T, p *pawltest.Pawl) *strings.Replacer {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := func() pawl.Lease {
		t.Helper()
		got, err := p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "worker-abc", Limit: 1})
		ok(err)
		if len(got) != 1 {
			t.Fatal("nothing to claim")
		}
		return got[0]
	}
	_, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "solo", Payload: []byte(`{}`), Priority: 9})
	ok(err)
	_, err = pawl.Complete(ctx, p.Service, claim().Fence(), []byte(`{"done":true}`))
	ok(err)
	bot := pawl.WithProvenance(ctx, pawl.Provenance{AgentName: "bot", Extra: []byte(`{"a":1}`)})
	task, err := pawl.Create(bot, p.Service, pawl.NewTask{Type: "many", Items: make([]pawl.NewItem, 3),
		Messages: []pawl.NewMessage{{Role: pawl.RoleUser, Content: []byte(`"hello"`), Metadata: []byte(`{"b":2}`)}}})
	ok(err)
	ok(p.Service.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: "worker-abc", Types: []string{"many"}}))
	begun, err := p.Service.BeginKeys(ctx, []pawl.KeyBegin{{Scope: "s", Key: "k", RequestHash: "h"}})
	ok(err)
	ok(begun[0].Err)
	run := claim()
	_, err = pawl.SaveCheckpoint(ctx, p.Service, run.Fence(), pawl.NewCheckpoint{Type: pawl.IterationStart, Snapshot: []byte(`{}`)})
	ok(err)
	p.Advance(pawl.DefaultLeaseSeconds * time.Second)
	_, err = p.Service.Sweep(ctx) // a lease has expired …
	ok(err)
	held := claim()
	p.Advance(pawl.DefaultLeaseSeconds * time.Second) // … and another one is about to be swept
	ok(p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, payload, worker_id, attempt, created_at) "+
			"VALUES ('prt_x', 'default', $1, 'p', '1', 'w', 1, 1)", store.ItemID(held.ID))
		return err
	}))
	ok(p.Exec("INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at) VALUES ('default', $1, "+
		"(SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'stale'), 0, $2)",
		task.ID, time.Now().UnixMicro())) // the views go by the machine's clock
	end := time.Now().Add(time.Hour) // the clock may be the machine's by now
	child := pawl.NewTask{Type: "child", ParentID: task.ID, Deadline: &end, Items: make([]pawl.NewItem, 2)}
	_, err = pawl.Create(ctx, p.Service, child)
	ok(err)
	return strings.NewReplacer("TASK", task.ID, "ITEM", held.ID, "WORKER", "worker-abc")
}

// The views show what calls show: deadlines of items that are their tasks', timeouts, parents,
// forks and schedules.
func TestViewsShowDeadlinesParentsForksAndSchedules(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		end := p.Now().Add(time.Hour)
		create := func(task pawl.NewTask) pawl.Task {
			made, err := pawl.Create(ctx, p.Service, task)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		parent := create(pawl.NewTask{Type: "parent"})
		for _, items := range []int{0, 2} {
			create(pawl.NewTask{Type: "child", ParentID: parent.ID, Deadline: &end, StartToCloseSeconds: 5, ScheduleToStartSeconds: 6,
				Items: make([]pawl.NewItem, items)})
		}
		if rs, err := p.Service.ForkTasks(ctx, []pawl.TaskFork{{TaskID: parent.ID}}); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		nightly := pawl.NewSchedule{Name: "nightly", Cron: "@daily", Task: pawl.NewTask{Type: "planned"}}
		if _, err := p.Service.CreateSchedule(ctx, nightly); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Service.RunSchedule(ctx, "nightly"); err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]int{
			"FROM v_tasks WHERE parent_id = '" + parent.ID + "' AND start_to_close_seconds = 5 AND schedule_to_start_seconds = 6": 2,
			"FROM v_tasks c JOIN v_tasks p ON c.parent_uuid = p.uuid WHERE c.deadline IS NOT NULL":                                2,
			"FROM v_tasks WHERE parent_id IS NULL AND deadline IS NULL":                                                           3,
			"FROM v_items WHERE deadline IS NOT NULL":                                                                             3,
			"FROM v_tasks f JOIN v_tasks o ON f.forked_from_uuid = o.uuid WHERE f.forked_from = o.id AND f.forked_at = 0":         1,
			"FROM v_tasks WHERE schedule = 'nightly'":                                                                             1,
		} {
			if n := read(t, p, "SELECT 1 "+query); n != want {
				t.Errorf("%d rows, want %d: %s", n, want, query)
			}
		}
	})
}

// allViews are the views for users.
var allViews = []string{"v_tasks", "v_items", "v_leases", "v_parts", "v_checkpoints", "v_events", "v_task_results", "v_messages",
	"v_idempotency_keys", "v_provenances", "v_workers", "v_sweeps"}

// Every column of every view can be read, whatever JSON is stored: also the escape of NUL, which
// jsonb refuses. JSON has a type of its own on PostgreSQL.
func TestEveryColumnOfTheViews(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		furnish(t, p)
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "nul"})
		if err == nil { // no call takes it any more
			err = p.Exec("UPDATE pawl.tasks SET payload = $1 WHERE type = 'nul'", `{"a":"\u0000","b":"x"}`)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, view := range allViews {
			if read(t, p, "SELECT * FROM "+view) == 0 {
				t.Errorf("%s has no row", view)
			}
		}
		var member string
		if n := read(t, p, "SELECT CAST(payload ->> 'done' AS text) FROM v_task_results", &member); n != 1 || member == "" {
			t.Errorf("a member beside that of %s: %d rows, %q", task.ID, n, member)
		}
		if p.Database != pawltest.Postgres {
			return
		}
		for _, column := range []string{"v_tasks.payload", "v_items.error", "v_parts.payload", "v_task_results.payload", "v_events.data",
			"v_checkpoints.snapshot", "v_messages.content", "v_provenances.extra", "v_workers.types", "v_sweeps.detail"} {
			view, name, _ := strings.Cut(column, ".")
			var typ string
			read(t, p, "SELECT pg_typeof(x."+name+")::text FROM "+view+" x LIMIT 1", &typ)
			if typ != "json" {
				t.Errorf("%s has the type %q", column, typ)
			}
		}
	})
}

// A task has one result, also if an item applied it.
func TestTheViewOfResultsHasOneRowOfATask(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		rs, err := p.Service.PutTypes(ctx, []pawl.Type{{Name: "edit", Approval: pawl.Approval{Mode: pawl.ApprovalManual},
			Apply: pawl.Apply{Mode: pawl.ApplyItem}}, {Name: "book", Plan: pawl.Plan{Mode: pawl.PlanItem}}})
		if err != nil || rs[0].Err != nil || rs[1].Err != nil {
			t.Fatal(rs, err)
		}
		complete := func(typ, result string) {
			t.Helper()
			for _, l := range p.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}) {
				if _, err := pawl.Complete(ctx, p.Engine, l.Fence(), json.RawMessage(result)); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := map[string]string{}
		for applied, result := range map[string]string{`{"result":"applied"}`: `"applied"`, `{}`: `"work"`} {
			task := p.Create(pawl.NewTask{Type: "edit"})
			l := p.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", Types: []string{"edit"}})[0]
			call := pawl.SubmitCall{Fence: l.Fence(), Result: json.RawMessage(`"work"`)}
			if rs, err := p.Service.Submit(ctx, []pawl.SubmitCall{call}); err != nil || rs[0].Err != nil {
				t.Fatal(rs, err)
			}
			if rs, err := p.Service.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task.ID}}); err != nil || rs[0].Err != nil {
				t.Fatal(rs, err)
			}
			complete("edit.apply", applied)
			want[task.ID] = result
		}
		want[p.Create(pawl.NewTask{Type: "plain"}).ID] = `"plain"`
		complete("plain", `"plain"`)
		planned := p.Create(pawl.NewTask{Type: "book"})
		complete("book.plan", `[{"input":1}]`)
		complete("book", `"page"`)
		if task, err := p.Service.GetTask(ctx, planned.ID); err != nil || task.State != pawl.TaskCompleted {
			t.Fatal(task.State, err)
		}
		got := map[string]string{}
		var id, payload string
		rows := `SELECT task_id, CAST(payload AS text) FROM v_task_results ORDER BY task_id LIMIT 1 OFFSET `
		for n := 0; read(t, p, rows+strconv.Itoa(n), &id, &payload) == 1; n++ {
			if got[id] != "" {
				t.Errorf("%s has a second row, %s", id, payload)
			}
			got[id] = payload
		}
		if !maps.Equal(got, want) {
			t.Errorf("results %v, want %v", got, want)
		}
	})
}

// The message of an event in the view is the one that every other reader gets.
func TestTheViewOfEventsHasTheirMessages(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		furnish(t, p)
		list, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{Page: pawl.Page{Limit: 1000}})
		if err != nil || len(list.Items) < 10 {
			t.Fatal(len(list.Items), err)
		}
		for _, e := range list.Items {
			var message string
			read(t, p, "SELECT COALESCE(message, '') FROM v_events WHERE id = '"+e.ID+"'", &message)
			if message != e.Message || message == "" {
				t.Errorf("%s: %q, want %q", e.Event, message, e.Message)
			}
		}
		text, err := os.ReadFile("store/" + string(p.Database) + "/migrations/0012_effects.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range pawl.Events { // a new one needs a migration with the view
			if !strings.Contains(string(text), "WHEN '"+e.Name+"' THEN '"+e.Means+"'") {
				t.Errorf("the view does not have the message of %s", e.Name)
			}
		}
	})
}

// The expression in the documents finds a task by the text of its id, with the index.
func TestIDsOnSQLiteInDocs(t *testing.T) {
	raw, err := os.ReadFile("docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "```\nWITH RECURSIVE")
	text, _, found := strings.Cut(text, ";\n```")
	if !found {
		t.Fatal("docs/sql.md does not say how an id is found on SQLite")
	}
	p := pawltest.Open(t, pawltest.SQLite)
	for range 50 {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{task.ID, "tsk_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
			var got, state string
			n := read(t, p, "WITH RECURSIVE"+strings.ReplaceAll(text, "TASK", id), &got, &state)
			if want := map[bool]int{true: 1}[id == task.ID]; n != want || n == 1 && got != id {
				t.Errorf("%d rows for %s: %s %s", n, id, got, state)
			}
		}
	}
}
