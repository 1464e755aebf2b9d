package postgres_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/store"
)

var api = store.Actor{Type: "api", ID: "me"}

// solo returns a task of one item whose ids are made from a number.
func solo(n int) (store.NewTask, store.NewItem) {
	id := fmt.Sprintf("%06d", n)
	t := store.NewTask{ID: wide("tsk_" + id), Namespace: "default", Type: "a", Solo: true, Metadata: "{}", Items: 1, Actor: api,
		Data: `{"type":"a"}`}
	i := store.NewItem{ID: wide("itm_" + id), Namespace: "default", TaskID: t.ID, Type: "a", Kind: "work", Solo: true, MaxAttempts: 3,
		Input: strconv.Itoa(n), Actor: api}
	return t, i
}

// many returns a task of several items whose ids are made from numbers.
func many(n, items int) (store.NewTask, []store.NewItem) {
	t, first := solo(n)
	payload := "{}"
	t.Solo, t.Items, t.Payload = false, items, &payload
	all := make([]store.NewItem, items)
	for i := range all {
		all[i] = first
		all[i].Solo, all[i].Position, all[i].ID = false, i, wide(fmt.Sprintf("itm_%06d_%06d", n, i))
	}
	return t, all
}

func (h *database) create(tasks []store.NewTask, items []store.NewItem) (now int64) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		now, err = hot.Create(ctx, tx, tasks, items)
		return err
	})
	return now
}

func (h *database) solo(n int, alter func(*store.NewItem)) {
	h.Helper()
	t, i := solo(n)
	if alter != nil {
		alter(&i)
	}
	h.create([]store.NewTask{t}, []store.NewItem{i})
}

func (h *database) many(n, items int, alter func(*store.NewItem)) []store.NewItem {
	h.Helper()
	t, all := many(n, items)
	for i := range all {
		if alter != nil {
			alter(&all[i])
		}
	}
	h.create([]store.NewTask{t}, all)
	return all
}

// claim claims up to limit items of type a, of any rank near 0.
func (h *database) claim(worker string, limit int, alter func(*store.Claim)) (out []store.Claimed) {
	h.Helper()
	c := store.Claim{Namespace: "default", Claimants: []store.Claimant{{WorkerID: worker, Limit: limit, LeaseSeconds: 30}},
		Queues: []store.Queue{{Type: "a", Rank: 0}, {Type: "a", Rank: 1}, {Type: "a", Rank: 2}}}
	if alter != nil {
		alter(&c)
	}
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		out, err = hot.Claim(ctx, tx, c)
		return err
	})
	return out
}

func fence(item, worker string, attempt int) store.Fence {
	return store.Fence{Namespace: "default", ItemID: item, WorkerID: worker, Attempt: attempt}
}

func (h *database) complete(calls ...store.Complete) (out []store.Moved) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		out, err = hot.Complete(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) leave(calls ...store.Leave) (out []store.Moved) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		out, err = hot.Leave(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) touch(calls ...store.Touch) (out []store.Touched) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		out, err = hot.Touch(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) checkpoint(calls ...store.Checkpoint) (out []store.Checkpointed) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		out, err = hot.Checkpoint(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) expire(limit int, only []string) (out []store.Expired) {
	h.Helper()
	ids := make([]string, limit)
	for i := range ids {
		ids[i] = fmt.Sprintf("ckp_x%d_%06d", schemas.Add(1), i)
	}
	h.auto(func(ctx context.Context, tx store.Tx, _ store.Hot) (err error) {
		out, err = h.db.Dialect().Timed.Expire(ctx, tx, limit, only, true, ids)
		return err
	})
	return out
}

func (h *database) due(limit int, only []string) (out []store.DueItem) {
	h.Helper()
	h.auto(func(ctx context.Context, tx store.Tx, _ store.Hot) (err error) {
		out, err = h.db.Dialect().Timed.Due(ctx, tx, limit, only)
		return err
	})
	return out
}

