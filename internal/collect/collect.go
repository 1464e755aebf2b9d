// Package collect bounds the garbage in a program's memory.
package collect

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Room is what Bound is given by programs that serve, in bytes.
const Room = 16 << 20

// Bound has the collector run whenever there are so many bytes of garbage. By
// itself it runs when there is as much of it as is alive: all the time in a server
// with little to do, and too late in one with which thousands wait. It holds for
// the whole program until that ends; call it once, from main. Whoever sets GOGC or
// GOMEMLIMIT has said otherwise.
func Bound(room uint64) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		bound(room)
	}
}

// bound goes by what the last collection found alive, and again after the next.
func bound(room uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	alive := max(1, s[0].Value.Uint64()+s[1].Value.Uint64()+s[2].Value.Uint64())
	percent := min(max(100*room/alive, 10), 1000)
	if is := s[3].Value.Uint64(); percent < is-is/8 || percent > is+is/8 { // setting it stops the world
		debug.SetGCPercent(int(percent))
	}
	runtime.AddCleanup(new(mark), bound, room)
}

// mark is dropped at once, so that the next collection finds it.
type mark struct{ _ *mark }
