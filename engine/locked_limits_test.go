package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// keyed creates n tasks of a type for each key, one key after the other.
func keyed(t *testing.T, svc pawl.Service, typ string, n int, keys ...string) {
	t.Helper()
	for _, key := range keys {
		tasks := make([]pawl.NewTask, n)
		for i := range tasks {
			tasks[i] = pawl.NewTask{Type: typ, Payload: fmt.Appendf(nil, `{"k":%q}`, key)}
		}
		for _, r := range need[[]pawl.Result[pawl.Task]](t)(svc.CreateTasks(t.Context(), tasks)) {
			ok(t, r.Err)
		}
	}
}

// transaction begins a transaction of the caller's that does not end.
func transaction(t *testing.T, p *pawltest.Pawl) (tx pgx.Tx, commit func()) {
	t.Helper()
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx = need[pgx.Tx](t)(conn.Begin(t.Context()))
	return tx, func() { t.Helper(); ok(t, tx.Commit(t.Context())) }
}

// A claim passes over items that an open transaction locks, whatever the limits are and however
// it names what it wants.
func TestAClaimPassesOverLockedItems(t *testing.T) {
	for name, limits := range map[string]string{
		"none":           `{}`,
		"concurrency":    `{"concurrency":100}`,
		"keys":           `{"per_key":{"pointer":"/k","concurrency":50}}`,
		"keys unfair":    `{"per_key":{"pointer":"/k","concurrency":50,"fair":false}}`,
		"keys in order":  `{"per_key":{"pointer":"/k","order":"created"}}`,
		"order, unfair":  `{"per_key":{"pointer":"/k","order":"created","fair":false}}`,
		"rate of keys":   `{"per_key":{"pointer":"/k","rate":{"limit":1000,"seconds":1}}}`,
		"another's rate": `{"rate":{"limit":1000,"seconds":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.Postgres)
			need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(limits)))
			keyed(t, p.Engine, "a", 5, "x", "y", "z")
			stranger(t, p, "SELECT FROM ready ORDER BY item_id LIMIT 5 FOR UPDATE") // all of x
			want := 10
			if name == "keys in order" || name == "order, unfair" {
				want = 2
			}
			for range want {
				leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 1)
			}
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 0)
			items := make([]pawl.NewItem, 8)
			for i := range items {
				items[i] = pawl.NewItem{Input: fmt.Appendf(nil, `{"k":"%d"}`, i)}
			}
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Items: items}))
			stranger(t, p, "SELECT FROM ready WHERE task_id = id($1) ORDER BY item_id LIMIT 3 FOR UPDATE", task.ID)
			for range 5 {
				leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)
			}
		})
	}
}

// Items that are queued when limits are set can be claimed, all but those that are locked then.
func TestLimitsAreSetBesideALockedItem(t *testing.T) {
	for name, limits := range map[string]string{
		"keys":  `{"per_key":{"pointer":"/k","concurrency":1000}}`,
		"whole": `{"concurrency":10000}`,
		"order": `{"per_key":{"pointer":"/k","order":"created"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			keyed(t, p.Engine, "a", 600, "x", "y")
			held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 1)[0]
			lockedLease := stranger(t, p, "SELECT FROM leases FOR UPDATE")
			unlock := stranger(t, p, "SELECT FROM ready ORDER BY item_id LIMIT 1 FOR UPDATE") // of x
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(limits)))
			want := 1198
			if name == "order" {
				want = 1
			}
			got := 0
			for range 2 {
				got += len(need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 1000})))
			}
			if got != want {
				t.Errorf("%d items were claimed, not %d", got, want)
			}
			unlock()
			lockedLease()
			need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, held.Fence(), nil))
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 10}, 1)
		})
	}
}

// A claim in an open transaction holds up claims of its own keys, and no others.
func TestAClaimInAnOpenTransactionHoldsUpOnlyItsKeys(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "whole", pawl.QueuePatch(`{"concurrency":5}`)))
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "keys", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":2,"weights":{"x":2}}}`)))
	keyed(t, p.Engine, "whole", 3, "x")
	keyed(t, p.Engine, "keys", 3, "x", "y", "z")
	keyed(t, p.Engine, "plain", 3, "x")
	tx, commit := transaction(t, p)
	in := p.Engine.In(tx)
	leases(t, in, pawl.ClaimRequest{WorkerID: "tx", Types: []string{"whole"}}, 1)
	leases(t, in, pawl.ClaimRequest{WorkerID: "tx", Types: []string{"keys"}, Limit: 2}, 2) // both of x
	for range 3 {
		leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"whole", "plain"}}, 1)
	}
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"plain"}}, 0)
	for range 4 {
		if l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"keys"}}, 1)[0]; string(l.Input) == `{"k":"x"}` {
			t.Error("an item of a key that the transaction has was claimed")
		}
	}
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"keys"}}, 0)
	// A second one takes what the first one has not, and neither waits for the other.
	other, end := transaction(t, p)
	keyed(t, p.Engine, "keys", 2, "v")
	leases(t, p.Engine.In(other), pawl.ClaimRequest{WorkerID: "other", Types: []string{"keys", "whole"}, Limit: 9}, 2)
	leases(t, in, pawl.ClaimRequest{WorkerID: "tx", Types: []string{"keys"}, Limit: 9}, 0)
	end()
	commit()
	in.Committed()
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"whole"}, Limit: 9}, 2)
}

