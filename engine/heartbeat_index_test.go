package engine_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A heartbeat of every lease finds room for the new rows on the pages of the old ones, so it
// adds no entry to an index.
func TestHeartbeatsAddNoIndexEntries(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	const n = pawl.MaxClaim
	tasks := make([]pawl.NewTask, n)
	for i := range tasks {
		tasks[i].Type = "a"
	}
	if _, err := p.Service.CreateTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	leases, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, Limit: n})
	if err != nil || len(leases) != n {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	calls := make([]pawl.HeartbeatCall, n)
	for i, l := range leases {
		calls[i].Fence = pawl.Fence{ItemID: l.ID, WorkerID: "w", Attempt: l.Attempt}
	}
	before := sizeOfLeaseKeys(t, p)
	if _, err := p.Service.Heartbeat(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	if after := sizeOfLeaseKeys(t, p); after != before {
		t.Errorf("the index of leases grew from %d to %d bytes", before, after)
	}
}

func sizeOfLeaseKeys(t *testing.T, p *pawltest.Pawl) (n int64) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		rows, err := tx.Query(ctx, "SELECT pg_relation_size('pawl.leases_pkey')")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
