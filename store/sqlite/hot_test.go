package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// refused runs a worker's verbs with a fence that does not hold, and checks that none of
// them changes anything.
func (h *database) refused(what string, f store.Fence) {
	h.Helper()
	before := h.everything()
	n := len(h.touch(store.Touch{Fence: f, Extend: true})) +
		len(h.checkpoint(store.Checkpoint{Fence: f, Type: "manual_checkpoint"})) +
		len(h.leave(store.Leave{Fence: f, Verb: store.VerbFail, Error: `{"message":"x"}`}, store.Leave{Fence: f, Verb: store.VerbRelease},
			store.Leave{Fence: f, Verb: store.VerbSuspend}))
	h.do(func(ctx context.Context, tx store.Tx) error {
		moved, err := h.Dialect().Hot.Complete(ctx, tx, []store.Complete{{Fence: f, Result: "1"}})
		n += len(moved)
		return err
	})
	if n != 0 {
		h.Errorf("%s: %d verbs were let through", what, n)
	}
	h.want(what+": what is left", h.everything(), before)
}

// everything returns counts and sums of all that the verbs write.
func (h *database) everything() string {
	h.Helper()
	return h.table(`SELECT (SELECT COUNT(*) FROM pawl.event_rows), (SELECT COUNT(*) FROM pawl.checkpoints), (SELECT COUNT(*)
		FROM pawl.ready), (SELECT COUNT(*) FROM pawl.scheduled),
		(SELECT COUNT(*) FROM pawl.waiting), (SELECT COUNT(*) FROM pawl.parked_items),
		(SELECT COUNT(*) FROM pawl.finished_items), (SELECT COUNT(*)
			FROM pawl.leases),
		(SELECT group_concat(lease_expires_at || state || heartbeat_at) FROM pawl.leases),
			(SELECT group_concat(open || state || checkpoints) FROM pawl.task_counters)`)
}

func TestTheFence(t *testing.T) {
	h := newDatabase(t)
	h.solo()
	c := h.claim("w1", 1)[0]
	good := fence("w1", c)
	for what, change := range map[string]func(*store.Fence){
		"another worker":    func(f *store.Fence) { f.WorkerID = "w2" },
		"an older attempt":  func(f *store.Fence) { f.Attempt-- },
		"a later attempt":   func(f *store.Fence) { f.Attempt++ },
		"another namespace": func(f *store.Fence) { f.Namespace = "other" },
		"an unknown item":   func(f *store.Fence) { f.ItemID = "itm_none" },
	} {
		bad := good
		change(&bad)
		h.refused(what, bad)
	}
	h.advance(time.Minute - time.Microsecond)
	if got := h.touch(store.Touch{Fence: good}); len(got) != 1 {
		t.Error("refused a microsecond before the end")
	}
	h.advance(time.Microsecond)
	h.refused("at the end", good)
	h.expire(10)
	h.refused("swept", good)
	again := h.claim("w1", 1)[0]
	h.refused("claimed again by the same worker", good)
	h.leave(store.Leave{Fence: fence("w1", again), Verb: store.VerbRelease})
	h.refused("released", fence("w1", again))
}

func TestClaimOrder(t *testing.T) {
	h := newDatabase(t)
	at := func(kind string, priority int) string {
		return h.solo(func(n *store.NewItem) { n.Type, n.Priority = kind, priority })
	}
	low, first, second, third, high := at("a", -1), at("a", 0), at("b", 0), at("a", 0), at("b", 5)
	groups := func(c *store.Claim) {
		c.Queues = []store.Queue{{Type: "b", Rank: -10}, {Type: "b", Rank: -9}, {Type: "a", Rank: 0}, {Type: "b", Rank: 0}, {Type: "a", Rank: 1},
			{Type: "b", Rank: 1}, {Type: "a", Rank: 2}, {Type: "a", Rank: 3}}
	}
	ids := func(cs []store.Claimed) (out []string) {
		for _, c := range cs {
			out = append(out, c.ItemID)
		}
		return out
	}
	back := h.claim("w", 1, groups, func(c *store.Claim) { c.Queues = c.Queues[4:] })
	if !slices.Equal(ids(back), []string{first}) {
		t.Fatalf("claimed %v", ids(back))
	}
	h.leave(store.Leave{Fence: fence("w", back[0]), Verb: store.VerbRelease})
	if got := h.claim("w", 2, groups); !slices.Equal(ids(got), []string{high, first}) || got[0].Priority != 5 || got[1].Attempt != 2 ||
		got[1].Rank != 0 {
		t.Errorf("claimed %+v", got)
	}
	if got := h.claim("w", 1, func(c *store.Claim) { c.Queues = []store.Queue{{Type: "a", Rank: 1, Head: third}} }); !slices.Equal(ids(got),
		[]string{third}) {
		t.Errorf("from a head: %v", ids(got))
	}
	if got := h.claim("w", 9, groups); !slices.Equal(ids(got), []string{second, low}) || got[1].Priority != -1 {
		t.Errorf("the rest: %+v", got)
	}
	if got := h.claim("w", 9, groups); len(got) != 0 {
		t.Errorf("nothing is left: %v", ids(got))
	}
}

