package tasktypes

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

func TestSuggestedLease(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		facts   measured
		lease   int
		avoided int
	}{
		"nothing measured": {measured{Lease: 300 * s}, 300, 0},
		"never shorter":    {measured{Lease: 300 * s, Runs: slices.Repeat([]time.Duration{s}, 50)}, 300, 0},
		"short without expiries": {measured{Lease: 10 * s, Runs: slices.Concat(slices.Repeat([]time.Duration{s}, 45),
			slices.Repeat([]time.Duration{20 * s}, 4), []time.Duration{30 * s})}, 38, 0},
		"expiries": {measured{Lease: 10 * s, Runs: []time.Duration{40 * s},
			Lost: []lostAttempt{{Held: 10 * s, Took: 40 * s}, {Held: 10 * s, Took: 5 * s}}}, 50, 1},
		"rounded up": {measured{Lease: 10 * s, Runs: []time.Duration{100 * s},
			Lost: []lostAttempt{{Held: 10 * s, Took: 100 * s}}}, 130, 1},
		"at most a day": {measured{Lease: 10 * s, Runs: []time.Duration{90000 * s},
			Lost: []lostAttempt{{Held: 10 * s, Took: 90000 * s}}}, 86400, 0},
		"a longest lease":      {measured{Lease: 86400 * s, Lost: []lostAttempt{{Held: 86400 * s}}}, 86400, 0},
		"no result yet":        {measured{Lease: 10 * s, Lost: []lostAttempt{{Held: 12 * s}}}, 20, 0},
		"the lease was raised": {measured{Lease: 120 * s, Lost: []lostAttempt{{Held: 12 * s}}}, 120, 0},
	} {
		c.facts.QueueName = store.QueueName{Namespace: pawl.DefaultNamespace, Type: "a b"}
		a := c.facts.suggestLease()
		if a.Suggested.LeaseSeconds != c.lease || a.Evidence.Avoided != c.avoided || a.Detail == "" {
			t.Errorf("%s: %+v", name, a)
		}
		if want := a.Suggested != a.Current; want != (a.Command != "") {
			t.Errorf("%s: command %q", name, a.Command)
		}
	}
}
