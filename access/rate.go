package access

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// buckets are token buckets by name. The burst equals the rate.
type buckets struct {
	mu sync.Mutex
	by map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

const mostBuckets = 10_000

// take takes n tokens, all or none.
func (b *buckets) take(name string, rate, n int, who string) error {
	if rate <= 0 {
		return nil
	}
	now := clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.by) >= mostBuckets {
		b.forget(now)
	}
	k := b.by[name]
	if k == nil {
		if b.by == nil {
			b.by = map[string]*bucket{}
		}
		k = &bucket{left: float64(rate), at: now}
		b.by[name] = k
	}
	k.left = min(float64(rate), k.left+now.Sub(k.at).Seconds()*float64(rate))
	k.at = now
	if k.left < float64(n) {
		return &pawl.Error{Code: pawl.CodeLimit, Message: fmt.Sprintf("%s more than %d calls a second", who, rate),
			RetryAfter: time.Duration((float64(n) - k.left) / float64(rate) * float64(time.Second))}
	}
	k.left -= float64(n)
	return nil
}

// owe takes n tokens also if there are not as many: then the bucket has none for a while, at most for
// mostOwed.
func (b *buckets) owe(name string, rate, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.by[name]; k != nil && rate > 0 {
		k.left = max(k.left-float64(n), -float64(rate)*mostOwed.Seconds())
	}
}

// mostOwed bounds for how long a key makes no calls after one that made many rows.
const mostOwed = time.Minute

// forget removes buckets that are full again, or all if there are none.
func (b *buckets) forget(now time.Time) {
	for name, k := range b.by {
		if now.Sub(k.at) > mostOwed+2*time.Second {
			delete(b.by, name)
		}
	}
	if len(b.by) >= mostBuckets {
		clear(b.by)
	}
}
