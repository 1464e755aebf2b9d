package collect

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// However much is alive, the next collection is due when so much is not.
func TestBound(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	const room = 48 << 20
	bound(room)
	for _, alive := range []int{1 << 20, 200 << 20} {
		held := make([]byte, alive)
		end := time.Now().Add(time.Minute)
		for {
			runtime.GC()
			s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
			metrics.Read(s)
			if spare := s[1].Value.Uint64() - s[0].Value.Uint64(); spare > room*3/4 && spare < room*5/4 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("with %d bytes alive the collector waits for %d of garbage", s[0].Value.Uint64(), spare)
			}
			time.Sleep(10 * time.Millisecond)
		}
		runtime.KeepAlive(held)
	}
}
