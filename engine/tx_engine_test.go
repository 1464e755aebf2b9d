package engine_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// ownTx is a caller's own transaction.
type ownTx struct {
	*engine.TxEngine
	exec             func(query string) error
	commit, rollback func() error
}

// beginOwn begins a transaction on the database of p.
func beginOwn(t *testing.T, p *pawltest.Pawl) ownTx {
	t.Helper()
	return beginOwnIn(t, p, p.Engine)
}

// beginOwnIn is beginOwn for another engine on the database.
func beginOwnIn(t *testing.T, p *pawltest.Pawl, e *engine.Engine) ownTx {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if p.Database == pawltest.SQLite {
		db := need[*sql.DB](t)(sql.Open("sqlite", strings.TrimPrefix(p.URL, "sqlite:")))
		t.Cleanup(func() { db.Close() })
		tx := need[*sql.Tx](t)(db.BeginTx(ctx, nil))
		return ownTx{e.In(tx), func(query string) error { _, err := tx.Exec(query); return err }, tx.Commit, tx.Rollback}
	}
	c := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	t.Cleanup(func() { c.Close(ctx) })
	tx := need[pgx.Tx](t)(c.Begin(ctx))
	return ownTx{e.In(tx), func(query string) error { _, err := tx.Exec(ctx, query); return err },
		func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }}
}

// Work created in the caller's own transaction is visible after its commit, with its
// requester.
func TestTxEngineKeepsProvenance(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		tx := beginOwn(t, p)
		task := need[pawl.Task](t)(
			tx.Create(pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"}), pawl.NewTask{Type: "a"}))
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		rows := need[pawl.List[pawl.ProvenanceRecord]](t)(p.Engine.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: task.ID})).Items
		if len(rows) != 1 || rows[0].AgentName != "research-bot" || rows[0].EventID == "" {
			t.Errorf("provenance: %+v", rows)
		}
	})
}

// Every verb works inside the caller's transaction: its writes and the caller's own
// rows commit together, or leave nothing.
func TestTxEngineIsTheWholeService(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}})))
		old := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
		waits := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "b"}))
		waiting := leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: waits.ID}, 1)[0]
		need[pawl.Moved](t)(first(e.Suspend(ctx, []pawl.SuspendCall{{Fence: waiting.Fence(), Signal: "paid"}})))
		decided := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "report"}))
		held := leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: decided.ID}, 1)[0]

		orders := "orders_" + strings.ToLower(rand.Text()) // the database may exist from an earlier run
		work := func(tx ownTx) (made pawl.Task) {
			t.Helper()
			if err := tx.exec("INSERT INTO " + orders + " VALUES (7)"); err != nil {
				t.Fatal(err)
			}
			made = need[pawl.Task](t)(tx.Create(ctx, pawl.NewTask{Type: "c", Items: []pawl.NewItem{{Key: "x"}, {Key: "y", After: []string{"x"}}}}))
			l := need[[]pawl.Lease](t)(tx.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, WaitSeconds: 60}))
			if len(l) != 1 || l[0].TaskID != old.ID {
				t.Fatalf("claimed %+v", l)
			}
			if _, err := pawl.Complete(ctx, tx, pawl.Fence{ItemID: "itm_none", WorkerID: "w", Attempt: 1}, nil); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("a verb that is refused: %v", err)
			}
			need[pawl.Beat](t)(first(tx.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: l[0].Fence()}})))
			need[pawl.CheckpointRef](t)(first(tx.Checkpoint(ctx,
				[]pawl.CheckpointCall{{Fence: l[0].Fence(), NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)}}})))
			need[pawl.Moved](t)(pawl.Complete(ctx, tx, l[0].Fence(), []byte(`"done"`)))
			if sent := need[pawl.Signalled](t)(first(tx.SendSignals(ctx, []pawl.SignalCall{{Name: "paid"}}))); sent.Woken != 1 {
				t.Errorf("the signal: %+v", sent)
			}
			need[pawl.Moved](t)(first(tx.Submit(ctx, []pawl.SubmitCall{{Fence: held.Fence(), Result: []byte(`1`)}})))
			need[pawl.Task](t)(first(tx.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: decided.ID}})))
			next := need[[]pawl.Lease](t)(tx.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"c"}, Limit: 9}))
			if len(next) != 1 {
				t.Fatalf("of its own work it claimed %+v", next)
			}
			need[pawl.Moved](t)(pawl.Complete(ctx, tx, next[0].Fence(), nil))
			if got := need[pawl.Task](t)(tx.GetTask(ctx, old.ID)); got.State != pawl.TaskCompleted {
				t.Errorf("inside, the task is %s", got.State)
			}
			if _, err := tx.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: old.ID}}); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("delete: %v", err)
			}
			if err := tx.FollowEvents(ctx, pawl.EventFilter{}, nil); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("the feed: %v", err)
			}
			if got := need[pawl.Task](t)(e.GetTask(ctx, old.ID)); got.State.Stored() != pawl.TaskOpen {
				t.Errorf("outside, the task is %s", got.State)
			}
			return made
		}
		own := beginOwn(t, p)
		if err := cmp.Or(own.exec("CREATE TABLE "+orders+" (id INTEGER)"), own.commit()); err != nil {
			t.Fatal(err)
		}

		tx := beginOwn(t, p)
		made := work(tx)
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := e.GetTask(ctx, made.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("after the rollback: %v", err)
		}
		for id, want := range map[string]pawl.TaskState{old.ID: pawl.TaskOpen, waits.ID: pawl.TaskOpen, decided.ID: pawl.TaskOpen} {
			if got := need[pawl.Task](t)(e.GetTask(ctx, id)); got.State.Stored() != want {
				t.Errorf("after the rollback %s is %s", id, got.State)
			}
		}

		tx = beginOwn(t, p)
		made = work(tx)
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		tx.Committed()
		for id, want := range map[string]pawl.TaskState{old.ID: pawl.TaskCompleted, decided.ID: pawl.TaskCompleted, made.ID: pawl.TaskOpen} {
			if got := need[pawl.Task](t)(e.GetTask(ctx, id)); got.State.Stored() != want {
				t.Errorf("after the commit %s is %s", id, got.State)
			}
		}
		// Items that depend on work inside the transaction are queued, and so are
		// suspended items.
		leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: made.ID}, 1)
		leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: waits.ID}, 1)
	})
}