// While an open transaction holds the limits of a queue, other claims get nothing from it, whatever they ask for, and no error.
func TestAClaimBesideLockedLimitsGetsNothing(t *testing.T) {
	for name, limits := range map[string]string{
		"whole": `{"concurrency":5}`, "order": `{"concurrency":5,"per_key":{"pointer":"/k","order":"created"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "limited", pawl.QueuePatch(limits)))
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "empty", pawl.QueuePatch(`{"concurrency":5}`)))
			p.Advance(2 * time.Minute) // all processes know the limits
			keyed(t, p.Engine, "limited", 1, "w", "x", "y")
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"limited"}}, 1) // items in order are searched outside first
			task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "limited", Payload: json.RawMessage(`{"k":"z"}`)}))
			tx, commit := transaction(t, p)
			leases(t, p.Engine.In(tx), pawl.ClaimRequest{WorkerID: "tx", Types: []string{"limited"}}, 1)
			for _, req := range []pawl.ClaimRequest{
				{Types: []string{"limited"}}, {Types: []string{"limited", "empty", "other"}}, {}, {TaskID: task.ID},
				{Types: []string{"limited"}, Prefetch: true, Limit: 9}, {Types: []string{"limited", "other"}, WaitSeconds: 1},
			} {
				req.WorkerID = "w"
				if got, err := p.Engine.Claim(ctx, req); err != nil || len(got) > 0 {
					t.Errorf("%+v got %d items: %v", req, len(got), err)
				}
			}
			waits := make(chan error, 1)
			go func() {
				got, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"limited", "other"}, WaitSeconds: 60})
				if err == nil && len(got) != 1 {
					err = fmt.Errorf("%d items", len(got))
				}
				waits <- err
			}()
			commit()
			if err := <-waits; err != nil {
				t.Errorf("the claim that waited: %v", err)
			}
		})
	}
}

// A restore does not wait for a claim in an open transaction from a queue that it has no work for.
func TestARestoreBesideAClaimInAnOpenTransaction(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	need[pawl.TypeRef](t)(first(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "brief", Retention: pawl.Retention{TaskSeconds: 60}}})))
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "brief"}))
	need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0].Fence(), nil))
	p.Advance(2 * time.Minute)
	need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "whole", pawl.QueuePatch(`{"concurrency":5}`)))
	keyed(t, p.Engine, "whole", 1, "x")
	tx, commit := transaction(t, p)
	leases(t, p.Engine.In(tx), pawl.ClaimRequest{WorkerID: "tx", Types: []string{"whole"}}, 1)
	if restored := need[pawl.Task](t)(p.Engine.RestoreArchive(ctx, task.ID)); restored.State != pawl.TaskCompleted {
		t.Errorf("%+v", restored)
	}
	commit()
}

// A claim in a transaction that is older than the first limits counts from its commit on.
func TestAClaimBesideTheFirstLimitsCounts(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			keyed(t, p.Engine, "a", 3, "x")
			tx, commit := transaction(t, p)
			in := p.Engine.In(tx)
			leases(t, in, pawl.ClaimRequest{WorkerID: "tx", Types: []string{"a"}}, 1)
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
			ok(t, p.Exec("UPDATE pawl.queue_limits SET keyed_at = changed_at + 120000000")) // no search is due
			commit()
			if told {
				in.Committed()
			} else {
				need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			}
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 0)
		})
	}
}

// An item that a transaction claimed before the first limits, and that comes back after them, is
// claimed again within a pass, however it came back.
func TestWhatWasClaimedBesideTheFirstLimitsIsClaimedAgain(t *testing.T) {
	for name, back := range map[string]func(p *pawltest.Pawl, l pawl.Lease) error{
		"released": func(p *pawltest.Pawl, l pawl.Lease) error {
			_, err := pawl.Release(t.Context(), p.Engine, l.Fence())
			return err
		},
		"waited": func(p *pawltest.Pawl, l pawl.Lease) error {
			if _, err := first(p.Engine.Suspend(t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go"}})); err != nil {
				return err
			}
			_, err := first(p.Engine.SendSignals(t.Context(), []pawl.SignalCall{{Name: "go"}}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			keyed(t, p.Engine, "a", 1, "x", "y")
			tx, commit := transaction(t, p)
			got := leases(t, p.Engine.In(tx), pawl.ClaimRequest{WorkerID: "tx", Types: []string{"a"}}, 1)
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
			ok(t, p.Exec("UPDATE pawl.queue_limits SET keyed_at = changed_at + 120000000")) // no search is due
			commit()
			ok(t, back(p, got[0]))
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}, 2)
		})
	}
}

// An item that a transaction creates which does not see its key yet is claimed after the commit.
func TestAKeyThatATransactionDoesNotSee(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":9}}`)))
	keyed(t, p.Engine, "a", 1, "old")
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer func() { _ = conn.Close(context.Background()) }()
	tx := need[pgx.Tx](t)(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
	keyed(t, p.Engine.In(tx), "a", 1, "old") // takes the snapshot
	keyed(t, p.Engine.In(tx), "a", 1, "new")
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}, 1)
	ok(t, tx.Commit(ctx))
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}, 2)
}