func TestClaimMergesTypesUpToTheLimit(t *testing.T) {
	h := newDatabase(t)
	var want []string
	for i := range 6 {
		want = append(want, h.solo(func(n *store.NewItem) { n.Type = []string{"a", "b", "c"}[i%3] }))
	}
	for _, part := range [][]string{want[:4], want[4:]} {
		got := h.claim("w", 4, func(c *store.Claim) {
			c.Queues = []store.Queue{{Type: "c", Rank: 1}, {Type: "a", Rank: 1}, {Type: "b", Rank: 1}}
		})
		for i, c := range got {
			if c.ItemID != part[i] {
				t.Errorf("place %d: %s, want %s", i, c.ItemID, part[i])
			}
		}
		if len(got) != len(part) {
			t.Errorf("%d claimed, want %d", len(got), len(part))
		}
	}
	h.want("events in the order of claims", h.table("SELECT @item_text(item_id) FROM pawl.event_rows WHERE event = 'leased' ORDER BY id"),
		fmt.Sprintf("%s\n%s\n%s\n%s\n%s\n%s", want[0], want[1], want[2], want[3], want[4], want[5]))
}

func TestAClaimIsDealtOutInOrder(t *testing.T) {
	h := newDatabase(t)
	var ids []string
	for range 5 {
		ids = append(ids, h.solo())
	}
	got := h.claim("", 0, func(c *store.Claim) {
		c.Claimants = []store.Claimant{{WorkerID: "a", Limit: 2, LeaseSeconds: 10}, {WorkerID: "none"},
			{WorkerID: "b", Limit: 1, LeaseSeconds: 20, Prefetch: true}, {WorkerID: "c", Limit: 9, LeaseSeconds: 30}}
	})
	var dealt []string
	for i, c := range got {
		dealt = append(dealt, fmt.Sprintf("%d:%t:%d", c.Claimant, c.ItemID == ids[i], c.LeaseSeconds))
	}
	h.want("dealt", strings.Join(dealt, " "), "0:true:10 0:true:10 2:true:20 3:true:30 3:true:30")
	h.want("leases", h.table("SELECT @name_of(worker), lease_seconds, prefetch FROM pawl.leases ORDER BY item_id"),
		"a 10 0\na 10 0\nb 20 1\nc 30 0\nc 30 0")
	h.want("events", h.table("SELECT @name_of(actor) FROM pawl.event_rows WHERE event = 'leased' ORDER BY id"), "a\na\nb\nc\nc")
	if got := h.claim("w", 0); len(got) != 0 {
		t.Errorf("nothing asked, got %v", got)
	}
}

func TestClaimByPick(t *testing.T) {
	h := newDatabase(t)
	a, b := h.solo(), h.solo()
	picks := func(namespace string) func(*store.Claim) {
		return func(c *store.Claim) {
			c.Namespace, c.Claimants[0].Prefetch, c.Queues = namespace, true, nil
			c.Picks = []store.Pick{{Type: "t", Rank: 1, ItemID: b}, {Type: "t", Rank: 0, ItemID: a}, {Type: "t", Rank: 1, ItemID: "itm_none"}}
			c.Claimants[0].Actor = store.Actor{Type: "user", ID: "anna"}
		}
	}
	if got := h.claim("w", 5, picks("other")); len(got) != 0 {
		t.Errorf("across the wall: %v", got)
	}
	if got := h.claim("w", 0, picks("default")); len(got) != 0 {
		t.Errorf("nothing asked, got %v", got)
	}
	if got := h.claim("w", 1, picks("default")); len(got) != 1 || got[0].ItemID != b {
		t.Errorf("picked %v", got)
	}
	h.want("lease", h.table("SELECT prefetch, @name_of(worker) FROM pawl.leases"), "1 w")
	h.want("event", h.table("SELECT @kind_of(actor), @name_of(actor) FROM pawl.event_rows WHERE event = 'leased'"), "user anna")
}

func TestTouchExtendsAndReports(t *testing.T) {
	h := newDatabase(t)
	id := h.solo()
	c := h.claim("w", 1)[0]
	progress := func(n int) *int { return &n }
	stage := func(s string) *string { return &s }
	h.advance(10 * time.Second)
	got := h.touch(store.Touch{Fence: fence("w", c), Progress: progress(20)})
	if len(got) != 1 || got[0].LeaseExpiresAt != c.LeaseExpiresAt || got[0].State != "in_progress" {
		t.Errorf("progress alone extends nothing: %+v", got)
	}
	h.want("lease", h.table("SELECT @state_name(state), progress, stage, heartbeat_at = acquired_at, progressed_at - acquired_at "+
		"FROM pawl.leases"),
		"in_progress 20 - 1 10000000")
	h.touch(store.Touch{Fence: fence("w", c), Stage: stage("reading")})
	h.touch(store.Touch{Fence: fence("w", c), Stage: stage("reading"), Progress: progress(30)})
	h.touch(store.Touch{Fence: fence("w", c), Stage: stage("writing"), Progress: progress(40), Extend: true, LeaseSeconds: 5})
	h.want("lease", h.table("SELECT progress, stage, lease_seconds, lease_expires_at - acquired_at, heartbeat_at - acquired_at "+
		"FROM pawl.leases"), "40 writing 60 15000000 10000000")
	h.want("events", h.events(id), `proposed - queued - open - api someone {"of":"task"}
leased queued leased - - 1 worker w -
in_progress leased in_progress - - 1 worker w -
progressed - - - - 1 worker w {"stage":"reading","progress":20}
progressed - - - - 1 worker w {"stage":"writing","progress":40}`)
	got = h.touch(store.Touch{Fence: fence("w", c), Extend: true})
	if got[0].LeaseSeconds != 60 || got[0].LeaseExpiresAt != h.stamp()+60*second {
		t.Errorf("the claim's length: %+v", got)
	}
	h.complete("w", c)
	h.want("the stage stays readable", h.table("SELECT stage FROM pawl.finished_items"), "writing")
}

