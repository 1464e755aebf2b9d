package engine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// idleGates is a queue with keys that are not used any more.
type idleGates struct{ typeFixture }

func newIdleGates(t *testing.T, p *pawltest.Pawl) idleGates {
	need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
	return idleGates{typeFixture{t, p}}
}

func (g idleGates) sweep() { g.Helper(); need[pawl.SweepStats](g)(g.Engine.Sweep(g.Context())) }

// age lets d pass and sweeps.
func (g idleGates) age(d time.Duration) { g.Helper(); g.Advance(d); g.sweep() }

// work creates an item of each key in an engine, and completes it.
func (g idleGates) work(e *engine.Engine, keys ...string) {
	g.Helper()
	keyed(g.T, e, "a", 1, keys...)
	for _, l := range leases(g, e, anyOfA, len(keys)) {
		need[pawl.Moved](g)(pawl.Complete(g.Context(), e, l.Fence(), nil))
	}
}

func (g idleGates) is(key string, want bool) {
	g.Helper()
	if is := g.count("SELECT COUNT(*) FROM pawl.gates WHERE key = '"+key+"'") == 1; is != want {
		g.Errorf("%s is there: %v", key, is)
	}
}

// A key that nothing has used for an hour is removed, and its number is not given again. One that
// anything refers to stays.
func TestIdleKeysAreRemoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g, ctx := newIdleGates(t, p), t.Context()
		g.work(p.Engine, "idle", "again")
		until := p.Now().Add(100 * time.Hour)
		keyed(t, p.Engine, "a", 1, "leased", "backing off", "suspended", "dead")
		for i, l := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, LeaseSeconds: 86400}, 4) {
			switch i {
			case 1:
				call := pawl.FailCall{Fence: l.Fence(), RetryAfterMS: new(int64(100 * 3_600_000)), Error: pawl.Failure{Message: "a"}}
				need[pawl.Moved](t)(first(p.Engine.Fail(ctx, []pawl.FailCall{call})))
			case 2:
				need[pawl.Moved](t)(first(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &until}})))
			case 3:
				call := pawl.FailCall{Fence: l.Fence(), Retryable: new(false), Error: pawl.Failure{Message: "a"}}
				need[pawl.Moved](t)(first(p.Engine.Fail(ctx, []pawl.FailCall{call})))
			}
		}
		keyed(t, p.Engine, "a", 1, "queued", "newest")
		for _, l := range leases(t, p.Engine, anyOfA, 2) {
			if string(l.Input) == `{"k":"newest"}` {
				need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, l.Fence(), nil))
			} else {
				need[pawl.Moved](t)(first(p.Engine.Release(ctx, []pawl.ReleaseCall{{Fence: l.Fence()}})))
			}
		}
		newest := g.count("SELECT MAX(id) FROM pawl.gates")
		g.sweep()
		g.age(59 * time.Minute)
		g.is("idle", true)
		g.age(time.Minute)
		for _, key := range []string{"leased", "backing off", "suspended", "dead", "queued", "newest"} {
			g.is(key, true)
		}
		g.is("idle", false)
		g.is("again", false)
		g.work(p.Engine, "again", "idle")
		if n := g.count("SELECT COUNT(*) FROM pawl.gates WHERE id > " + strconv.Itoa(newest)); n != 2 {
			t.Errorf("%d numbers are new", n)
		}
	})
}

// A key that another process has used within the hour stays.
func TestAKeyInUseIsNotIdle(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g, other := newIdleGates(t, p), p.Another(engine.Options{})
		g.work(p.Engine, "k", "newest")
		g.sweep()
		p.Advance(50 * time.Minute)
		g.work(other, "k")
		g.age(50 * time.Minute)
		g.is("k", true)
		g.age(61 * time.Minute)
		g.is("k", false)
	})
}

// A process uses the number of a key that it has read for 5 minutes. If it was frozen for an hour
// in between, its item gets another number by the next sweep.
func TestAnItemOfAKeyThatIsGone(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g, other := newIdleGates(t, p), p.Another(engine.Options{})
		g.work(other, "k", "newest")
		g.sweep()
		g.age(time.Hour)
		g.is("k", false)
		g.sweep()
		keyed(t, other, "a", 1, "k")
		if got := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), anyOfA)); len(got) > 0 {
			t.Fatal("an item without a gate was claimed")
		}
		g.sweep()
		leases(t, p.Engine, anyOfA, 1)
		g.is("k", true)
		other.AgeGates(5*time.Minute + time.Second)
		g.work(other, "newest")
	})
}

// What this process knows of a key ends after 5 minutes, and when it removes keys.
func TestKeysAreKnownForMinutes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g, other := newIdleGates(t, p), p.Another(engine.Options{})
		g.work(other, "k", "newest")
		g.work(p.Engine, "k")
		g.sweep()
		g.age(time.Hour)
		other.AgeGates(5*time.Minute + time.Second)
		g.work(other, "k")
		g.sweep()
		g.age(time.Hour)
		g.work(p.Engine, "k")
	})
}

// A transaction that was open while the key of its item was removed: the item gets another one.
func TestAKeyIsRemovedBesideAnOpenTransaction(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	g, ctx := newIdleGates(t, p), t.Context()
	g.work(p.Engine, "k", "newest")
	tx, commit := transaction(t, p)
	keyed(t, p.Engine.In(tx), "a", 1, "k")
	g.sweep()
	g.age(time.Hour)
	g.is("k", false)
	g.sweep()
	commit()
	if got := need[[]pawl.Lease](t)(p.Engine.Claim(ctx, anyOfA)); len(got) > 0 {
		t.Fatal("an item without a gate was claimed")
	}
	g.sweep()
	leases(t, p.Engine, anyOfA, 1)
}

// A gate that a claim in an open transaction locks is lent, and no call waits for it.
func TestALockedIdleKeyIsLent(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	g, other := newIdleGates(t, p), p.Another(engine.Options{})
	g.work(p.Engine, "k", "newest")
	g.sweep()
	keyed(t, p.Engine, "a", 2, "k") // by the number that this process knows
	tx, commit := transaction(t, p)
	leases(t, p.Engine.In(tx), anyOfA, 1)
	began := time.Now()
	keyed(t, other, "a", 1, "k")
	if d := time.Since(began); d > time.Second {
		t.Errorf("a create waited for %v", d)
	}
	g.age(time.Hour)
	g.is("k", true)
	commit()
}

// The number of a gate that is being removed is used once, and waits for nothing.
func TestAGateIsReadWhileItIsRemoved(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	g, other := newIdleGates(t, p), p.Another(engine.Options{})
	g.work(p.Engine, "k", "newest")
	g.sweep()
	tx, commit := transaction(t, p)
	if _, err := tx.Exec(t.Context(), "DELETE FROM "+p.Schema+".gates WHERE key = 'k'"); err != nil {
		t.Fatal(err)
	}
	keyed(t, other, "a", 1, "k")
	commit()
	g.work(other, "k")
	g.sweep()
	leases(t, p.Engine, anyOfA, 1)
}