const (
	itemEvents = `SELECT event, from_state, to_state, task_from, task_to, (SELECT kind FROM actors WHERE id = actor),
		(SELECT NULLIF(name, '') FROM actors WHERE id = actor), attempt FROM event_rows
		WHERE item_id = $1 ORDER BY id`
	taskEvents = `SELECT event, from_state, to_state, (SELECT kind FROM actors WHERE id = actor) FROM event_rows
		WHERE item_id IS NULL AND task_id = $1 ORDER BY id`
	live = `SELECT state, version, items, open, failed, checkpoints, completed_at IS NOT NULL FROM task_counters WHERE task_id = $1`
)

func TestCreatePutsItemsWhereTheyBelong(t *testing.T) {
	h := newDatabase(t)
	ahead := int64(1) << 60
	task, items := many(1, 4)
	items[1].RunAt = &ahead
	items[2].Needs, items[0].Feeds = []string{items[0].ID, items[0].ID}, true
	items[3].Priority = 7
	one, its := solo(2)
	one.Title, one.InputHash, one.Dedupes = "a title", "h", true
	now := h.create([]store.NewTask{task, one}, append(items, its))
	h.want("(0,1,itm_000001_000000,0) (3,-13,itm_000001_000003,0) (0,1,itm_000002,1)",
		"SELECT i.position, rank, item_id, solo FROM ready JOIN all_items i ON i.id = item_id ORDER BY item_id")
	h.want("(itm_000001_000001,1152921504606846976)", "SELECT item_id, run_at FROM scheduled")
	h.want("(itm_000001_000002,1)", "SELECT item_id, needs FROM waiting")
	h.want("(itm_000001_000000,itm_000001_000002)", "SELECT * FROM item_deps")
	h.want("(open,0,4,4,0,0,f)", live, task.ID)
	h.want("", live, one.ID)
	h.want("(proposed,,open,api)", taskEvents, task.ID)
	h.want("(planned,,queued,,,api,me,)", itemEvents, items[0].ID)
	h.want("(planned,,scheduled,,,api,me,)", itemEvents, items[1].ID)
	h.want("(planned,,waiting,,,api,me,)", itemEvents, items[2].ID)
	h.want("(proposed,,queued,,open,api,me,)", itemEvents, its.ID)
	h.want(`("{""type"":""a""}")`, "SELECT data FROM event_rows WHERE item_id = $1", its.ID)
	h.want(fmt.Sprintf("(6,%d,%d,1)", now, now), "SELECT count(*), min(created_at), max(created_at), count(DISTINCT created_at) "+
		"FROM event_rows")
	h.want("(proposed) (planned) (planned) (planned) (planned) (proposed)", "SELECT event FROM event_rows ORDER BY id")
	h.want(`("a title",h,1,,2)`, "SELECT title, input_hash, dedupes, payload, input "+
		"FROM tasks t WHERE id = $1", one.ID)

	more := items[0]
	more.ID, more.Position, more.Feeds = wide("itm_000001_000004"), 4, false
	h.create(nil, []store.NewItem{more})
	h.want("(planned,,queued,,,api,me,)", itemEvents, more.ID)
}

