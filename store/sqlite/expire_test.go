package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

func prefetch(c *store.Claim) { c.Claimants[0].Prefetch = true }

func TestALeaseIsOverAtItsEnd(t *testing.T) {
	h := newDatabase(t)
	id := h.solo()
	h.claim("w", 1)
	h.advance(time.Minute - time.Microsecond)
	if got := h.expire(10); len(got) != 0 {
		t.Errorf("a microsecond early: %v", got)
	}
	h.advance(time.Microsecond)
	got := h.expire(10)
	if len(got) != 1 || got[0].ItemID != id || got[0].State != "queued" || !got[0].Checkpoint || got[0].Fed || got[0].Namespace != "default" ||
		got[0].Type != "t" {
		t.Fatalf("expired %+v", got)
	}
	h.want("ready", h.table("SELECT rank, attempt, failures, spared, left_by, @name_of(worker), error FROM pawl.ready"),
		`0 1 1 0 expired w {"code":"lease_expired","message":"Lease expired - retry 1/3"}`)
	h.want("boundary", h.table("SELECT seq, attempt, type, snapshot FROM pawl.checkpoints"),
		`1 1 error_boundary {"error":"Lease expired - retry 1/3",`+
			`"failures":1,"max_attempts":3,"expired_lease":{"worker_id":"w","attempt":1,"acquired_at":"2030-01-02T03:04:05.678901Z",`+
			`"expires_at":"2030-01-02T03:05:05.678901Z","heartbeat_at":"2030-01-02T03:04:05.678901Z"}}`)
	h.want("event", h.table("SELECT event, from_state, to_state, task_to, attempt, @kind_of(actor), @name_of(actor), "+
		"data FROM pawl.event_rows "+
		"ORDER BY id DESC LIMIT 1"),
		`lease_expired leased queued - 1 system - {"worker_id":"w","lease_expires_at":"2030-01-02T03:05:05.678901Z",`+
			`"failures":1,"max_attempts":3,"spared":false}`)
	if got := h.expire(10); len(got) != 0 {
		t.Errorf("twice: %v", got)
	}
}

func TestExpirySpendsTheBudget(t *testing.T) {
	h := newDatabase(t)
	h.solo(func(n *store.NewItem) { n.MaxAttempts = 2 })
	for range 2 {
		c := h.claim("w", 1)[0]
		progress := 50
		h.touch(store.Touch{Fence: fence("w", c), Progress: &progress})
		h.advance(time.Hour)
		h.expire(10)
	}
	h.want("parked_items", h.table("SELECT @state_name(state), attempt, failures, left_by, @name_of(worker), "+
		"completed_at, since, progress, error FROM pawl.parked_items"),
		fmt.Sprintf(`failed 2 2 expired w %[1]d %[1]d 50 {"code":"lease_expired","message":"Max retries exceeded"}`, h.stamp()))
	h.want("task", h.table("SELECT state, version FROM pawl.task_rows"), "failed 1")
	h.want("last event", h.table("SELECT event, from_state, to_state, task_from, task_to FROM pawl.event_rows ORDER BY id DESC LIMIT 1"),
		"lease_expired in_progress failed open failed")
	h.want("boundaries", h.table("SELECT seq, json_extract(snapshot, '$.error') FROM pawl.checkpoints ORDER BY seq"),
		"1 Lease expired - retry 1/2\n2 Max retries exceeded")
}

func TestWhatWasPrefetchedAndNeverStartedIsSpared(t *testing.T) {
	h := newDatabase(t)
	h.solo(func(n *store.NewItem) { n.MaxAttempts = 2 })
	for want := 1; want <= 2; want++ {
		h.claim("w", 1, prefetch)
		h.advance(time.Minute)
		if got := h.expire(10); len(got) != 1 || got[0].State != "queued" || got[0].Checkpoint {
			t.Errorf("expired %+v", got)
		}
		h.want("ready", h.table("SELECT failures, spared, left_by, error FROM pawl.ready"), fmt.Sprintf("0 %d expired -", want))
	}
	h.want("event", h.table("SELECT json_extract(data, '$.spared'), json_extract(data, '$.failures') FROM pawl.event_rows "+
		"ORDER BY id DESC LIMIT 1"), "1 0")
	h.claim("w", 1, prefetch)
	h.advance(time.Minute)
	h.expire(10)
	h.want("spared often enough", h.table("SELECT failures, spared FROM pawl.ready"), "1 2")
}

func TestWhatWasPrefetchedAndStartedCounts(t *testing.T) {
	h := newDatabase(t)
	h.solo()
	c := h.claim("w", 1, prefetch)[0]
	h.touch(store.Touch{Fence: fence("w", c)})
	h.advance(time.Minute)
	h.expire(10)
	h.want("ready", h.table("SELECT failures, spared FROM pawl.ready"), "1 0")
}

func TestExpirySettlesAndBreaksDependents(t *testing.T) {
	h := newDatabase(t)
	ids := h.many(2, func(n *store.NewItem) { n.MaxAttempts, n.Feeds = 1, n.Position == 0 })
	h.create(nil, []store.NewItem{{ID: h.id("itm"), Namespace: "default", TaskID: h.id("tsk"), Type: "t", Kind: "work", MaxAttempts: 1,
		Input: "1", Needs: ids[:1], Actor: store.Actor{Type: "api"}}})
	h.claim("w", 2)
	h.advance(time.Minute)
	if got := h.expire(1); len(got) != 1 || got[0].ItemID != ids[0] || got[0].State != "failed" || !got[0].Fed {
		t.Errorf("expired %+v", got)
	}
	h.want("waiting", h.table("SELECT needs, broken FROM pawl.waiting"), "1 1")
	h.want("task", h.table("SELECT state, open, failed FROM pawl.task_counters"), "open 1 1")
	if got := h.expire(5, "itm_none"); len(got) != 0 {
		t.Errorf("narrowed: %v", got)
	}
	if got := h.expire(5, ids[1]); len(got) != 1 || got[0].Fed {
		t.Errorf("expired %+v", got)
	}
	h.want("task", h.table("SELECT state, version, open, failed, checkpoints FROM pawl.task_counters"), "failed 1 0 2 2")
	h.want("the task's events", h.table("SELECT event, from_state, to_state, @kind_of(actor) FROM pawl.event_rows WHERE item_id IS NULL "+
		"ORDER BY id"), "proposed - open api\nfailed open failed system")
}

func TestASlowMachineClockExpiresNothingEarly(t *testing.T) {
	h := newDatabase(t)
	h.solo()
	c := h.claim("w", 1)[0]
	h.advance(-10 * time.Minute)
	got := h.touch(store.Touch{Fence: fence("w", c), Extend: true})
	if len(got) != 1 || got[0].LeaseExpiresAt != c.LeaseExpiresAt {
		t.Errorf("time stands still, it does not go back: %+v", got)
	}
	if got := h.expire(10); len(got) != 0 {
		t.Errorf("expired %v", got)
	}
}
