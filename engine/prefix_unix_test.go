//go:build unix

package engine_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Two processes and the application itself write to one file at once. No write is refused, and all work is done.
func TestTwoProcessesWriteToAnApplicationsFile(t *testing.T) {
	ctx := t.Context()
	url, db := shop(t)
	e := need[*engine.Engine](t)(engine.OpenWith(ctx, url, engine.Options{Identity: "check"}))
	t.Cleanup(func() { _ = e.Close() })
	other := start(t, &pawltest.Pawl{Engine: e, URL: url}, "worker", "PAWL_TEST_SEED=1")
	const n = 60
	for i := range n {
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "invoice", MaxAttempts: 100}))
		need[sql.Result](t)(db.Exec("INSERT INTO tasks VALUES ($1, $2)", i, fmt.Sprint("order ", i)))
		if i == 0 {
			if first, there := other.read(t); !there || first.Item == "" {
				t.Fatalf("the other process wrote nothing: %+v", first)
			}
		}
		for _, l := range need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "here"})) {
			need[pawl.Moved](t)(pawl.Complete(ctx, e, l.Fence(), nil))
		}
	}
	until(t, "all tasks have completed", func() bool {
		need[pawl.SweepStats](t)(e.Sweep(ctx)) // a lease may end on a busy machine
		return count(t, db, "pawl_v_tasks WHERE state = 'completed'") == n
	})
	if rows := count(t, db, "tasks"); rows != n {
		t.Errorf("%d rows of the application", rows)
	}
	if breaches, err := e.Check(ctx); err != nil || len(breaches) > 0 {
		t.Error(breaches, err)
	}
}