// Tasks that differ in their ids, inputs and data alone are inserted with a statement of their own. Its rows are those
// that each task has beside one of another priority.
func TestTasksThatAreAlikeHaveTheSameRows(t *testing.T) {
	h := newDatabase(t)
	h.advance(0)
	parent, at, timeout := store.TaskID(wide("tsk_000000")), int64(1<<50), int64(7)
	draw := func(n, priority int) (store.NewTask, store.NewItem) {
		task, it := solo(n)
		it.Input, task.Data, it.Data = `{"same":1}`, `{"type":"a"}`, ""
		task.Title, task.Metadata, task.Priority, it.Priority, task.TypeVersion = "title", `{"m":1}`, priority, priority, 3
		task.RequestedByType, task.RequestedByID, task.InputHash = "user", "u", "hash"
		task.TraceParent, task.Schedule, task.Deadline, it.Deadline = "00-1", "hourly", &at, &at
		task.StartToClose, task.ScheduleToStart, it.StartToClose, it.ScheduleToStart = &timeout, &timeout, &timeout, &timeout
		task.ParentID, task.ForkedFrom, task.ForkedAt = &parent, &parent, &at
		it.Type, it.MaxAttempts, it.Feeds, it.Child, it.Acceptance, it.Gate = "b", 5, true, true, true, &timeout
		it.Actor = store.Actor{Type: "user", ID: "u", Key: "key"}
		task.Actor = it.Actor
		return task, it
	}
	one, first := draw(1, 4)
	two, second := draw(2, 4)
	h.create([]store.NewTask{one, two}, []store.NewItem{first, second})
	three, third := draw(3, 4)
	four, fourth := draw(4, 5)
	h.create([]store.NewTask{three, four}, []store.NewItem{third, fourth})
	for query, rows := range map[string]string{
		"SELECT count(DISTINCT to_jsonb(t) - '{id,created_at}'::text[]) FROM tasks t WHERE priority = 4":                            "(1)",
		"SELECT count(*) FROM tasks t WHERE priority = 4":                                                                           "(3)",
		"SELECT count(DISTINCT to_jsonb(r) - '{item_id,task_id,since}'::text[] || jsonb_build_object('s', since > 0)) FROM ready r": "(2)",
		"SELECT count(DISTINCT to_jsonb(e) - '{id,item_id,task_id,created_at}'::text[]) FROM task_events e":                         "(1)",
		"SELECT count(*) FROM task_events e WHERE item_id = task_id AND digest = sha256('{\"same\":1}')":                            "(4)",
		"SELECT count(DISTINCT created_at) FROM tasks WHERE priority = 4":                                                           "(2)",
	} {
		h.want(rows, query)
	}
}

// A task that differs from others of its call keeps its own values.
func TestTasksThatDifferKeepTheirValues(t *testing.T) {
	h := newDatabase(t)
	h.advance(0)
	seven := int64(7)
	for n, differ := range []func(t *store.NewTask, i *store.NewItem){
		func(t *store.NewTask, _ *store.NewItem) { t.Title = "other" },
		func(t *store.NewTask, _ *store.NewItem) { t.Metadata = `{"m":1}` },
		func(t *store.NewTask, _ *store.NewItem) { t.TypeVersion = 2 },
		func(t *store.NewTask, _ *store.NewItem) { t.Deadline = &seven },
		func(_ *store.NewTask, i *store.NewItem) { i.Priority = 1 },
		func(_ *store.NewTask, i *store.NewItem) { i.Type = "b" },
		func(_ *store.NewTask, i *store.NewItem) { i.MaxAttempts = 9 },
		func(_ *store.NewTask, i *store.NewItem) { i.Feeds = true },
		func(_ *store.NewTask, i *store.NewItem) { i.ScheduleToStart = &seven },
		func(_ *store.NewTask, i *store.NewItem) { i.Gate = &seven },
		func(_ *store.NewTask, i *store.NewItem) { i.Actor.ID = "other" },
		func(_ *store.NewTask, i *store.NewItem) { i.Actor.Key = "other" },
		func(_ *store.NewTask, i *store.NewItem) { i.Data = `{"other":1}` },
		func(_ *store.NewTask, i *store.NewItem) { i.Input = "other" },
	} {
		one, first := solo(2*n + 1)
		two, second := solo(2*n + 2)
		first.Input, second.Input = "1", "1"
		differ(&two, &second)
		h.create([]store.NewTask{one, two}, []store.NewItem{first, second})
		h.want("(2)", "SELECT count(DISTINCT to_jsonb(t) - '{id,created_at}'::text[] || (to_jsonb(r) - '{item_id,task_id}'::text[]) || "+
			"(to_jsonb(e) - '{id,item_id,task_id,created_at}'::text[])) FROM tasks t JOIN ready r ON r.item_id = t.id "+
			"JOIN task_events e ON e.item_id = t.id WHERE t.id IN ($1, $2)", one.ID, two.ID)
	}
}