// Types that a transaction registers apply inside it. No other call sees them before the
// commit.
func TestTypesOfATransaction(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "t"})) // the engine has now read the registry
		tx := beginOwn(t, p)
		need[pawl.TypeRef](t)(first(tx.PutTypes(ctx, []pawl.Type{{Name: "t", PayloadSchema: []byte(`{"type":"integer"}`)}})))
		if _, err := tx.Create(ctx, pawl.NewTask{Type: "t", Payload: []byte(`"x"`)}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("inside: %v", err)
		}
		need[pawl.Task](t)(tx.Create(ctx, pawl.NewTask{Type: "t", Payload: []byte(`1`)}))
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "t", PayloadSchema: []byte(`{"type":"string"}`)}})))
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "t", Payload: []byte(`"x"`)}))
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "t", Payload: []byte(`1`)}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("after the rollback: %v", err)
		}
	})
}

// If a transaction that ends an item is rolled back, the item's message stays open. It
// ends when the item ends, before the next sweep.
func TestOpenMessagesAfterARollback(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}})))
		ends := map[string]func(pawl.Service, pawl.Lease) (pawl.Moved, error){
			"a": func(svc pawl.Service, l pawl.Lease) (pawl.Moved, error) {
				return pawl.Complete(ctx, svc, l.Fence(), nil)
			},
			"report": func(svc pawl.Service, l pawl.Lease) (pawl.Moved, error) {
				return first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}}))
			},
		}
		for typ, end := range ends {
			for _, own := range []bool{true, false} {
				task := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: typ}))
				l := leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
				m := need[pawl.Message](t)(first(e.StartMessages(ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}})))
				if own {
					tx := beginOwn(t, p)
					need[pawl.Moved](t)(end(tx, l))
					if err := tx.rollback(); err != nil {
						t.Fatal(err)
					}
				} else {
					_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "s", Key: task.ID, RequestHash: "h"}, func(_ context.Context,
						svc pawl.Service) (*pawl.Answer, error) {
						need[pawl.Moved](t)(end(svc, l))
						return nil, nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				need[pawl.Moved](t)(end(e, l))
				if got := need[pawl.Message](t)(e.GetMessage(ctx, m.ID)); got.Status == pawl.MessageStreaming {
					t.Errorf("%s, rolled back by the caller: %v: the item ended, and its message is still open", typ, own)
				}
			}
		}
	})
}

// A message that a rolled back transaction started does not exist.
func TestAMessageOfARollback(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		task := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
		l := leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
		tx := beginOwn(t, p)
		m := need[pawl.Message](t)(first(tx.StartMessages(ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}})))
		chunk := pawl.AppendCall{
			MessageFence: pawl.MessageFence{
				MessageID: m.ID,
				WorkerID:  "w",
				Attempt:   l.Attempt,
			}, Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: "x"}},
		}
		need[pawl.Appended](t)(first(tx.Append(ctx, []pawl.AppendCall{chunk})))
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := first(e.Append(ctx, []pawl.AppendCall{chunk})); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("appending to it: %v", err)
		}
	})
}

