package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// hinted is a queue with keys, of which each has two items, and the hints of its keys.
type hinted struct {
	*testing.T
	p    *pawltest.Pawl
	keys int
}

var anyOfA = pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, LeaseSeconds: 3600}

func newHinted(t *testing.T, p *pawltest.Pawl, limits string) hinted {
	h := hinted{t, p, 70} // more than a claim looks at first
	need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(limits)))
	keys := make([]string, h.keys)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	keyed(t, p.Engine, "a", 2, keys...)
	return h
}

// nothing checks that a claim gets nothing, and how many keys the next one looks at.
func (h hinted) nothing(next int) {
	h.Helper()
	if got := need[[]pawl.Lease](h)(h.p.Engine.Claim(h.Context(), anyOfA)); len(got) > 0 {
		h.Fatalf("%d items were claimed", len(got))
	}
	o := typeFixture{T: h.T, Pawl: h.p}
	if n := o.count("SELECT COUNT(*) FROM pawl.gate_hints WHERE at = 0"); n != next {
		h.Errorf("the next claim looks at %d keys, want %d", n, next)
	}
}

// A claim that finds nothing looks only at keys of which something has changed since.
func TestAnEmptyClaimLooksAtNoFullKey(t *testing.T) {
	for name, limits := range map[string]string{
		"turns": `{"per_key":{"pointer":"/k","concurrency":1}}`,
		"age":   `{"per_key":{"pointer":"/k","concurrency":1,"fair":false}}`,
		"order": `{"per_key":{"pointer":"/k","order":"created"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				h := newHinted(t, p, limits)
				held := leases(t, p.Engine, anyOfA, h.keys)
				h.nothing(0)
				keyed(t, p.Engine, "a", 1, "k3", "k5") // of full keys
				h.nothing(0)
				need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, held[2].Fence(), nil))
				leases(t, p.Engine, anyOfA, 1)
				h.nothing(0)
				p.Advance(time.Hour)
				need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				leases(t, p.Engine, anyOfA, h.keys)
				h.nothing(0)
			})
		})
	}
}

// Limits that allow more are looked at for all keys.
func TestRaisedLimitsAreLookedAt(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := newHinted(t, p, `{"per_key":{"pointer":"/k","concurrency":1}}`)
		leases(t, p.Engine, anyOfA, h.keys)
		h.nothing(0)
		need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "a", pawl.QueuePatch(`{"per_key":{"concurrency":2}}`)))
		leases(t, p.Engine, anyOfA, h.keys)
		h.nothing(0)
	})
}

// A key whose rate allows no start is looked at again when it does, also after the clock went back.
func TestARateIsLookedAtInTime(t *testing.T) {
	for name, back := range map[string]time.Duration{"on": 0, "back": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.Postgres) // the clock of SQLite never goes back
			h := newHinted(t, p, `{"per_key":{"pointer":"/k","rate":{"limit":1,"seconds":60}}}`)
			leases(t, p.Engine, anyOfA, h.keys)
			var next time.Time
			if got := need[[]pawl.Lease](t)(p.Engine.Claim(pawl.WithNextAt(t.Context(), &next), anyOfA)); len(got) > 0 {
				t.Fatal("a rate was exceeded")
			}
			if want := p.Now().Add(time.Minute); !next.Equal(want) {
				t.Errorf("the next start is at %v, want %v", next, want)
			}
			h.nothing(0)
			p.Advance(-back)
			h.nothing(0)
			p.Advance(time.Minute)
			leases(t, p.Engine, anyOfA, h.keys)
			h.nothing(0)
		})
	}
}

// What an order holds up is looked at again when the item before it leaves its place.
func TestWhatAnOrderHoldsUpIsLookedAtAgain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		h := newHinted(t, p, `{"per_key":{"pointer":"/k","order":"created"}}`)
		held := leases(t, p.Engine, anyOfA, h.keys)
		until := p.Now().Add(time.Hour)
		for i, l := range held {
			if i%2 == 0 {
				call := pawl.FailCall{Fence: l.Fence(), RetryAfterMS: new(int64(3_600_000)), Error: pawl.Failure{Message: "a"}}
				need[pawl.Moved](t)(first(p.Engine.Fail(ctx, []pawl.FailCall{call})))
			} else {
				need[pawl.Moved](t)(first(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &until}})))
			}
		}
		h.nothing(0)
		for _, l := range held[:2] {
			need[pawl.Task](t)(first(p.Engine.CancelTasks(ctx, []pawl.TaskCall{{TaskID: l.TaskID}})))
		}
		leases(t, p.Engine, anyOfA, 2)
		h.nothing(0)
		p.Advance(time.Hour)
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if got := len(leases(t, p.Engine, anyOfA, h.keys-2)); got != h.keys-2 {
			t.Errorf("%d were claimed", got)
		}
	})
}

// A claim beside an open transaction that makes room or work forgets neither.
func TestAnEmptyClaimForgetsNoOpenTransaction(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
	keyed(t, p.Engine, "a", 2, "x")
	held := leases(t, p.Engine, anyOfA, 1)[0]
	tx, commit := transaction(t, p)
	need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine.In(tx), held.Fence(), nil))
	keyed(t, p.Engine.In(tx), "a", 1, "y")
	for range 3 {
		leases(t, p.Engine, anyOfA, 0)
	}
	commit()
	leases(t, p.Engine, anyOfA, 2)
	leases(t, p.Engine, anyOfA, 0)
}

// A claim in a transaction of several verbs looks only at keys of which something has changed, and a sweep
// removes what such claims leave.
func TestAClaimInATransactionLooksAtNoFullKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h, ctx := newHinted(t, p, `{"per_key":{"pointer":"/k","concurrency":1}}`), t.Context()
		var walks atomic.Int64
		e := p.Another(engine.Options{Statement: func(text string) {
			if strings.Contains(text, "r.gate > g.gate") && !strings.Contains(text, "INSERT") { // over all keys with work
				walks.Add(1)
			}
		}})
		calls := 0
		claim := func(limit int) (out []pawl.Lease) {
			t.Helper()
			calls++
			_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "POST x", Key: strconv.Itoa(calls), RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					req := anyOfA
					req.Limit = limit
					out = need[[]pawl.Lease](t)(svc.Claim(ctx, req))
					return &pawl.Answer{Code: 200}, nil
				})
			ok(t, err)
			return out
		}
		var held []pawl.Lease
		for len(held) < h.keys {
			got := claim(10)
			if held = append(held, got...); len(got) == 0 {
				t.Fatalf("only %d items were claimed", len(held))
			}
		}
		if got := claim(10); len(got) > 0 {
			t.Errorf("%d items of full keys were claimed", len(got))
		}
		if n := walks.Load(); n > 0 {
			t.Errorf("claims walked over all keys %d times", n)
		}
		p.Advance(3 * time.Second)
		for range 2 { // the first one searches for items without a key, and has all keys looked at
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
		o := typeFixture{T: t, Pawl: p}
		if n := o.count("SELECT COUNT(*) FROM pawl.gate_hints WHERE at = 0"); n != 0 {
			t.Errorf("%d hints are left", n)
		}
		need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, held[2].Fence(), nil))
		if got := claim(10); len(got) != 1 {
			t.Errorf("%d items were claimed", len(got))
		}
	})
}