// A new key that an open transaction has made is no new key for others.
func TestANewKeyInAnOpenTransactionStopsNoCreate(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
	tx, _ := transaction(t, p)
	keyed(t, p.Engine.In(tx), "a", 1, "new")
	other := p.Another(engine.Options{})
	keyed(t, other, "a", 1, "new")
	leases(t, other, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}, 1)
}

// Without turns the items with the best priority come first, and of those the oldest, also when
// very many items of keys without a free slot are before them.
func TestWithoutTurnsTheFirstItemsComeFirst(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1,"fair":false}}`)))
		for _, n := range []int{1000, 300} {
			keyed(t, p.Engine, "a", n, "full")
		}
		leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 1)
		var want []string
		for i := range 80 { // the newer keys have the better priority
			task := pawl.NewTask{Type: "a", Priority: -80 + i/2, Payload: fmt.Appendf(nil, `{"k":"%d"}`, i)}
			want = append(want, need[pawl.Task](t)(pawl.Create(ctx, p.Engine, task)).ID)
		}
		for n := range 40 {
			pair := want[len(want)-2:]
			want = want[:len(want)-2]
			got := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 2}, 2)
			if got[0].TaskID != pair[0] || got[1].TaskID != pair[1] {
				t.Fatalf("the claim %d got %s and %s, not %v", n, got[0].TaskID, got[1].TaskID, pair)
			}
		}
	})
}

// A rate lets items start at once again, at most an interval later, after the clock of the
// database went back.
func TestARateSurvivesAClockThatGoesBack(t *testing.T) {
	for name, limits := range map[string]string{
		"queue": `{"rate":{"limit":60,"seconds":60,"burst":2}}`,
		"key":   `{"per_key":{"pointer":"/k","rate":{"limit":60,"seconds":60,"burst":2}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(limits)))
			keyed(t, p.Engine, "a", 9, "x")
			req := pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}
			leases(t, p.Engine, req, 2)
			p.Advance(-time.Hour)
			var next time.Time
			if got := need[[]pawl.Lease](t)(p.Engine.Claim(pawl.WithNextAt(ctx, &next), req)); len(got) > 0 {
				t.Errorf("%d items started beyond the burst", len(got))
			}
			if want := p.Now().Add(time.Second); !next.Equal(want) {
				t.Errorf("the next start is at %v, not %v", next, want)
			}
			p.Advance(time.Second)
			leases(t, p.Engine, req, 1)
			p.Advance(2 * time.Second)
			leases(t, p.Engine, req, 2)
		})
	}
}

// Of items in order, one in back-off holds up those after it, and none before it.
func TestABackOffHoldsUpOnlyLaterItems(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","order":"created"}}`)))
		keyed(t, p.Engine, "a", 3, "x")
		req := pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: 9}
		no, soon := false, int64(3_600_000)
		first := leases(t, p.Engine, req, 1)[0]
		fail := func(call pawl.FailCall) {
			t.Helper()
			rs := need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Fail(ctx, []pawl.FailCall{call}))
			ok(t, rs[0].Err)
		}
		fail(pawl.FailCall{Fence: first.Fence(), Retryable: &no, Error: pawl.Failure{Message: "a"}})
		second := leases(t, p.Engine, req, 1)[0]
		fail(pawl.FailCall{Fence: second.Fence(), RetryAfterMS: &soon, Error: pawl.Failure{Message: "a"}})
		leases(t, p.Engine, req, 0)
		rs := need[[]pawl.Result[pawl.Task]](t)(p.Engine.RetryTasks(ctx, []pawl.TaskCall{{TaskID: first.TaskID}}))
		ok(t, rs[0].Err)
		task := need[pawl.Task](t)(p.Engine.GetTask(ctx, first.TaskID))
		if b := task.BlockedBy; b != nil && b.Reason == pawl.BlockedByOrder {
			t.Errorf("the first item is blocked by %+v", b)
		}
		if l := leases(t, p.Engine, req, 1)[0]; l.TaskID != first.TaskID {
			t.Error("a later item was claimed")
		} else {
			need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, l.Fence(), json.RawMessage(`1`)))
		}
		leases(t, p.Engine, req, 0) // the third one waits for the second
	})
}
