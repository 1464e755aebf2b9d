package children_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func first[T any](rs []pawl.Result[T], err error) (T, error) { return pawltest.First(rs, err) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leases claims n items.
func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	return pawltest.NewCalls(t, svc).ClaimN(n, req)
}

func awaitChildren(svc pawl.Service, l pawl.Lease, w pawl.ChildWait) error {
	_, err := first(svc.Suspend(context.Background(), []pawl.SuspendCall{{Fence: l.Fence(), Children: &w}}))
	return err
}

type fixture struct {
	*testing.T
	*pawltest.Pawl
}

func (o fixture) count(query string) (n int) {
	o.Helper()
	o.OK(o.Engine.DB().View(o.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, query)
		return err
	}))
	return n
}
