package engine_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A namespace does not move while a task of it is restored in parts, and none is restored in parts while it moves.
func TestARestoreInPartsAndAMove(t *testing.T) {
	t.Parallel()
	someMoves(t, func(from, to pawltest.Database) bool { return from != to }, func(t *testing.T, from, to *pawltest.Pawl) {
		work(t, from)
		restore := func(end bool) (begun bool) {
			ok(t, from.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				c := store.Copy{TaskID: "tsk_01890a5d-ac96-774b-bcce-b302099a8057", Token: "t"}
				if end {
					return c.End(ctx, tx)
				}
				begun, err = c.BeginRestore(ctx, tx, pawl.DefaultNamespace)
				return err
			}))
			return begun
		}
		move := engine.Move{Namespace: pawl.DefaultNamespace}
		if !restore(false) {
			t.Error("a restore in parts is refused")
		}
		if _, err := from.Engine.Relocate(t.Context(), to.Engine, move); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a move beside a restore: %v", err)
		}
		restore(true)
		move.Step = func(step string) {
			if step == "source" && restore(false) {
				t.Error("a restore in parts has begun beside a move")
			}
		}
		if _, err := from.Engine.Relocate(t.Context(), to.Engine, move); err != nil {
			t.Error(err)
		}
	})
}
