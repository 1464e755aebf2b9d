package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// by returns a context whose calls have the actor.
func by(t *testing.T, id string) context.Context {
	return pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: id})
}

// asker returns the actor that created a task.
func asker(t *testing.T, e *engine.Engine, task string) string {
	t.Helper()
	events := need[pawl.List[pawl.Event]](t)(e.ListEvents(t.Context(), pawl.EventFilter{TaskID: task})).Items
	for _, e := range events {
		if e.Event == "proposed" {
			return e.ActorType + " " + e.ActorID
		}
	}
	return "nobody"
}

// Several servers that meet new names at the same time record them all, each once.
func TestServersMeetNewNamesAtOnce(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var begin, done sync.WaitGroup
		begin.Add(1)
		for range 3 {
			e := p.Another(engine.Options{})
			for n := range 8 {
				done.Go(func() {
					begin.Wait()
					who := fmt.Sprintf("new %d", n%4)
					task, err := pawl.Create(by(t, who), e, pawl.NewTask{Type: "a"})
					if err != nil {
						t.Error(err)
					} else if got := asker(t, e, task.ID); got != "user "+who {
						t.Errorf("a task that %s created was created by %s", who, got)
					}
				})
			}
		}
		begin.Done()
		done.Wait()
		var n int
		read(t, p.Engine, []any{&n}, "SELECT COUNT(*) FROM pawl.actors WHERE name LIKE 'new %'")
		if n != 4 {
			t.Errorf("%d rows of 4 names", n)
		}
	})
}

func read(t *testing.T, e *engine.Engine, into []any, query string) {
	t.Helper()
	err := e.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, into, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A name that was met in a transaction that rolls back is recorded when it is met again:
// in a transaction of the engine, and in one of a caller.
func TestANameOfARolledBackTransaction(t *testing.T) {
	t.Parallel()
	undo := errors.New("undo")
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			for range 2 {
				if err := store.EnsureActors(ctx, tx, store.ActorName{Kind: pawl.ActorUser, Name: "ann"}, store.Worker("w")); err != nil {
					return err
				}
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		own := beginOwn(t, p)
		need[pawl.Task](t)(own.Create(by(t, "ben"), pawl.NewTask{Type: "a"}))
		if err := own.rollback(); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"ann", "ben"} {
			task := need[pawl.Task](t)(pawl.Create(by(t, who), p.Engine, pawl.NewTask{Type: "a"}))
			if got := asker(t, p.Engine, task.ID); got != "user "+who {
				t.Errorf("created by %s, recorded %s", who, got)
			}
		}
		if ls := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 2})); len(ls) != 2 {
			t.Errorf("%d leases", len(ls))
		}
	})
}

// A database that went back in time has other names under the numbers that a running
// process has used. The process records its names, not those.
func TestNamesAfterTheDatabaseWentBackInTime(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, other := by(t, "ann"), p.Another(engine.Options{})
		work := func() (task string, lease pawl.Lease) {
			t.Helper()
			task = need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"})).ID
			return task, need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: task}))[0]
		}
		_, before := work()
		err := other.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE pawl.actors SET name = 'another ' || name WHERE name <> ''")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		task, now := work()
		if got := asker(t, p.Engine, task); got != "user ann" {
			t.Errorf("recorded %s", got)
		}
		if it := need[pawl.Item](t)(p.Engine.GetItem(t.Context(), now.ID)); it.WorkerID != "w" {
			t.Errorf("the worker is %q", it.WorkerID)
		}
		complete := func(l pawl.Lease) error {
			_, err := first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}}))
			return err
		}
		if err := complete(before); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("the lease of another worker: %v", err)
		}
		if err := complete(now); err != nil {
			t.Error(err)
		}
	})
}

// A caller's own transaction that meets a name whose row is gone fails, and the process
// forgets the name: the caller's next transaction records it.
func TestACallersTransactionAfterANameIsGone(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ann := store.ActorName{Kind: pawl.ActorUser, Name: "ann"}
		for range 2 { // SQLite remembers a name that it finds
			err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error { return store.EnsureActors(ctx, tx, ann) })
			if err != nil {
				t.Fatal(err)
			}
		}
		err := p.Another(engine.Options{}).DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM pawl.actors WHERE name = 'ann'")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for try := 1; ; try++ {
			own := beginOwn(t, p)
			task, err := own.Create(by(t, "ann"), pawl.NewTask{Type: "a"})
			if err != nil {
				_ = own.rollback() // the error counts
				if try == 2 {
					t.Fatalf("the second transaction: %v", err)
				}
				continue
			}
			if err := own.commit(); err != nil {
				t.Fatal(err)
			}
			if got := asker(t, p.Engine, task.ID); got != "user ann" {
				t.Errorf("recorded %s", got)
			}
			return
		}
	})
}

// The name of an actor is bounded also where a program embeds the engine, and a name without
// a text is refused before the database sees it.
func TestALongNameOfAnActorIsRefused(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, name := range []string{strings.Repeat("n", pawl.MaxIDLen+1), strings.Repeat("n", 10_000), "a\x00b", "\xff"} {
			if _, err := pawl.Create(by(t, name), p.Engine, pawl.NewTask{Type: "a"}); pawl.CodeOf(err) != pawl.CodeInvalid {
				t.Errorf("a name of %d bytes: %v", len(name), err)
			}
		}
		need[pawl.Task](t)(pawl.Create(by(t, strings.Repeat("é", pawl.MaxIDLen)), p.Engine, pawl.NewTask{Type: "a"}))
	})
}

// No worker is NULL, and no name of none; looking for a name that has its row inserts nothing.
func TestNoWorkerHasNoNumber(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			return store.EnsureActors(ctx, tx, store.Worker("w"), store.Worker("x"))
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Another(engine.Options{}).DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			if err := store.EnsureActors(ctx, tx, store.Worker("w")); err != nil {
				return err
			}
			if d, ok := tx.(store.Dictionary); ok && d.Known() == nil {
				t.Error("a transaction that found a name remembers nothing")
			}
			var n *int64
			if _, err := tx.Exec(ctx, "INSERT INTO pawl.actors (kind, name) VALUES ('worker', '')"); err != nil {
				return err
			}
			if _, err := store.Row(ctx, tx, []any{&n}, "SELECT @worker(CAST($1 AS TEXT))", nil); err != nil || n != nil {
				return fmt.Errorf("no worker has the number %v: %w", n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
