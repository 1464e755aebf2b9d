package engine

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl/internal/clock"
)

// ids makes increasing ids: prefix, underscore, ULID. Their time is the database's time,
// estimated from its last reading and the monotonic clock since. So processes with wrong
// wall clocks agree on which item is oldest.
type ids struct {
	mu      sync.Mutex
	base    int64     // the database's time, in µs
	at      time.Time // when base was read
	last    uint64    // ms of the newest id
	entropy *ulid.MonotonicEntropy
}

// set stores a reading of the database's time and when it was made.
func (g *ids) set(now int64, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.base, g.at = now, at
}

// now returns the database's time as this process estimates it.
func (g *ids) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.UnixMicro(g.base).UTC().Add(clock.Now().Sub(g.at))
}

func (g *ids) next(prefix string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entropy == nil {
		g.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	ms := uint64(g.base/1000) + uint64(clock.Now().Sub(g.at).Milliseconds())
	ms = max(ms, g.last)
	id, err := ulid.New(ms, g.entropy)
	if err != nil { // 2^80 ids in one millisecond: use the next millisecond
		ms++
		id = ulid.MustNew(ms, g.entropy)
	}
	g.last = ms
	return prefix + "_" + id.String()
}

// pair makes the ids of a task and its only item, with the same ULID.
func (g *ids) pair() (task, item string) {
	task = g.next("tsk")
	return task, "itm_" + task[len("tsk_"):]
}
