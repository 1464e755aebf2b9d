package stats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A process without Run writes the workers of its claims too, a thousand at a time.
func TestWorkersAreWrittenWithoutRun(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for i := range 1100 {
			need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: fmt.Sprint("w", i), Types: []string{"none"}}))
		}
		if n := count(t, p, "SELECT COUNT(*) FROM pawl.workers"); n != 1000 {
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

// Workers are removed a week after they were last seen, and the number of a namespace is bounded.
func TestWorkersAreForgotten(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		insert := func(namespace string, n int) {
			ok(t, p.Exec(fmt.Sprintf(`INSERT INTO pawl.workers (namespace, worker_id, started_at, last_seen_at)
				WITH RECURSIVE ns(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ns WHERE n < %d)
				SELECT '%s', 'w' || n, %d, %d + n FROM ns`, n, namespace, p.Now().UnixMicro(), p.Now().UnixMicro())))
		}
		kept := func(which string, want int) {
			t.Helper()
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			if n := count(t, p, "SELECT COUNT(*) FROM pawl.workers WHERE "+which); n != want {
				t.Errorf("%s: %d workers, want %d", which, n, want)
			}
		}
		insert("few", 3)
		p.Advance(pawl.RetainWorkers - time.Minute)
		kept("namespace = 'few'", 3)
		insert("many", pawl.MaxWorkers+1100)
		p.Advance(2 * time.Minute)
		kept("namespace = 'few'", 0)
		kept("namespace = 'many'", pawl.MaxWorkers)
		kept("worker_id = 'w1100'", 0) // it was seen before the others
	})
}
