package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The items of a large copy are claimed soon in queues with limits, as those of a small one.
func TestItemsOfALargeCopyAreClaimedWithLimits(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, typ := range []string{"a", "b"} {
			need[pawl.Queue](t)(p.Engine.SetQueue(t.Context(), typ, pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
		}
		task := pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 2100)}
		for i := range task.Items {
			task.Items[i] = pawl.NewItem{Input: fmt.Appendf(nil, `{"k":%d}`, i), Type: []string{"a", "b"}[i%2]}
		}
		of := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, task))
		p.Advance(5 * time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		clone := need[pawl.Task](t)(first(p.Engine.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of.ID}})))
		p.Advance(time.Second)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		for _, typ := range []string{"a", "b"} {
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, TaskID: clone.ID, Limit: 10}, 10)
		}
	})
}
