package pawl

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Backoff is the delay before a failed item runs again: Base, doubled with each
// further failure up to Max, give or take a fifth.
type Backoff struct {
	BaseSeconds int `json:"base_seconds,omitempty"` // 0 = 60
	MaxSeconds  int `json:"max_seconds,omitempty"`  // 0 = 3600, or the base where that is longer
}

// Delays are the delays after the first failure, the second and so on, without
// jitter. The last one holds for all further failures.
func (b Backoff) Delays() []time.Duration {
	delay := cmp.Or(time.Duration(b.BaseSeconds)*time.Second, BackoffBase)
	most := cmp.Or(time.Duration(b.MaxSeconds)*time.Second, max(delay, BackoffMax))
	var out []time.Duration
	for ; delay < most; delay *= 2 {
		out = append(out, delay)
	}
	return append(out, most)
}

// After is the delay after a number of failures, 1 or more, without jitter.
func (b Backoff) After(failures int) time.Duration {
	delays := b.Delays()
	return delays[min(failures, len(delays))-1]
}

// Jitter is a random factor for one delay; see BackoffJitter.
func (Backoff) Jitter() float64 { return 1 + BackoffJitter*(2*rand.Float64()-1) }
