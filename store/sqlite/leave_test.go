package sqlite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

func retryable(l *store.Leave) { l.Retryable = true }

func after(micros int64) func(*store.Leave) {
	return func(l *store.Leave) { l.Retryable, l.DelayMicros = true, &micros }
}

// places returns the tables that an item is in.
func (h *database) places(id string) string {
	h.Helper()
	var in []string
	for _, table := range []string{"ready", "scheduled", "waiting", "leases", "parked_items", "finished_items"} {
		if h.table("SELECT COUNT(*) FROM pawl."+table+" WHERE item_id = $1", id) != "0" {
			in = append(in, table)
		}
	}
	return strings.Join(in, " ")
}

func TestFailBacksOffUntilTheBudgetIsSpent(t *testing.T) {
	h := newDatabase(t)
	id := h.solo()
	c := h.claim("w", 1)[0]
	got := h.leave(fail("w", c, retryable))
	if len(got) != 1 || got[0].State != "scheduled" || got[0].RunAt != h.stamp()+minute || got[0].Failures != 1 || got[0].Settled {
		t.Fatalf("moved %+v", got)
	}
	h.want("scheduled", h.table("SELECT run_at - since, attempt, failures, max_attempts, left_by, @name_of(worker), "+
		"error FROM pawl.scheduled"),
		`60000000 1 1 3 failed w {"message":"no <good>"}`)
	if got := h.due(10); len(got) != 0 {
		t.Errorf("due too early: %v", got)
	}
	h.advance(time.Minute)
	if got := h.due(10); len(got) != 1 || got[0] != (store.DueItem{Namespace: "default", ItemID: id, Type: "t", Rank: 0}) {
		t.Errorf("due %v", got)
	}
	c = h.claim("w", 1)[0]
	if got := h.leave(fail("w", c, after(0))); got[0].State != "queued" || got[0].RunAt != 0 {
		t.Errorf("at once: %+v", got)
	}
	h.want("ready", h.table("SELECT rank, attempt, failures, left_by, started_at FROM pawl.ready"),
		fmt.Sprintf("2 2 2 failed %d", start.UnixMicro()))
	c = h.claim("w", 1)[0]
	stage := "at the end"
	h.touch(store.Touch{Fence: fence("w", c), Stage: &stage, Extend: true})
	if got := h.leave(fail("w", c, after(0))); got[0].State != "failed" || !got[0].Settled || got[0].Failures != 3 {
		t.Errorf("spent: %+v", got)
	}
	h.want("parked_items", h.table("SELECT @state_name(state), attempt, failures, left_by, @name_of(worker), "+
		"completed_at = since, stage, error FROM pawl.parked_items"),
		`failed 3 3 failed w 1 at the end {"message":"no <good>"}`)
	h.want("task", h.table("SELECT state, version, retry_count FROM pawl.task_rows"), "failed 1 3")
	h.want("boundaries", h.table("SELECT seq, attempt, type, snapshot FROM pawl.checkpoints ORDER BY seq"),
		`1 1 error_boundary {"error":{"message":"no <good>"},"failures":1,"max_attempts":3,"expired_lease":null}
2 2 error_boundary {"error":{"message":"no <good>"},"failures":2,"max_attempts":3,"expired_lease":null}
3 3 error_boundary {"error":{"message":"no <good>"},"failures":3,"max_attempts":3,"expired_lease":null}`)
	h.want("events", h.table("SELECT event, from_state, to_state, task_from, task_to, attempt, @kind_of(actor), @name_of(actor), data "+
		"FROM pawl.event_rows WHERE event IN ('failed', 'due') ORDER BY id"),
		`failed leased scheduled - - 1 worker w {"error":{"message":"no <good>"},`+
			`"failures":1,"max_attempts":3,"run_at":"2030-01-02T03:05:05.678901Z"}
due scheduled queued - - 1 system - -
failed leased queued - - 2 worker w {"error":{"message":"no <good>"},"failures":2,"max_attempts":3}
failed in_progress failed open failed 3 worker w {"error":{"message":"no <good>"},"failures":3,"max_attempts":3}`)
}

