package ticks

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// spread returns a part of span that depends on the seed and the tick alone, in milliseconds.
func spread(seed string, tick time.Time, span time.Duration) time.Duration {
	ms := uint64(span / time.Millisecond)
	if ms == 0 {
		return 0
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(seed), uint64(tick.UnixMicro())))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%ms) * time.Millisecond
}
