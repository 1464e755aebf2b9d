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
		need[int64](t)(other.Feed().Head(t.Context()))
		g.work(other, "k")
		var keys []pawl.APIKey
		for _, name := range []string{"first", "second"} {
			k, _, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: name, Roles: []string{"claimer"}})
			ok(t, err)
			keys = append(keys, k)
		}
		with := func(i int) context.Context {
			return pawl.As(t.Context(), pawl.Caller{Namespace: pawl.DefaultNamespace, Key: keys[i].ID})
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), other, pawl.NewTask{Type: "b"}))
		l := need[[]pawl.Lease](t)(other.Claim(with(0), pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}))[0]
		ok(t, p.Exec("DELETE FROM pawl.gates")) // the failover
		ok(t, p.Exec("UPDATE pawl.leases SET key_id = '"+keys[1].ID+"'"))
		ok(t, p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := store.RaiseEpoch(ctx, tx, 0)
			return err
		}))
		need[int64](t)(other.Feed().Head(t.Context()))
		keyed(t, other, "a", 1, "k")
		leases(t, p.Engine, anyOfA, 1)
		if _, err := pawl.Complete(with(1), other, l.Fence(), nil); err != nil {
			t.Errorf("the key that has the attempt now: %v", err)
		}
	})
}
