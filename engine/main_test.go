package engine_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/pawl-work/pawl"
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

// first returns the answer to a batch of one call.
func first[T any](rs []pawl.Result[T], err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}

// need ends the test if there is an error.
func need[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// leases claims n items of one call each.
func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	var out []pawl.Lease
	for len(out) < n {
		req.Limit = min(n-len(out), pawl.MaxClaim)
		got, err := svc.Claim(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			t.Fatalf("there were %d items to claim, want %d", len(out), n)
		}
		out = append(out, got...)
	}
	return out
}

func readJSON(t testing.TB, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Errorf("%s: %v", b, err)
	}
}
