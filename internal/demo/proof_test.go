package demo

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	for _, c := range []struct {
		n    int
		want time.Duration
	}{{0, 0}, {1, 1}, {2, 2}, {100, 99}, {101, 100}, {1000, 990}} {
		var of []time.Duration
		for i := c.n; i > 0; i-- {
			of = append(of, time.Duration(i))
		}
		if got := percentile(of, 99); got != c.want {
			t.Errorf("of %d: %d, want %d", c.n, got, c.want)
		}
	}
}
