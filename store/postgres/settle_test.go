package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

func done(ord int, item string) store.Complete {
	return store.Complete{Ord: ord, Fence: fence(item, "w", 1), Result: `{"r":1}`}
}

func fail(item string, attempt int, retryable bool, delay int64) store.Leave {
	return store.Leave{Fence: fence(item, "w", attempt), Verb: store.VerbFail,
		Error:     `{"code":"c","message":"m","detail":12345678901234567890}`,
		Retryable: retryable, DelayMicros: &delay, Jitter: 1, CheckpointID: fmt.Sprintf("ckp_%d", schemas.Add(1))}
}

func TestCompleteSolo(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	h.solo(2, func(i *store.NewItem) { i.Acceptance = true })
	h.claim("w", 2, nil)
	stage := "s"
	h.touch(store.Touch{Fence: fence(wide("itm_000001"), "w", 1), Stage: &stage})
	got := h.complete(done(3, wide("itm_000001")), done(4, wide("itm_000002")))
	if len(got) != 1 || got[0].Ord != 3 || !got[0].Settled || got[0].Fed || got[0].State != "completed" || got[0].Type != "a" ||
		got[0].Now == 0 {
		t.Errorf("%+v", got)
	}
	h.want("(completed,in_progress,completed,open,completed,worker,w,1)", itemEvents+" OFFSET 4", wide("itm_000001"))
	h.want(`(8,1,w,s,"{""r"":1}",1)`, "SELECT state, attempt, (SELECT name FROM actors WHERE id = worker), "+
		"stage, result, (ended_at = $1)::int FROM finished_items", got[0].Now)
	h.want("(itm_000002)", "SELECT item_id FROM leases")
	h.want("", live, wide("tsk_000001"))
	h.want("(completed,1)", "SELECT state, version FROM task_rows WHERE id = 'tsk_000001'")
	if again := h.complete(done(3, wide("itm_000001"))); len(again) != 0 {
		t.Errorf("completed twice: %v", again)
	}
}

func TestLastOfManySettles(t *testing.T) {
	h := newDatabase(t)
	a, b := h.many(1, 3, nil), h.many(2, 2, nil)
	h.claim("w", 9, nil)
	if got := h.complete(done(0, a[0].ID), done(1, a[1].ID), done(2, b[0].ID)); len(got) != 3 || got[0].Settled || got[1].Settled ||
		got[2].Settled {
		t.Errorf("%+v", got)
	}
	h.want("(open,0,3,1,0,0,f)", live, wide("tsk_000001"))
	got := h.complete(done(0, a[2].ID), done(1, b[0].ID), done(2, b[1].ID))
	if len(got) != 2 || !got[0].Settled || !got[1].Settled || got[1].Ord != 2 {
		t.Errorf("%+v", got)
	}
	h.want("(completed,1,3,0,0,0,t)", live, wide("tsk_000001"))
	h.want("(proposed,,open,api) (completed,open,completed,system)", taskEvents, wide("tsk_000001"))
	h.want("(proposed,,open,api) (completed,open,completed,system)", taskEvents, wide("tsk_000002"))
	h.want("(completed,leased,completed,,,worker,w,1)", itemEvents+" OFFSET 2", b[1].ID)
	h.want("(t)", "SELECT bool_and(completed_at = updated_at) FROM task_counters")
}

func TestCompletionFeedsWhatWaits(t *testing.T) {
	h := newDatabase(t)
	task, items := many(1, 4)
	items[0].Feeds, items[1].Feeds = true, true
	items[2].Needs = []string{items[0].ID, items[1].ID}
	items[3].Needs = []string{items[1].ID}
	h.create([]store.NewTask{task}, items)
	h.claim("w", 9, nil)
	got := h.complete(done(0, items[0].ID), done(1, items[1].ID))
	if len(got) != 2 || !got[0].Fed || got[0].Settled {
		t.Errorf("%+v", got)
	}
	h.want("(itm_000001_000002,0) (itm_000001_000003,0)", "SELECT item_id, needs FROM waiting ORDER BY item_id")
	if due := h.due(1, nil); len(due) != 1 || due[0].ItemID != items[2].ID || due[0].Rank != 0 || due[0].Type != "a" {
		t.Errorf("%+v", due)
	}
	if due := h.due(9, []string{}); len(due) != 0 {
		t.Errorf("%+v", due)
	}
	h.due(9, []string{items[3].ID})
	h.want("(ready,waiting,queued,,,system,,)", itemEvents+" OFFSET 1", items[3].ID)
	h.want("(0,t) (0,t)", "SELECT rank, since IS NOT NULL FROM ready")
}

