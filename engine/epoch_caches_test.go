package engine_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A process that learns of a new epoch, which begins when a failover or restore may have lost something, does not use what
// it knew of keys of queues and of attempts.
func TestANewEpochForgetsWhatMayBeLost(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g, other := newIdleGates(t, p), p.Another(engine.Options{})
		ok(t, other.Feed().Log(t.Context()))
		g.work(other, "k")
		first := need[pawl.NewKey](t)(p.Engine.CreateKey(t.Context(), pawl.KeySpec{Name: "first", Roles: []pawl.Role{pawl.RoleWorker}}))
		second := need[pawl.NewKey](t)(p.Engine.CreateKey(t.Context(), pawl.KeySpec{Name: "second", Roles: []pawl.Role{pawl.RoleWorker}}))
		with := func(k pawl.NewKey) context.Context {
			return pawl.As(t.Context(), pawl.Caller{Namespace: pawl.DefaultNamespace, Key: k.ID})
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), other, pawl.NewTask{Type: "b"}))
		l := need[[]pawl.Lease](t)(other.Claim(with(first), pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}))[0]
		ok(t, p.Exec("DELETE FROM pawl.gates")) // the failover
		ok(t, p.Exec("UPDATE pawl.leases SET key_id = '"+second.ID+"'"))
		ok(t, p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := store.RaiseEpoch(ctx, tx, 0)
			return err
		}))
		ok(t, other.Feed().Log(t.Context()))
		keyed(t, other, "a", 1, "k")
		leases(t, p.Engine, anyOfA, 1)
		if _, err := pawl.Complete(with(second), other, l.Fence(), nil); err != nil {
			t.Errorf("the key that has the attempt now: %v", err)
		}
	})
}