// Committed wakes a waiting claim.
func TestCommittedWakesClaims(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{PollInterval: time.Hour})
			got := make(chan []pawl.Lease, 1)
			go func() {
				l, _ := p.Engine.Claim(context.WithoutCancel(t.Context()), pawl.ClaimRequest{WorkerID: "w", WaitSeconds: 60})
				got <- l
			}()
			tx := beginOwn(t, p)
			need[pawl.Task](t)(tx.Create(t.Context(), pawl.NewTask{Type: "a"}))
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			tx.Committed()
			if l := <-got; len(l) != 1 {
				t.Errorf("claimed %v", l)
			}
		})
	}
}

// On PostgreSQL a transaction of database/sql works like one of pgx: with tasks of one
// item and of many, with dedupe, and with a rollback. A transaction of another database
// is refused.
func TestTxEngineOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	db, err := sql.Open("pgx", p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	begin := func() *sql.Tx { return need[*sql.Tx](t)(db.BeginTx(ctx, nil)) }

	tx := begin()
	gone := need[pawl.Task](t)(p.Engine.In(tx).Create(ctx, pawl.NewTask{Type: "a"}))
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Engine.GetTask(ctx, gone.ID); pawl.CodeOf(err) != pawl.CodeNotFound {
		t.Errorf("after the rollback: %v", err)
	}

	runAt := p.Now().Add(time.Hour)
	tx = begin()
	in := p.Engine.In(tx)
	one := need[pawl.Task](t)(
		in.Create(ctx, pawl.NewTask{Type: "a", Title: "one", Payload: []byte(`{"n": 1}`), Dedupe: pawl.Dedupe{All: true}, RunAt: &runAt}))
	many := need[pawl.Task](t)(in.Create(ctx,
		pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Key: "x", Input: []byte(`1`)}, {Key: "y", Input: []byte(`2`), After: []string{"x"}}}}))
	again := need[pawl.Task](t)(in.Create(ctx, pawl.NewTask{Type: "a", Payload: []byte(`{"n": 1}`), Dedupe: pawl.Dedupe{All: true}}))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if again.ID != one.ID || !again.Deduplicated {
		t.Errorf("the same input made %s beside %s", again.ID, one.ID)
	}
	if got := need[pawl.Task](t)(p.Engine.GetTask(ctx, one.ID)); got.Title != "one" || string(got.Payload) != `{"n": 1}` ||
		got.Stage != "Scheduled" {
		t.Errorf("%+v", got)
	}
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID}, 1)[0]
	need[pawl.Moved](t)(first(p.Engine.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence()}})))
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID}, 1)

	mine := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "b", Payload: []byte(`{"b": 2}`)}))
	tx = begin()
	in = p.Engine.In(tx)
	l = leases(t, in, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60, Types: []string{"b"}}, 1)[0]
	if l.ID != "itm_"+mine.ID[4:] || l.TaskID != mine.ID || string(l.Input) != `{"b": 2}` {
		t.Errorf("claimed %+v", l)
	}
	need[pawl.Beat](t)(first(in.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}})))
	need[pawl.CheckpointRef](t)(first(in.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: l.Fence(),
		NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)}}})))
	need[pawl.Moved](t)(first(in.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: []byte(`3`)}})))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	in.Committed()
	if got := need[pawl.Task](t)(p.Engine.GetTask(ctx, mine.ID)); got.State != pawl.TaskCompleted {
		t.Errorf("%+v", got)
	}

	if _, err := p.Engine.In("no transaction").Create(ctx, pawl.NewTask{Type: "a"}); pawl.CodeOf(err) != pawl.CodeInvalid {
		t.Errorf("of no transaction: %v", err)
	}
}

// A caller's transaction that ends a child wakes the item that waits for it.
func TestCommittedCountsChildren(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l, ids := spawned(t, p.Engine, "parent", 1)
		child := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: ids[0]}, 1)[0]
		ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids}))
		tx := beginOwn(t, p)
		need[pawl.Moved](t)(pawl.Complete(t.Context(), tx, child.Fence(), nil))
		ok(t, tx.commit())
		tx.Committed()
		if it := need[pawl.Item](t)(p.Engine.GetItem(t.Context(), l.ID)); it.State != pawl.ItemQueued {
			t.Errorf("the item that waits is %s", it.State)
		}
	})
}
