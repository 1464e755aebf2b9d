package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A process without Run writes the workers of its claims too, a thousand at a time.
func TestWorkersAreWrittenWithoutRun(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for i := range 1100 {
			need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: fmt.Sprint("w", i), Types: []string{"none"}}))
		}
		var n int
		ok(t, p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.workers")
			return err
		}))
		if n != 1000 {
			t.Errorf("%d workers are written", n)
		}
	})
}

// Workers that could not be written are written later.
func TestWorkersThatCouldNotBeWrittenAreKept(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"none"}}))
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := p.Engine.ListWorkers(ended, pawl.WorkerFilter{}); err == nil {
			t.Error("a call that has ended lists workers")
		}
		if got := need[pawl.List[pawl.WorkerInfo]](t)(p.Engine.ListWorkers(t.Context(), pawl.WorkerFilter{})).Items; len(got) != 1 {
			t.Errorf("%d workers", len(got))
		}
	})
}
