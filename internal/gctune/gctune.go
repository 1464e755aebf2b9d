// Package gctune sets GOGC so that the garbage in a program's memory stays below a bound.
package gctune

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// ServerGarbage is the bound for programs that serve, in bytes.
const ServerGarbage = 16 << 20

// Limit starts a collection whenever the heap holds this many bytes of garbage.
// Go's default starts one when the garbage equals the live heap. That is too often
// in an idle server, and too late in one with thousands of waiting calls. Limit
// applies to the whole process; call it once, from main. It does nothing when GOGC
// or GOMEMLIMIT is set.
func Limit(garbage uint64) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		retune(garbage)
	}
}

// retune sets GOGC from the live heap of the last collection. It runs again after
// each collection.
func retune(garbage uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
		{Name: "/gc/gogc:percent"},
	}
	metrics.Read(s)
	live := max(1, s[0].Value.Uint64()+s[1].Value.Uint64()+s[2].Value.Uint64())
	percent := min(max(100*garbage/live, 10), 1000)
	if now := s[3].Value.Uint64(); percent < now-now/8 || percent > now+now/8 { // SetGCPercent stops the world
		debug.SetGCPercent(int(percent))
	}
	runtime.AddCleanup(new(sentinel), retune, garbage)
}

// sentinel is unreachable at once, so the next collection runs its cleanup.
type sentinel struct{ _ *sentinel }
