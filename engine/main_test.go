package engine_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// TestMain runs the tests, or runs as one of their worker processes.
func TestMain(m *testing.M) {
	flag.Parse()
	if role := os.Getenv("PAWL_TEST_PROCESS"); role != "" {
		os.Exit(beProcess(role))
	}
	if flag.Lookup("rapid.checks").Value.String() == "100" {
		_ = flag.Set("rapid.checks", fmt.Sprint(times(20, 2000)))
	}
	_ = flag.Set("rapid.nofailfile", "true") // the seed is printed
	pawltest.Main(m)
}

// times returns how often a test repeats itself: fewer times in `make test`, more in
// `make torture`.
func times(short, long int) int {
	if os.Getenv("PAWL_TORTURE") == "1" {
		return long
	}
	return short
}

// withKey are the options of an engine that signs with a key of the test's.
func withKey(t *testing.T) engine.Options {
	return engine.Options{TransparencyLog: engine.LogOptions{Key: filepath.Join(t.TempDir(), "key")}}
}

func first[T any](rs []pawl.Result[T], err error) (T, error) { return pawltest.First(rs, err) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// leases claims n items.
func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	return pawltest.NewCalls(t, svc).ClaimN(n, req)
}

func readJSON(t testing.TB, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Errorf("%s: %v", b, err)
	}
}

func reserveOf(l pawl.Lease, amount int64, key string) pawl.ReserveCall {
	return pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: amount, Key: key}
}

func settleOf(l pawl.Lease, r pawl.Reserved, amount int64) pawl.SettleCall {
	return pawl.SettleCall{Reservation: r.Reservation, Amount: amount, ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
}
