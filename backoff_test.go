package pawl_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	for _, c := range []struct {
		b        pawl.Backoff
		failures int
		want     time.Duration
	}{
		{pawl.Backoff{}, 1, pawl.BackoffBase},
		{pawl.Backoff{}, 3, 4 * pawl.BackoffBase},
		{pawl.Backoff{}, pawl.MaxAttemptsCeiling, pawl.BackoffMax},
		{pawl.Backoff{BaseSeconds: 10, MaxSeconds: 15}, 1, 10 * time.Second},
		{pawl.Backoff{BaseSeconds: 10, MaxSeconds: 15}, 2, 15 * time.Second},
		{pawl.Backoff{BaseSeconds: 7200}, 2, 7200 * time.Second},
		{pawl.Backoff{MaxSeconds: 5}, 1, 5 * time.Second},
	} {
		if got := c.b.After(c.failures); got != c.want {
			t.Errorf("%+v after %d failures: %s, want %s", c.b, c.failures, got, c.want)
		}
	}
	for range 1000 {
		if j := (pawl.Backoff{}).Jitter(); j < 1-pawl.BackoffJitter || j > 1+pawl.BackoffJitter {
			t.Fatalf("jitter %v", j)
		}
	}
}
