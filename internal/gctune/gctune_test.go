package gctune

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// Whatever the size of the live heap, the next collection starts at the bound of garbage.
func TestLimit(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	const garbage = 48 << 20
	retune(garbage)
	for _, live := range []int{1 << 20, 200 << 20} {
		held := make([]byte, live)
		end := time.Now().Add(time.Minute)
		for {
			runtime.GC()
			s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
			metrics.Read(s)
			if spare := s[1].Value.Uint64() - s[0].Value.Uint64(); spare > garbage*3/4 && spare < garbage*5/4 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("with a live heap of %d bytes the next collection starts at %d bytes of garbage", s[0].Value.Uint64(), spare)
			}
			time.Sleep(10 * time.Millisecond)
		}
		runtime.KeepAlive(held)
	}
}
