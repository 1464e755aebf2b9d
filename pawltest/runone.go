package pawltest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/worker"
)

// RunOne lets the handlers run one claimable item once. It returns the item as it is
// afterwards: completed, submitted, suspended, failed, or scheduled for its next attempt. It
// fails the test if there is no such item.
func RunOne(t testing.TB, svc pawl.Service, handlers ...worker.Handler) pawl.Item {
	t.Helper()
	o := &once{Service: svc}
	err := worker.RunWith(
		t.Context(),
		o,
		worker.Options{Concurrency: 1, NoPrefetch: true, Drain: true, Logger: slog.New(slog.DiscardHandler)},
		handlers...)
	if err != nil {
		t.Fatalf("the worker: %v", err)
	}
	if o.id == "" {
		t.Fatal("there is no item that the handlers could claim")
	}
	it, err := svc.GetItem(t.Context(), o.id)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// once lets one item be claimed.
type once struct {
	pawl.Service
	id string
}

func (o *once) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if o.id != "" {
		return nil, nil
	}
	req.Limit = 1
	leases, err := o.Service.Claim(ctx, req)
	if len(leases) > 0 {
		o.id = leases[0].ID
	}
	return leases, err
}