func TestClaimOrder(t *testing.T) {
	h := newDatabase(t)
	for n := 1; n <= 6; n++ {
		h.solo(n, func(i *store.NewItem) {
			if n%2 == 0 {
				i.Type = "b"
			}
			if n == 6 {
				i.Priority = 1
			}
		})
	}
	groups := []store.Queue{{Type: "b", Rank: -1}, {Type: "b", Rank: 1}, {Type: "a", Rank: 1}}
	got := h.claim("w", 4, func(c *store.Claim) { c.Queues = groups })
	var ids []string
	for _, c := range got {
		ids = append(ids, c.ItemID)
	}
	if narrow(fmt.Sprint(ids)) != "[itm_000006 itm_000001 itm_000002 itm_000003]" {
		t.Errorf("claimed %v", ids)
	}
	if c := got[0]; c.Priority != 1 || c.Attempt != 1 || string(c.Input) != "6" || c.Type != "b" || c.LeaseExpiresAt != c.AcquiredAt+30e6 ||
		c.MaxAttempts != 3 || c.LeaseSeconds != 30 {
		t.Errorf("%+v", c)
	}
	h.want("(leased,queued,leased,,,worker,w,1)", itemEvents+" OFFSET 1", wide("itm_000006"))
	h.want("(4,w,1,1,1,30,1,0)", "SELECT state, (SELECT name FROM actors WHERE id = worker), attempt, "+
		"priority, solo, lease_seconds, (started_at = acquired_at "+
		"AND acquired_at = heartbeat_at)::int, prefetch FROM leases WHERE item_id = 'itm_000006'")

	got = h.claim("v", 5, func(c *store.Claim) { c.Queues = []store.Queue{{Type: "b", Rank: 1, Head: wide("itm_000005")}} })
	if len(got) != 0 {
		t.Errorf("before the head: %v", got)
	}
	got = h.claim("v", 5, func(c *store.Claim) {
		c.Picks, c.Claimants[0].Prefetch, c.Claimants[0].Actor = []store.Pick{{Type: "a", Rank: 1, ItemID: wide("itm_000005")},
			{Type: "a", Rank: 1, ItemID: wide("itm_000001")}}, true, store.Actor{Type: "agent", ID: "x"}
	})
	if len(got) != 1 || got[0].ItemID != wide("itm_000005") {
		t.Errorf("picked %v", got)
	}
	h.want("(leased,queued,leased,,,agent,x,1)", itemEvents+" OFFSET 1", wide("itm_000005"))
	h.want("(v,1)", "SELECT (SELECT name FROM actors WHERE id = worker), prefetch FROM leases WHERE item_id = 'itm_000005'")
	h.want("(itm_000004)", "SELECT item_id FROM ready")
}

func TestClaimIsDealtOut(t *testing.T) {
	h := newDatabase(t)
	for n := 1; n <= 4; n++ {
		h.solo(n, nil)
	}
	got := h.claim("", 0, func(c *store.Claim) {
		c.Claimants = []store.Claimant{{WorkerID: "u", Limit: 1, LeaseSeconds: 10}, {WorkerID: "v", Limit: 2, LeaseSeconds: 20, Prefetch: true},
			{WorkerID: "w", Limit: 9, LeaseSeconds: 30}, {WorkerID: "x", Limit: 1, LeaseSeconds: 40}}
	})
	for i, want := range []int{0, 1, 1, 2} {
		if len(got) != 4 || got[i].Claimant != want || got[i].LeaseSeconds != 10*(want+1) ||
			got[i].LeaseExpiresAt != got[i].AcquiredAt+int64(got[i].LeaseSeconds)*1e6 {
			t.Errorf("%+v", got)
		}
	}
	h.want("(u,10,0) (v,20,1) (v,20,1) (w,30,0)", "SELECT (SELECT name FROM actors WHERE id = worker), "+
		"lease_seconds, prefetch FROM leases ORDER BY item_id")
	h.want("(u) (v) (v) (w)", "SELECT (SELECT NULLIF(name, '') FROM actors WHERE id = actor) FROM event_rows "+
		"WHERE event = 'leased' ORDER BY id")
}