func TestFailureRetriesThenRests(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, func(i *store.NewItem) { i.MaxAttempts = 3; i.Priority = 0 })
	h.claim("w", 1, nil)
	got := h.leave(fail(wide("itm_000001"), 1, true, 0))
	if len(got) != 1 || got[0].State != "queued" || got[0].Failures != 1 || got[0].Settled || got[0].RunAt != 0 {
		t.Errorf("%+v", got)
	}
	h.want("(0,1,1,failed,w)", "SELECT rank, attempt, failures, left_by, (SELECT name FROM actors WHERE id = worker) FROM ready")
	h.claim("w", 1, nil)
	got = h.leave(fail(wide("itm_000001"), 2, true, 5_000_000))
	if got[0].State != "scheduled" || got[0].RunAt != got[0].Now+5e6 {
		t.Errorf("%+v", got)
	}
	h.want(`("{""code"":""c"",""message"":""m"",""detail"":12345678901234567890}",2,3,t)`,
		`SELECT data::json->'error', data::json->>'failures', data::json->>'max_attempts', (data::json->>'run_at')::timestamptz =
			(SELECT stamp(run_at) FROM scheduled) FROM event_rows WHERE to_state = 'scheduled'`)
	if due := h.due(1, nil); len(due) != 0 {
		t.Errorf("early: %v", due)
	}
	h.advance(5 * time.Second)
	if due := h.due(1, nil); len(due) != 1 {
		t.Errorf("late: %v", due)
	}
	h.want("(due,scheduled,queued,,,system,,2)", "SELECT * FROM ("+itemEvents+") e WHERE event = 'due'", wide("itm_000001"))
	h.claim("w", 1, nil)
	got = h.leave(fail(wide("itm_000001"), 3, true, 0))
	if got[0].State != "failed" || !got[0].Settled || got[0].Failures != 3 {
		t.Errorf("%+v", got)
	}
	h.want(
		"(10,3,3,failed,t,t)",
		"SELECT state, attempt, failures, left_by, since = completed_at, completed_at IS NOT NULL FROM parked_items",
	)
	h.want("(failed,leased,failed,open,failed,worker,w,3)", "SELECT * FROM ("+itemEvents+") e WHERE to_state = 'failed'", wide("itm_000001"))
	h.want("(1,1,error_boundary,f) (2,2,error_boundary,f) (3,3,error_boundary,f)",
		"SELECT seq, attempt, type, snapshot::jsonb->'expired_lease' <> 'null' FROM checkpoints ORDER BY seq")
	h.want("(open,0,1,1,0,3,f)", live, wide("tsk_000001"))
	h.want("(failed,1)", "SELECT state, version FROM task_rows")
}

func TestBackOffDoubles(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, func(i *store.NewItem) { i.MaxAttempts = 1000 })
	for n, seconds := range map[int]int64{0: 30, 3: 240, 60: 1800} {
		h.exec("UPDATE ready SET failures = $1", n)
		c := h.claim("w", 1, nil)[0]
		call := fail(c.ItemID, c.Attempt, true, 0)
		call.DelayMicros, call.Jitter = nil, 0.5
		if got := h.leave(call); got[0].RunAt-got[0].Now != seconds*1e6 {
			t.Errorf("after %d failures: %d µs", n+1, got[0].RunAt-got[0].Now)
		}
		h.exec("UPDATE scheduled SET run_at = 0")
		h.due(1, nil)
	}
}