func TestTouchAloneIsASignOfLife(t *testing.T) {
	h := newDatabase(t)
	h.solo()
	c := h.claim("w", 1)[0]
	h.touch(store.Touch{Fence: fence("w", c)})
	h.want("lease", h.table("SELECT @state_name(state), heartbeat_at = acquired_at FROM pawl.leases"), "in_progress 1")
}

// numbers returns ordinal:number of each checkpoint.
func numbers(saved []store.Checkpointed) string {
	var out []string
	for _, c := range saved {
		out = append(out, fmt.Sprintf("%d:%d", c.Ord, c.Seq))
	}
	return strings.Join(out, " ")
}

func TestCheckpointsAreNumberedPerTask(t *testing.T) {
	h := newDatabase(t)
	solo := h.solo()
	h.many(2)
	cs := h.claim("w", 3)
	saved := h.checkpoint(
		store.Checkpoint{Fence: fence("w", cs[0]), Type: "tool_executed", Name: "fetch", ArgsHash: "h", Metadata: `{"m":1}`},
		store.Checkpoint{Fence: fence("w", cs[1]), Type: "iteration_start"},
		store.Checkpoint{Fence: store.Fence{Namespace: "default", ItemID: cs[2].ItemID, WorkerID: "thief", Attempt: 1}, Type: "custom"},
		store.Checkpoint{Fence: fence("w", cs[2]), Type: "manual_checkpoint", Name: "<here>"})
	h.want("saved", numbers(saved), "0:1 1:1 3:2")
	saved = h.checkpoint(store.Checkpoint{Fence: fence("w", cs[0]), Type: "approval_point"})
	h.want("saved", numbers(saved), "0:2")
	h.want("checkpoints of the first task", h.table("SELECT @item_text(item_id), attempt, seq, type, name, args_hash, snapshot, metadata "+
		"FROM pawl.checkpoints WHERE item_id = $1 ORDER BY seq", solo),
		solo+` 1 1 tool_executed fetch h {} {"m":1}
`+solo+` 1 2 approval_point - - {} -`)
	h.want("a row for the solo task", h.table("SELECT state, items, open, checkpoints FROM pawl.task_counters ORDER BY task_id"),
		"open 1 1 2\nopen 2 2 2")
	h.want("task", h.table("SELECT state, open FROM pawl.task_rows WHERE solo = 1"), "in_progress 1")
	h.want("events", h.table("SELECT event, from_state, to_state, replace(data, checkpoint_id, 'ckp') FROM "+
		"(SELECT e.*, json_extract(data, '$.checkpoint_id') AS checkpoint_id FROM pawl.event_rows e WHERE event = 'checkpointed') ORDER BY id"),
		`checkpointed - - {"checkpoint_id":"ckp","type":"manual_checkpoint","name":"<here>","sequence":2}
checkpointed - - {"checkpoint_id":"ckp","type":"approval_point","name":null,"sequence":2}`)
	h.want("signs of life", h.table("SELECT COUNT(*) FROM pawl.event_rows WHERE event = 'in_progress'"), "3")
	h.complete("w", cs[0])
	h.want("the solo task completes by its item", h.table("SELECT state, version, open, checkpoints FROM pawl.task_rows WHERE solo = 1"),
		"completed 1 0 2")
}

func TestCompleteRefusesWhatNeedsAcceptance(t *testing.T) {
	h := newDatabase(t)
	h.solo(func(n *store.NewItem) { n.Acceptance = true })
	c := h.claim("w", 1)[0]
	if got := h.complete("w", c); len(got) != 0 {
		t.Errorf("completed %v", got)
	}
	h.want("lease", h.table("SELECT acceptance FROM pawl.leases"), "1")
}

func TestAnswersKeepTheirOrdinals(t *testing.T) {
	h := newDatabase(t)
	h.many(3)
	cs := h.claim("w", 3)
	cs[1].Attempt = 9
	got := h.complete("w", cs...)
	if len(got) != 2 || got[0].Ord != 0 || got[1].Ord != 2 || got[0].Settled {
		t.Errorf("moved %+v", got)
	}
}