func TestEveryVerbIsFenced(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(1, 4, nil)
	h.claim("w", 4, nil)
	h.claim("w", 1, nil)
	bad := []store.Fence{fence(ids[0].ID, "v", 1), fence(ids[1].ID, "w", 2), fence("itm_none", "w", 1),
		{Namespace: "other", ItemID: ids[2].ID, WorkerID: "w", Attempt: 1}}
	const query = "SELECT count(*), (SELECT sum(lease_expires_at) FROM leases), (SELECT string_agg(state::text, '') FROM leases) " +
		"FROM event_rows"
	before := h.one(query)
	refused := func(name string) {
		t.Helper()
		for i, f := range bad {
			n := len(h.touch(store.Touch{Ord: i, Fence: f, Extend: true})) + len(h.complete(store.Complete{Fence: f, Result: "1"})) +
				len(h.checkpoint(store.Checkpoint{Fence: f, ID: "ckp_1", Type: "custom", Snapshot: "1"})) +
				len(h.leave(store.Leave{Fence: f, Verb: "fail", Error: "{}", CheckpointID: "c", Jitter: 1})) +
				len(h.leave(store.Leave{Fence: f, Verb: "release"})) + len(h.leave(store.Leave{Fence: f, Verb: "suspend"}))
			if n != 0 {
				t.Errorf("%s: %d of the verbs let %+v in", name, n, f)
			}
		}
		h.want(before, query)
	}
	refused("not the holder")
	for i := range ids {
		bad[i] = fence(ids[i].ID, "w", 1)
	}
	h.advance(30*time.Second + time.Millisecond)
	refused("run out")
}

func TestTouch(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	c := h.claim("w", 1, nil)[0]
	f := fence(c.ItemID, "w", 1)
	h.advance(10 * time.Second)
	got := h.touch(store.Touch{Ord: 7, Fence: f, Extend: true})
	if len(got) != 1 || got[0].Ord != 7 || got[0].State != "in_progress" || got[0].LeaseExpiresAt != got[0].Now+30e6 ||
		got[0].TaskID != wide("tsk_000001") || got[0].LeaseSeconds != 30 {
		t.Errorf("%+v", got)
	}
	fifty, stage := 50, "half"
	got = h.touch(store.Touch{Fence: f, Extend: true, LeaseSeconds: 90, Progress: &fifty, Stage: &stage})
	if got[0].LeaseSeconds != 90 || got[0].LeaseExpiresAt != got[0].Now+90e6 {
		t.Errorf("%+v", got)
	}
	h.touch(store.Touch{Fence: f, Stage: &stage}, store.Touch{Fence: fence("itm_none", "w", 1)})
	h.want("(5,30,50,half,t,t)", "SELECT state, lease_seconds, progress, stage, progressed_at > acquired_at, heartbeat_at = $1 "+
		"FROM leases", got[0].Now)
	empty := ""
	h.touch(store.Touch{Fence: f, Stage: &empty})
	h.want("(50,)", "SELECT progress, stage FROM leases")
	h.want("(in_progress,leased,in_progress,,,worker,w,1) (progressed,,,,,worker,w,1) (progressed,,,,,worker,w,1)", itemEvents+" OFFSET 2",
		c.ItemID)
	h.want(`("{""stage"" : ""half"", ""progress"" : 50}") ("{""stage"" : """", ""progress"" : 50}")`,
		"SELECT data FROM event_rows WHERE event = 'progressed' ORDER BY id")
	h.touch(store.Touch{Fence: f, Extend: true})
	h.want("(30)", "SELECT (lease_expires_at - heartbeat_at) / 1000000 FROM leases")
}