func TestMixedLeave(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(1, 6, nil)
	h.claim("w", 9, nil)
	h.touch(store.Touch{Fence: fence(ids[4].ID, "w", 1), Extend: true})
	until := int64(4_000_000_000_000_000)
	calls := []store.Leave{
		fail(ids[0].ID, 1, false, 0), fail(ids[1].ID, 1, true, 0),
		{Fence: fence(ids[2].ID, "w", 1), Verb: store.VerbRelease},
		{Fence: fence("itm_none", "w", 1), Verb: store.VerbRelease},
		{Fence: fence(ids[3].ID, "w", 1), Verb: store.VerbSuspend, Until: &until, Signal: "s", Key: "k"},
		{Fence: fence(ids[4].ID, "w", 1), Verb: store.VerbSuspend, Signal: "t"},
		fail(ids[5].ID, 1, false, 0),
	}
	for i := range calls {
		calls[i].Ord = i
	}
	var brief string
	for _, m := range h.leave(calls...) {
		brief += fmt.Sprint(m.Ord, m.State, m.Failures, m.RunAt, m.Settled, " ")
	}
	if brief != "0failed1 0 false 1queued1 0 false 2queued0 0 false 4waiting0 4000000000000000 false 5waiting0 0 false 6failed1 0 false " {
		t.Error(brief)
	}
	h.want("(open,0,6,4,2,3,f)", live, wide("tsk_000001"))
	h.want("(1,itm_000001_000000) (2,itm_000001_000001) (3,itm_000001_000005)", "SELECT seq, item_id FROM checkpoints ORDER BY seq")
	h.want("(released,leased,queued,,,worker,w,1)", itemEvents+" OFFSET 2", ids[2].ID)
	h.want("(suspended,in_progress,waiting,,,worker,w,1)", itemEvents+" OFFSET 3", ids[4].ID)
	h.want(`("{""until"" : ""2096-10-02T07:06:40.000000Z"", ""signal"" : ""s"", ""key"" : ""k""}")`,
		"SELECT data FROM event_rows WHERE event = 'suspended' AND item_id = $1", store.ItemID(ids[3].ID))
	h.want("(4000000000000000,s,k,suspended,w) (,t,,suspended,w)",
		"SELECT until, signal, signal_key, left_by, (SELECT name FROM actors WHERE id = worker) FROM waiting ORDER BY item_id")

	h.exec("UPDATE waiting SET until = 1 WHERE item_id = $1", store.ItemID(ids[3].ID))
	if due := h.due(9, nil); len(due) != 1 || due[0].ItemID != ids[3].ID {
		t.Errorf("%v", due)
	}
	for _, c := range h.claim("w", 9, nil) {
		h.complete(store.Complete{Fence: fence(c.ItemID, "w", 2), Result: "1"})
	}
	h.want("(open,0,6,1,2,3,f)", live, wide("tsk_000001"))
	h.exec("UPDATE waiting SET signal = NULL")
	h.due(1, nil)
	h.claim("w", 1, nil)
	if got := h.leave(store.Leave{Fence: fence(ids[4].ID, "w", 2), Verb: store.VerbRelease}); got[0].Settled {
		t.Error("a release settles nothing")
	}
	h.claim("w", 1, nil)
	if got := h.complete(store.Complete{Fence: fence(ids[4].ID, "w", 3), Result: "1"}); !got[0].Settled {
		t.Error("the last completion settles")
	}
	h.want("(failed,1,6,0,2,3,t)", live, wide("tsk_000001"))
	h.want("(proposed,,open,api) (failed,open,failed,system)", taskEvents, wide("tsk_000001"))
}

func TestBrokenDependents(t *testing.T) {
	h := newDatabase(t)
	task, items := many(1, 3)
	items[0].Feeds, items[1].Feeds = true, true
	items[2].Needs = []string{items[0].ID, items[1].ID}
	h.create([]store.NewTask{task}, items)
	h.claim("w", 9, nil)
	if got := h.leave(fail(items[0].ID, 1, false, 0), fail(items[1].ID, 1, true, 0)); !got[0].Fed || got[1].Fed {
		t.Errorf("%+v", got)
	}
	h.want("(2,1)", "SELECT needs, broken FROM waiting")
}