func TestBackoffDoublesUpToAnHour(t *testing.T) {
	h := newDatabase(t)
	h.solo(func(n *store.NewItem) { n.MaxAttempts = 1000 })
	for i, want := range []int64{60, 120, 240, 480, 960, 1920, 3600, 3600} {
		c := h.claim("w", 1)[0]
		got := h.leave(fail("w", c, retryable, func(l *store.Leave) { l.Jitter = 0.5 }))
		if wait := got[0].RunAt - h.stamp(); wait != want*second/2 {
			t.Errorf("failure %d waits %d, want %d", i+1, wait, want*second/2)
		}
		h.advance(time.Hour)
		h.due(1)
	}
}

func TestNotRetryableFailsAtOnce(t *testing.T) {
	h := newDatabase(t)
	h.solo()
	if got := h.leave(fail("w", h.claim("w", 1)[0])); got[0].State != "failed" || got[0].Failures != 1 {
		t.Errorf("moved %+v", got)
	}
}

func TestReleaseGivesBackUncounted(t *testing.T) {
	h := newDatabase(t)
	id := h.solo(func(n *store.NewItem) { n.Priority = 7 })
	claim := func() store.Claimed {
		return h.claim("w", 1, func(c *store.Claim) { c.Queues = []store.Queue{{Type: "t", Rank: -14}, {Type: "t", Rank: -13}} })[0]
	}
	h.leave(fail("w", claim(), after(0)))
	h.advance(time.Second)
	got := h.leave(store.Leave{Fence: fence("w", claim()), Verb: store.VerbRelease})
	if got[0].State != "queued" || got[0].Failures != 1 || got[0].Rank != -12 || got[0].Type != "t" {
		t.Errorf("moved %+v", got)
	}
	h.want("ready", h.table("SELECT rank, attempt, failures, left_by, @name_of(worker), "+
		"started_at, since - started_at, error FROM pawl.ready"),
		fmt.Sprintf(`-12 2 1 released w %d 1000000 {"message":"no <good>"}`, start.UnixMicro()))
	h.want("place", h.places(id), "ready")
	h.want("event", h.table("SELECT event, from_state, to_state, data FROM pawl.event_rows ORDER BY id DESC LIMIT 1"),
		"released leased queued -")
}

func TestSuspendWaitsForATimeOrASignal(t *testing.T) {
	h := newDatabase(t)
	timed, signalled, neither := h.solo(), h.solo(), h.solo()
	cs := h.claim("w", 3)
	until := h.stamp() + minute
	got := h.leave(
		store.Leave{Fence: fence("w", cs[0]), Verb: store.VerbSuspend, Until: &until},
		store.Leave{Fence: fence("w", cs[1]), Verb: store.VerbSuspend, Signal: "go", Key: "k"},
		store.Leave{Fence: fence("w", cs[2]), Verb: store.VerbSuspend})
	h.want("moved", fmt.Sprintf("%s %t %s %d", got[0].State, got[0].RunAt == until, got[1].State, got[1].RunAt), "waiting true waiting 0")
	h.want("waiting", h.table("SELECT until - since, signal, signal_key, needs, left_by, @name_of(worker), attempt FROM pawl.waiting "+
		"ORDER BY item_id"), "60000000 - - 0 suspended w 1\n- go k 0 suspended w 1\n- - - 0 suspended w 1")
	h.want("events", h.table("SELECT data FROM pawl.event_rows WHERE event = 'suspended' ORDER BY id"),
		`{"until":"2030-01-02T03:05:05.678901Z","signal":null,"key":null}
{"until":null,"signal":"go","key":"k"}
{"until":null,"signal":null,"key":null}`)
	if due := h.due(10); len(due) != 1 || due[0].ItemID != neither {
		t.Errorf("due %v", due)
	}
	h.advance(time.Minute)
	if due := h.due(10); len(due) != 1 || due[0].ItemID != timed {
		t.Errorf("due %v", due)
	}
	h.want("the signalled one waits on", h.places(signalled), "waiting")
	h.want("woken", h.table("SELECT rank, left_by, @name_of(worker) FROM pawl.ready WHERE item_id = $1", timed), "0 suspended w")
	h.want("event", h.table("SELECT event, from_state, to_state, attempt, @kind_of(actor) FROM pawl.event_rows ORDER BY id DESC LIMIT 1"),
		"ready waiting queued 1 system")
}

func TestTheLastItemSettlesTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		failed, dead, cancelled, completed int
		want                               string
	}{
		"all completed":        {completed: 3, want: "completed"},
		"one failed":           {completed: 2, failed: 1, want: "failed"},
		"all failed":           {failed: 2, want: "failed"},
		"some cancelled":       {completed: 1, cancelled: 2, want: "completed"},
		"failed beats all":     {completed: 1, failed: 1, dead: 1, cancelled: 1, want: "failed"},
		"one dead":             {completed: 2, dead: 1, want: "dead_lettered"},
		"dead and cancelled":   {completed: 1, dead: 1, cancelled: 1, want: "dead_lettered"},
		"failed and cancelled": {failed: 1, cancelled: 1, want: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDatabase(t)
			n := c.completed + c.failed
			h.many(n + c.dead + c.cancelled)
			cs := h.claim("w", n)
			// What other verbs did with the other items: only the counters matter here.
			h.do(func(ctx context.Context, tx store.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE pawl.task_counters SET open = $1, dead = $2, cancelled = $3", n, c.dead, c.cancelled)
				return err
			})
			h.advance(time.Second)
			var calls []store.Leave
			for _, x := range cs[:c.failed] {
				calls = append(calls, fail("w", x))
			}
			settled := false
			for _, m := range h.leave(calls...) {
				settled = settled || m.Settled
			}
			if settled != (c.completed == 0) {
				t.Errorf("settled by the failures: %v", settled)
			}
			for _, m := range h.complete("w", cs[c.failed:]...) {
				settled = settled || m.Settled
			}
			if !settled {
				t.Error("never settled")
			}
			completed := fmt.Sprint(h.stamp())
			h.want("counters", h.table("SELECT state, version, open, failed, dead, cancelled, completed_at, updated_at FROM pawl.task_counters"),
				fmt.Sprintf("%s 1 0 %d %d %d %s %s", c.want, c.failed, c.dead, c.cancelled, completed, completed))
			h.want("the task's events", h.events(""), fmt.Sprintf("proposed - open - - - api someone {\"of\":\"task\"}\n%[1]s open %[1]s - - - "+
				"system - -", c.want))
			h.want("the items' events leave the task alone", h.table("SELECT COUNT(*) FROM pawl.event_rows WHERE task_to IS NOT NULL"), "0")
		})
	}
}

func TestASubmittedItemMakesTheTaskSubmitted(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(2)
	cs := h.claim("w", 2)
	// One item has been submitted: these are the rows that the verb leaves.
	h.do(func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.leases WHERE item_id = $1", store.ItemID(ids[0])); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE pawl.task_counters SET open = 1"); err != nil {
			return err
		}
		_, err := tx.Exec(
			ctx,
			"INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, attempt, failures, max_attempts, "+
				"solo, acceptance, since) VALUES ($1, @queue($2, 't'), $3, 0, @state(submitted), 1, 0, 3, 0, 1, 1)",
			store.ItemID(ids[0]),
			"default",
			store.TaskID(cs[0].TaskID),
		)
		return err
	})
	h.complete("w", cs[1])
	h.want("task", h.table("SELECT state, version, completed_at FROM pawl.task_counters"), "submitted 1 -")
}

func TestSettlingAsDeadFreesTheInputHash(t *testing.T) {
	h := newDatabase(t)
	h.many(2)
	cs := h.claim("w", 1)
	h.do(func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE pawl.tasks SET dedupes = 1, input_hash = 'x'"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE pawl.task_counters SET open = 1, dead = 1")
		return err
	})
	h.complete("w", cs...)
	h.want("dedupes", h.table("SELECT dedupes FROM pawl.tasks"), "0")
}

