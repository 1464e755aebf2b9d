package kernel

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl/internal/clock"
)

// IDs makes increasing ids: prefix, underscore, ULID. Their time is the database's time,
// estimated from its last reading and the monotonic clock since. So processes with wrong
// wall clocks agree on which item is oldest.
type IDs struct {
	mu      sync.Mutex
	base    int64     // the database's time, in µs
	at      time.Time // when base was read
	last    uint64    // ms of the newest id
	entropy *ulid.MonotonicEntropy
	newest  ulid.ULID // a field, because what the entropy is read into is allocated
}

// Set stores a reading of the database's time and when it was made.
func (g *IDs) Set(now int64, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.base, g.at = now, at
}

// Now returns the database's time as this process estimates it.
func (g *IDs) Now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.UnixMicro(g.base).UTC().Add(clock.Now().Sub(g.at))
}

// Next returns a new id with a prefix.
func (g *IDs) Next(prefix string) string {
	var text [16 + ulid.EncodedSize]byte
	return string(g.add(append(append(text[:0], prefix...), '_')))
}

// add appends the ULID of a new id.
func (g *IDs) add(to []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entropy == nil {
		g.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	ms := uint64(g.base/1000) + uint64(clock.Now().Sub(g.at).Milliseconds())
	ms = max(ms, g.last)
	if g.entropy.MonotonicRead(ms, g.newest[6:]) != nil { // 2^80 ids in one millisecond: use the next millisecond
		ms++
		if err := g.entropy.MonotonicRead(ms, g.newest[6:]); err != nil {
			panic(err) // crypto/rand does not fail
		}
	}
	g.last = ms
	_ = g.newest.SetTime(ms) // the year is before 10889
	var digits [ulid.EncodedSize]byte
	_ = g.newest.MarshalTextTo(digits[:]) // the size is right
	return append(to, digits[:]...)
}

// Pair makes the ids of a task and its only item, with the same ULID.
func (g *IDs) Pair() (task, item string) {
	const size = len("tsk_") + ulid.EncodedSize
	var text [2 * size]byte
	b := append(g.add(append(text[:0], "tsk_"...)), "itm_"...)
	both := string(append(b, b[len("tsk_"):size]...))
	return both[:size], both[size:]
}