func TestExpire(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(1, 3, func(i *store.NewItem) { i.MaxAttempts = 1 + i.Position })
	h.solo(2, func(i *store.NewItem) { i.MaxAttempts = 1 })
	h.solo(3, nil)
	h.claim("w", 9, func(c *store.Claim) {
		c.Picks = []store.Pick{{Type: "a", Rank: 1, ItemID: wide("itm_000003")}}
		c.Claimants[0].Prefetch = true
	})
	h.claim("w", 9, nil)
	h.touch(store.Touch{Fence: fence(ids[1].ID, "w", 1), Extend: true, LeaseSeconds: 3600})
	h.touch(store.Touch{Fence: fence(ids[2].ID, "w", 1)})
	if got := h.expire(9, nil); len(got) != 0 {
		t.Errorf("early: %v", got)
	}
	h.advance(31 * time.Second)
	if got := h.expire(9, []string{"itm_none"}); len(got) != 0 {
		t.Errorf("not those: %v", got)
	}
	var brief string
	for _, e := range append(h.expire(2, nil), h.expire(9, nil)...) {
		brief += fmt.Sprint(e.ItemID, " ", e.State, e.Checkpoint, " ")
	}
	brief = narrow(brief)
	if brief != "itm_000001_000000 failedtrue itm_000001_000002 queuedtrue itm_000002 failedtrue itm_000003 queuedfalse " {
		t.Error(brief)
	}
	h.want(`(1,"{""code"" : ""lease_expired"", ""message"" : ""Lease expired - retry 1/3""}",expired,0) (0,,expired,1)`,
		"SELECT failures, error, left_by, spared FROM ready ORDER BY item_id")
	h.want(`(1,"{""code"" : ""lease_expired"", ""message"" : ""Max retries exceeded""}",expired,t) `+
		`(1,"{""code"" : ""lease_expired"", ""message"" : ""Max retries exceeded""}",expired,t)`,
		"SELECT failures, error, left_by, completed_at = since FROM parked_items ORDER BY item_id")
	h.want("(open,0,3,2,1,2,f)", live, wide("tsk_000001"))
	h.want("(open,0,1,1,0,1,f)", live, wide("tsk_000002"))
	h.want("", live, wide("tsk_000003"))
	h.want("(lease_expired,leased,failed,open,failed,system,,1)", itemEvents+" OFFSET 2", wide("itm_000002"))
	h.want("(lease_expired,in_progress,queued,,,system,,1)", itemEvents+" OFFSET 3", ids[2].ID)
	h.want("(w,1,3,false,t)",
		`SELECT d->>'worker_id', d->>'failures', d->>'max_attempts', d->>'spared', d->>'lease_expires_at' LIKE '20__-__-__T__:__:__.______Z'
		FROM (SELECT data::json d FROM event_rows WHERE event = 'lease_expired' AND item_id = $1) e`, ids[2].ID)
	h.want(`("Lease expired - retry 1/3",1,3,w,1,t)`,
		`SELECT s->>'error', s->>'failures', s->>'max_attempts', s->'expired_lease'->>'worker_id', s->'expired_lease'->>'attempt',
		(s->'expired_lease'->>'acquired_at')::timestamptz + interval '30s' = (s->'expired_lease'->>'expires_at')::timestamptz FROM
			(SELECT snapshot::json s FROM checkpoints WHERE item_id = $1) c`, ids[2].ID)
}