func TestCheckpointsAreNumberedDensely(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(1, 2, nil)
	h.solo(2, nil)
	h.claim("w", 9, nil)
	save := func(ord int, item, kind, name string) store.Checkpoint {
		return store.Checkpoint{Ord: ord, Fence: fence(item, "w", 1), ID: fmt.Sprintf("ckp_%s_%d", item, schemas.Add(1)), Type: kind,
			Name: store.Text(name), Snapshot: `{"n":1}`}
	}
	got := h.checkpoint(save(5, ids[0].ID, "custom", ""), save(6, "itm_none", "custom", ""), save(7, ids[1].ID, "manual_checkpoint", "m"),
		save(8, wide("itm_000002"), "tool_executed", "s"))
	if len(got) != 3 || got[0].Ord != 5 || got[0].Seq != 1 || got[1].Ord != 7 || got[1].Seq != 2 || got[2].Ord != 8 || got[2].Seq != 1 {
		t.Errorf("%v", got)
	}
	got = h.checkpoint(save(0, ids[1].ID, "custom", ""))
	if len(got) != 1 || got[0].Seq != 3 {
		t.Errorf("%v", got)
	}
	h.want("(open,0,2,2,0,3,f)", live, wide("tsk_000001"))
	h.want("(open,0,1,1,0,1,f)", live, wide("tsk_000002"))
	h.want("(1,custom,,1,t) (2,manual_checkpoint,m,1,t) (3,custom,,1,t)",
		"SELECT seq, type, name, attempt, snapshot = '{\"n\":1}' FROM checkpoints WHERE task_id = 'tsk_000001' ORDER BY seq")
	h.want("(in_progress,leased,in_progress,,,worker,w,1) (checkpointed,,,,,worker,w,1)", itemEvents+" OFFSET 2", ids[1].ID)
	h.want("(manual_checkpoint,m,2,t)",
		`SELECT data::json->>'type', data::json->>'name', data::json->>'sequence', (data::json->>'checkpoint_id') LIKE 'ckp_itm%'
		FROM event_rows WHERE event = 'checkpointed'`)
	h.want("(5) (5) (5)", "SELECT state FROM leases")
}

// TestFenceIsReadAfterTheWait has a verb wait for the row of a lease that runs out in the
// meantime. The transaction that holds the row does not change it, so only this statement
// checks the lease again.
func TestFenceIsReadAfterTheWait(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	h.claim("w", 1, nil)
	h.advance(0)
	f := fence(wide("itm_000001"), "w", 1)
	for name, verb := range map[string]func() int{
		"touch":    func() int { return len(h.touch(store.Touch{Fence: f, Extend: true})) },
		"complete": func() int { return len(h.complete(store.Complete{Fence: f, Result: "1"})) },
		"leave":    func() int { return len(h.leave(store.Leave{Fence: f, Verb: store.VerbRelease})) },
		"checkpoint": func() int {
			return len(h.checkpoint(store.Checkpoint{Fence: f, ID: "c", Type: "custom", Snapshot: "1"}))
		},
	} {
		h.exec("UPDATE leases SET lease_expires_at = " + h.schema + ".now() + 60000000")
		holder, err := h.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.exec("SELECT 1 FROM leases FOR UPDATE")
		answers := make(chan int, 1)
		go func() { answers <- verb() }()
		for h.one("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity "+
			"WHERE query LIKE '%' || current_schema || '%')") == "(0)" {
			time.Sleep(time.Millisecond)
		}
		other, err := pgx.Connect(t.Context(), server(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), "INSERT INTO "+h.schema+".ahead VALUES (61000000)"); err != nil {
			t.Fatal(err)
		}
		other.Close(t.Context())
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := <-answers; n != 0 {
			t.Errorf("%s was let in", name)
		}
	}
}
