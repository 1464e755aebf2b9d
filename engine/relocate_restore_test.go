package engine_test

import (
	"context"
	"slices"
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

// The target of a namespace receives what has ended some rows at a time, and other namespaces are written to in between.
func TestANamespaceIsReceivedInParts(t *testing.T) {
	t.Parallel()
	someMoves(t, func(from, to pawltest.Database) bool { return from != to }, func(t *testing.T, from, to *pawltest.Pawl) {
		const n = 1100
		for range n / 100 {
			_, err := from.Service.CreateTasks(t.Context(), slices.Repeat([]pawl.NewTask{{Type: "a"}}, 100))
			ok(t, err)
			var calls []pawl.CompleteCall
			for _, l := range leases(t, from.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 100) {
				calls = append(calls, pawl.CompleteCall{Fence: l.Fence()})
			}
			_, err = from.Service.Complete(t.Context(), calls)
			ok(t, err)
		}
		other := pawl.As(t.Context(), pawl.Caller{Namespace: "other"})
		var received []int64
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(step string) {
			if step == "received some" {
				received = append(received, countsOf(t, to, "default")["finished_items"])
				need[pawl.Task](t)(pawl.Create(other, to.Service, pawl.NewTask{Type: "others"}))
			}
		}})
		if !slices.Equal(received, []int64{0, 1000, n}) || countsOf(t, to, "default")["finished_items"] != n {
			t.Errorf("received %v of %d", received, n)
		}
	})
}