// TestLastTwoAtOnce completes the last two items of a task at the same time. A query for
// open items would lose this race.
func TestLastTwoAtOnce(t *testing.T) {
	const rounds = 500
	h := newDatabase(t)
	for n := range rounds {
		h.many(n, 2, nil)
	}
	h.claim("w", 2*rounds, nil)
	settled := make([]int, rounds)
	var mu sync.Mutex
	var all sync.WaitGroup
	for side := range 2 {
		all.Go(func() {
			for n := range rounds {
				item := wide(fmt.Sprintf("itm_%06d_%06d", n, side))
				err := h.db.Auto(t.Context(), func(ctx context.Context, tx store.Tx) error {
					got, err := h.db.Dialect().Hot.Complete(ctx, tx, []store.Complete{done(0, item)})
					if err == nil && len(got) == 1 && got[0].Settled {
						mu.Lock()
						settled[n]++
						mu.Unlock()
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n, times := range settled {
		if times != 1 {
			t.Errorf("task %d settled %d times", n, times)
		}
	}
	h.want("(500,500,500)", "SELECT count(*) FILTER (WHERE open = 0), count(*) FILTER (WHERE state = 'completed' AND version = 1), "+
		"(SELECT count(*) FROM event_rows WHERE item_id IS NULL AND to_state = 'completed') FROM task_counters")
}

// TestCrossedBatches has three goroutines complete and fail the items of the same forty
// tasks in batches, while a fourth keeps every lease alive.
func TestCrossedBatches(t *testing.T) {
	const tasks, items = 40, 20
	h := newDatabase(t)
	for n := range tasks {
		h.many(n, items, func(i *store.NewItem) { i.MaxAttempts = 1 })
	}
	h.claim("w", tasks*items, nil)
	item := func(k int) string { return wide(fmt.Sprintf("itm_%06d_%06d", k/items, k%items)) }
	auto := func(fn func(ctx context.Context, tx store.Tx, hot store.Hot) error) {
		if err := h.db.Auto(t.Context(), func(ctx context.Context, tx store.Tx) error { return fn(ctx, tx, h.db.Dialect().Hot) }); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for side := range 4 {
		all.Go(func() {
			for from := 0; from < tasks*items; from += 160 {
				auto(func(ctx context.Context, tx store.Tx, hot store.Hot) error {
					var completes []store.Complete
					var fails []store.Leave
					var beats []store.Touch
					for k := from; k < from+160; k++ {
						switch {
						case side == 3:
							beats = append(beats, store.Touch{Fence: fence(item(k), "w", 1), Extend: true})
						case k%3 != side:
						case k/items%2 == 0 || side > 0:
							completes = append(completes, done(0, item(k)))
						default:
							fails = append(fails, fail(item(k), 1, true, 0))
						}
					}
					if _, err := hot.Touch(ctx, tx, beats); err != nil {
						return err
					}
					if _, err := hot.Complete(ctx, tx, completes); err != nil {
						return err
					}
					_, err := hot.Leave(ctx, tx, fails)
					return err
				})
			}
		})
	}
	all.Wait()
	h.want("(40,0,20,20,0,40)", `SELECT count(*), sum(open), count(*) FILTER (WHERE state = 'failed'), count(*)
		FILTER (WHERE state = 'completed'), sum(abs(failed - (SELECT count(*) FROM parked_items r WHERE r.task_id = k.task_id))),
		(SELECT count(*) FROM event_rows WHERE item_id IS NULL AND from_state = 'open') FROM task_counters k`)
	h.want("(0)", "SELECT count(*) FROM leases")
	h.want("(t)", "SELECT bool_and(checkpoints = (SELECT count(*) FROM checkpoints c WHERE c.task_id = k.task_id) AND checkpoints = "+
		"(SELECT COALESCE(max(seq), 0) FROM checkpoints c WHERE c.task_id = k.task_id)) FROM task_counters k")
}

// A task that is no longer open, whatever its counters are, gets no state from an item
// that leaves its lease.
func TestOnlyAnOpenTaskSettles(t *testing.T) {
	h := newDatabase(t)
	var ids []string
	for i := range 3 {
		ids = append(ids, h.many(i+1, 1, func(n *store.NewItem) { n.MaxAttempts = 1 })[0].ID)
	}
	h.claim("w", 9, nil)
	h.exec("UPDATE task_counters SET state = 'cancelled', version = 1, updated_at = 7, completed_at = 7")
	h.complete(done(0, ids[0]))
	h.leave(fail(ids[1], 1, false, 0))
	h.advance(24 * time.Hour)
	h.expire(9, nil)
	h.want("(0)", "SELECT count(*) FROM leases")
	h.want("(cancelled,1,0,7,7) (cancelled,1,0,7,7) (cancelled,1,0,7,7)",
		"SELECT state, version, open, updated_at, completed_at FROM task_counters ORDER BY task_id")
	h.want("(0)", "SELECT count(*) FROM event_rows WHERE item_id IS NULL AND event <> 'proposed'")
}