func TestManyTasksSettleInTheOrderOfTheirIDs(t *testing.T) {
	h := newDatabase(t)
	for range 3 {
		h.many(2)
	}
	cs := h.claim("w", 6)
	if got := h.complete("w", cs[0], cs[2], cs[4], cs[5]); got[0].Settled || got[1].Settled || !got[2].Settled || !got[3].Settled {
		t.Errorf("moved %+v", got)
	}
	h.complete("w", cs[1], cs[3])
	h.want("end events", h.table("SELECT @task_text(task_id) FROM pawl.event_rows WHERE event = 'completed' AND item_id IS NULL ORDER BY id"),
		cs[4].TaskID+"\n"+cs[0].TaskID+"\n"+cs[2].TaskID)
}

func TestDependentsAreFedAndBroken(t *testing.T) {
	h := newDatabase(t)
	later := h.stamp() + minute
	task := h.id("tsk")
	var ids []string
	for range 4 {
		ids = append(ids, h.id("itm"))
	}
	item := func(i int, needs ...string) store.NewItem {
		return store.NewItem{ID: ids[i], Namespace: "default", TaskID: task, Type: "t", Kind: "work", Position: i, MaxAttempts: 1, Input: "1",
			Needs: needs, Feeds: i < 2, Actor: store.Actor{Type: "api"}}
	}
	timed := item(3, ids[0])
	timed.RunAt = &later
	payload := "1"
	h.create([]store.NewTask{{ID: task, Namespace: "default", Type: "t", Payload: &payload, Metadata: "{}", Items: 4,
		Actor: store.Actor{Type: "api"}, Data: "{}"}},
		[]store.NewItem{item(0), item(1), item(2, ids[0], ids[1]), timed})
	h.want("waiting", h.table("SELECT needs, broken FROM pawl.waiting ORDER BY item_id"), "2 0\n1 0")
	h.want("events", h.table("SELECT event, item_id IS NULL, to_state, task_to, attempt FROM pawl.event_rows ORDER BY id"),
		"proposed 1 open - -\nplanned 0 queued - -\nplanned 0 queued - -\nplanned 0 waiting - -\nplanned 0 waiting - -")
	cs := h.claim("w", 9)
	if got := h.complete("w", cs[0]); !got[0].Fed {
		t.Errorf("moved %+v", got)
	}
	if due := h.due(10); len(due) != 0 {
		t.Errorf("the one still needs another, the other its time: %v", due)
	}
	h.advance(30 * time.Second)
	if got := h.leave(fail("w", cs[1])); got[0].State != "failed" || !got[0].Fed {
		t.Errorf("moved %+v", got)
	}
	h.want("waiting", h.table("SELECT needs, broken FROM pawl.waiting ORDER BY item_id"), "1 1\n0 0")
	h.advance(30 * time.Second)
	if due := h.due(10); len(due) != 1 || due[0].ItemID != ids[3] {
		t.Errorf("due %v", due)
	}
	h.want("task", h.table("SELECT state, open, failed FROM pawl.task_counters"), "open 2 1")
}

func TestDueIsBoundedAndCanBeNarrowed(t *testing.T) {
	h := newDatabase(t)
	at := h.stamp() + second
	var ids []string
	for range 5 {
		ids = append(ids, h.solo(func(n *store.NewItem) { n.RunAt = &at }))
	}
	h.want("events", h.table("SELECT DISTINCT event, to_state, task_to FROM pawl.event_rows"), "proposed scheduled open")
	h.advance(time.Second)
	if got := h.due(10, ids[3], "itm_none"); len(got) != 1 || got[0].ItemID != ids[3] {
		t.Errorf("narrowed: %v", got)
	}
	if got := h.due(3); len(got) != 3 {
		t.Errorf("bounded: %v", got)
	}
	if got := h.due(3); len(got) != 1 {
		t.Errorf("the rest: %v", got)
	}
	h.want("ready", h.table("SELECT COUNT(*), MIN(rank), MIN(since) FROM pawl.ready"), fmt.Sprint("5 0 ", h.stamp()))
}
