package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A transaction whose snapshot is older than a step of a move sees neither that changes are noted nor that they are
// refused: what it writes would be lost.
func TestAnOldSnapshotPassesNoFence(t *testing.T) {
	levels := map[string]pgx.TxIsoLevel{"copied": pgx.RepeatableRead, "verified": pgx.Serializable, "the end": pgx.RepeatableRead}
	for at, level := range levels {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			from := pawltest.OpenNew(t, pawltest.Postgres, withKey(t))
			t.Cleanup(func() { _ = from.Engine.ForgetMoves(context.Background()) })
			to := pawltest.OpenNew(t, pawltest.Postgres, withKey(t))
			app := from.Another(engine.Options{})
			old := need[pawl.Task](t)(pawl.Create(ctx, app, pawl.NewTask{Type: "a", Title: "new"}))
			before := "old" // the actor of the call is known then
			need[pawl.Task](t)(first(app.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: old.ID, Title: &before}})))
			conn := need[*pgx.Conn](t)(pgx.Connect(ctx, from.URL))
			defer conn.Close(ctx)
			begin := func() pgx.Tx {
				tx := need[pgx.Tx](t)(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level}))
				_, err := tx.Exec(ctx, "SELECT 1 FROM pg_class LIMIT 1") // takes the snapshot
				ok(t, err)
				return tx
			}
			title := "new"
			write := func(tx pgx.Tx) error {
				_, err := first(app.In(tx).UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: old.ID, Title: &title}}))
				if err == nil {
					return tx.Commit(ctx)
				}
				ok(t, tx.Rollback(ctx))
				return fmt.Errorf("%w: %w", err, errors.Unwrap(err))
			}
			refused := func(tx pgx.Tx) {
				if err := write(tx); pawl.CodeOf(err) != pawl.CodeUnavailable {
					t.Errorf("written in an old snapshot: %v", err)
				}
			}
			tx, want := begin(), "old"
			moveAll(t, from, to, engine.Move{Step: func(name string) {
				if name == at {
					refused(tx)
					if at == "copied" { // the same transaction, repeated, is noted
						ok(t, write(begin()))
						want = title
					}
				}
			}})
			if at == "the end" {
				refused(tx)
			}
			if got := need[pawl.Task](t)(to.Engine.GetTask(ctx, old.ID)); got.Title != want {
				t.Errorf("the target has %q, not %q", got.Title, want)
			}
		})
	}
}

// While and after a namespace moves, transactions of others in strict levels go on.
func TestSnapshotsOfOthersGoOnBesideAMove(t *testing.T) {
	ctx := t.Context()
	from := pawltest.OpenNew(t, pawltest.Postgres, withKey(t))
	t.Cleanup(func() { _ = from.Engine.ForgetMoves(context.Background()) })
	to := pawltest.OpenNew(t, pawltest.Postgres, withKey(t))
	app := from.Another(engine.Options{})
	need[pawl.Task](t)(pawl.Create(pawl.As(ctx, pawl.Caller{Namespace: "team"}), app, pawl.NewTask{Type: "a"}))
	need[pawl.Task](t)(pawl.Create(ctx, app, pawl.NewTask{Type: "a"}))
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, from.URL))
	defer conn.Close(ctx)
	create := func() {
		tx := need[pgx.Tx](t)(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
		need[pawl.Task](t)(pawl.Create(ctx, app.In(tx), pawl.NewTask{Type: "a"}))
		ok(t, tx.Commit(ctx))
	}
	moveAll(t, from, to, engine.Move{Namespace: "team", Step: func(name string) {
		if name == "copied" || name == "verified" {
			create()
		}
	}})
	create()
}
