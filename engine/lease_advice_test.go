package engine

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

func TestSuggestedLease(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		facts   leaseFacts
		lease   int
		avoided int
	}{
		"nothing measured":       {leaseFacts{Lease: 300 * s}, 300, 0},
		"never shorter":          {leaseFacts{Lease: 300 * s, N: 50, P99: s}, 300, 0},
		"short without expiries": {leaseFacts{Lease: 10 * s, N: 50, P95: 20 * s, P99: 30 * s, Short: true}, 38, 0},
		"expiries": {leaseFacts{Lease: 10 * s, N: 3, P99: 40 * s,
			Lost: []lostLease{{Held: 10 * s, Took: 40 * s}, {Held: 10 * s, Took: 5 * s}}}, 50, 1},
		"rounded up":           {leaseFacts{Lease: 10 * s, N: 3, P99: 100 * s, Lost: []lostLease{{Held: 10 * s, Took: 100 * s}}}, 130, 1},
		"at most a day":        {leaseFacts{Lease: 10 * s, N: 3, P99: 90000 * s, Lost: []lostLease{{Held: 10 * s, Took: 90000 * s}}}, 86400, 0},
		"a longest lease":      {leaseFacts{Lease: 86400 * s, Lost: []lostLease{{Held: 86400 * s}}}, 86400, 0},
		"no result yet":        {leaseFacts{Lease: 10 * s, Lost: []lostLease{{Held: 12 * s}}}, 20, 0},
		"the lease was raised": {leaseFacts{Lease: 120 * s, Lost: []lostLease{{Held: 12 * s}}}, 120, 0},
	} {
		c.facts.Namespace, c.facts.Type = pawl.DefaultNamespace, "a b"
		a := suggestLease(c.facts)
		if a.Suggested.LeaseSeconds != c.lease || a.Evidence.Avoided != c.avoided || a.Detail == "" {
			t.Errorf("%s: %+v", name, a)
		}
		if want := a.Suggested != a.Current; want != (a.Command != "") {
			t.Errorf("%s: command %q", name, a.Command)
		}
	}
}
