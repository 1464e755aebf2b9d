package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// fairLoad is a queue whose workers each take a batch, work on it for serviceTicks, and take the
// next one. They begin one after the other. Time moves in ticks.
type fairLoad struct {
	patch     string
	batch     int  // of each worker, which has as many slots
	claimers  int  // workers, on two engines
	priority  int  // of the large tenant's items
	bigWaits  bool // the large tenant has items queued
	perTenant map[string]int
}

const (
	fairTick     = 100 * time.Millisecond
	serviceTicks = 10
	fairSlots    = 10
	fairBig      = 1980 // items of the large tenant
	fairSmall    = 20
)

// run returns how long the small tenant's items waited, in order of their claims. One arrives
// every 300 ms, at the beginning of a tick; claims come at the end of it.
func (f *fairLoad) run(t *testing.T, which pawltest.Database) (waits []time.Duration) {
	p := pawltest.Open(t, which)
	ctx := t.Context()
	engines := []*engine.Engine{p.Engine}
	for len(engines) < min(f.claimers, 2) {
		engines = append(engines, p.Another(engine.Options{}))
	}
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "f", pawl.QueuePatch(f.patch)))
	task := func(tenant string, priority int) pawl.NewTask {
		return pawl.NewTask{Type: "f", Payload: json.RawMessage(fmt.Sprintf(`{"t":%q}`, tenant)), Priority: priority}
	}
	if f.bigWaits {
		need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(ctx, slices.Repeat([]pawl.NewTask{task("big", f.priority)}, fairBig)))
	}
	running := make([][]pawl.Lease, f.claimers)
	until := make([]int, f.claimers) // the tick at which each worker is done
	f.perTenant = map[string]int{}
	arrived := map[string]time.Time{}
	for tick, made := 0, 0; len(waits) < fairSmall && tick < 500; tick++ {
		if tick%3 == 0 && made < fairSmall {
			made++
			arrived[need[pawl.Task](t)(pawl.Create(ctx, engines[made%len(engines)], task("small", 0))).ID] = p.Now()
		}
		p.Advance(fairTick)
		for c := range f.claimers {
			e := engines[c%len(engines)]
			if tick < c*serviceTicks/f.claimers || len(running[c]) > 0 && tick < until[c] {
				continue // it has not begun, or works
			}
			for _, l := range running[c] {
				need[pawl.Moved](t)(pawl.Complete(ctx, e, l.Fence(), nil))
			}
			running[c] = need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{
				WorkerID: fmt.Sprint("w", c), Types: []string{"f"}, Limit: f.batch, LeaseSeconds: 3600}))
			until[c] = tick + serviceTicks
			for _, l := range running[c] {
				tenant := "big"
				if at, is := arrived[l.TaskID]; is {
					waits, tenant = append(waits, p.Now().Sub(at)), "small"
				}
				f.perTenant[tenant]++
			}
		}
	}
	if len(waits) != fairSmall {
		t.Fatalf("%d of %d items of the small tenant were claimed", len(waits), fairSmall)
	}
	return waits
}

func p95(waits []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(waits))
	return sorted[(len(sorted)*95+99)/100-1]
}

// A small tenant's items wait at most twice as long beside a tenant with a hundred times as many
// as they wait alone, for batches no larger than the free slots.
func TestASmallTenantWaitsNotMuchLonger(t *testing.T) {
	limits := fmt.Sprintf(`{"concurrency":%d,"per_key":{"pointer":"/t"}}`, fairSlots)
	for name, f := range map[string]fairLoad{
		"one at a time":    {patch: limits, batch: 1, claimers: fairSlots},
		"batches":          {patch: limits, batch: 5, claimers: 2},
		"one batch":        {patch: limits, batch: fairSlots, claimers: 1},
		"a large priority": {patch: limits, batch: 1, claimers: fairSlots, priority: 100},
	} {
		for _, which := range pawltest.Databases {
			t.Run(name+"/"+string(which), func(t *testing.T) {
				t.Parallel()
				f := f
				alone := p95(f.run(t, which))
				f.bigWaits = true
				beside := p95(f.run(t, which))
				t.Logf("p95 alone %v, beside %v; claimed %v", alone, beside, f.perTenant)
				if beside > 2*alone {
					t.Errorf("the small tenant's p95 wait is %v, and %v alone", beside, alone)
				}
				if f.perTenant["big"] < f.perTenant["small"] {
					t.Errorf("the large tenant did not use the free slots: %v", f.perTenant)
				}
			})
		}
	}
}

// Tenants that always have items share the slots by their weights, within a tenth.
func TestTenantsShareByWeight(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, which)
			weights := map[string]int{"a": 1, "b": 2, "c": 5}
			need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), "f",
				pawl.QueuePatch(`{"concurrency":10,"per_key":{"pointer":"/t","weights":{"b":2,"c":5}}}`)))
			tenantOf := map[string]string{}
			for tenant := range weights {
				made := need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(),
					slices.Repeat([]pawl.NewTask{{Type: "f", Payload: json.RawMessage(`{"t":"` + tenant + `"}`)}}, 150)))
				for _, m := range made {
					tenantOf[m.Value.ID] = tenant
				}
			}
			engines := []*engine.Engine{p.Engine, p.Another(engine.Options{})}
			got := map[string]int{}
			const claims = 160
			for n := 0; n < claims; {
				e := engines[n/20%len(engines)]
				for _, l := range need[[]pawl.Lease](t)(e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 5})) {
					got[tenantOf[l.TaskID]]++
					n++
					need[pawl.Moved](t)(pawl.Complete(t.Context(), e, l.Fence(), nil))
				}
			}
			for tenant, weight := range weights {
				if want := float64(claims*weight) / 8; float64(got[tenant]) < 0.9*want || float64(got[tenant]) > 1.1*want {
					t.Errorf("%s with weight %d got %d of %d, want %.0f", tenant, weight, got[tenant], claims, want)
				}
			}
		})
	}
}
