package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// inputs creates a task of n items with one input.
func inputs(t *testing.T, p *pawltest.Pawl, typ string, n int, input json.RawMessage) pawl.Task {
	t.Helper()
	items := make([]pawl.NewItem, n)
	for i := range items {
		items[i].Input = input
	}
	return need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: typ, Items: items}))
}

// within checks that a claim's answer is at most one page and one value large.
func within(t *testing.T, leases []pawl.Lease) {
	t.Helper()
	size := 0
	for _, l := range leases {
		size += len(l.Input)
	}
	if size >= pawl.MaxClaimBytes+pawl.MaxPayloadBytes {
		t.Errorf("a claim of %d items has %d bytes", len(leases), size)
	}
}

// A claim whose inputs reach the bytes of a page returns fewer items than it asks for, in
// order. The next claims get the rest, by any kind of claim.
func TestClaimsAreBoundedByBytes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		for name, claim := range map[string]func(task pawl.Task) ([]pawl.Lease, error){
			"by type": func(task pawl.Task) ([]pawl.Lease, error) {
				return e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{task.Type}, Limit: pawl.MaxClaim, WaitSeconds: 60})
			},
			"of several types": func(task pawl.Task) ([]pawl.Lease, error) {
				return e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{task.Type, task.Type + " small"}, Limit: pawl.MaxClaim})
			},
			"of a task": func(task pawl.Task) ([]pawl.Lease, error) {
				return e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: pawl.MaxClaim})
			},
			"with provenance": func(task pawl.Task) ([]pawl.Lease, error) {
				return e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{task.Type}, Limit: pawl.MaxClaim,
					Provenance: &pawl.Provenance{AgentName: "ana"}})
			},
			"under a key": func(task pawl.Task) (leases []pawl.Lease, err error) {
				_, _, err = e.Idempotent(ctx, pawl.KeyBegin{Key: task.ID, RequestHash: task.ID}, func(ctx context.Context,
					svc pawl.Service) (_ *pawl.Answer, err error) {
					leases, err = svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{task.Type}, Limit: pawl.MaxClaim})
					return &pawl.Answer{Code: 200}, err
				})
				return leases, err
			},
		} {
			t.Run(name, func(t *testing.T) {
				inputs(t, p, name+" small", 30, json.RawMessage(`1`))
				heavy := inputs(t, p, name, 20, megabyte(0))
				count, claims, last := 0, 0, ""
				for ; count < heavy.Items; claims++ {
					leases := need[[]pawl.Lease](t)(claim(heavy))
					if within(t, leases); len(leases) == 0 {
						t.Fatalf("nothing after %d items", count)
					}
					for _, l := range leases {
						if l.Type == heavy.Type {
							count++
						}
						if l.ID <= last {
							t.Errorf("%s comes after %s", l.ID, last)
						}
						last = l.ID
					}
					if name == "under a key" {
						break // the same key has the same answer
					}
				}
				if claims > 5 {
					t.Errorf("%d claims", claims)
				}
			})
		}
	})
}

// When several callers claim large inputs at the same moment, each gets at least one item
// while there are enough, and none gets more than the bytes of a page.
func TestConcurrentClaimsOfLargeInputs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const callers = 6
		for range callers / 2 { // as many as each may get
			inputs(t, p, "heavy", 20, megabyte(0))
		}
		var mu sync.Mutex
		seen := map[string]bool{}
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				leases, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: fmt.Sprint("w", n), Limit: 40, WaitSeconds: 60})
				if err != nil || len(leases) == 0 {
					t.Errorf("caller %d: %d items, %v", n, len(leases), err)
				}
				within(t, leases)
				mu.Lock()
				defer mu.Unlock()
				for _, l := range leases {
					if seen[l.ID] || l.WorkerID != fmt.Sprint("w", n) {
						t.Errorf("%s was claimed twice", l.ID)
					}
					seen[l.ID] = true
				}
			})
		}
		all.Wait()
	})
}

// Errors of earlier attempts count towards the bytes of a claim.
func TestErrorsCountTowardsTheBytesOfAClaim(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e, n := t.Context(), p.Engine, 170
		task := inputs(t, p, "a", n, json.RawMessage(`1`))
		detail := json.RawMessage(`"` + strings.Repeat("x", pawl.MaxErrorBytes-100) + `"`)
		now := int64(0)
		for _, l := range need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Limit: n})) {
			call := pawl.FailCall{Fence: l.Fence(), Error: pawl.Failure{Message: "no", Detail: detail}, RetryAfterMS: &now}
			need[pawl.Moved](t)(first(e.Fail(ctx, []pawl.FailCall{call})))
		}
		leases := need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: n}))
		if len(leases) < 100 || len(leases) > 150 {
			t.Errorf("%d items with errors of 64 KiB", len(leases))
		}
	})
}
