package budgets_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// leases claims n items.
func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	return pawltest.NewCalls(t, svc).ClaimN(n, req)
}
