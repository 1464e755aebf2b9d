package stats_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

func first[T any](rs []pawl.Result[T], err error) (T, error) { return pawltest.First(rs, err) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	return pawltest.NewCalls(t, svc).ClaimN(n, req)
}

// count reads a number from the database.
func count(t testing.TB, p *pawltest.Pawl, query string) (n int) {
	t.Helper()
	ok(t, p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, query)
		return err
	}))
	return n
}
