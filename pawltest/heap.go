package pawltest

import (
	"runtime"
	"runtime/debug"
	"time"
)

// HeapGrowth runs fn and returns by how many bytes the heap in use grew at most. It collects
// garbage often meanwhile, so that what counts is what is needed.
func HeapGrowth(fn func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// What a collection has not yet freed counts, too. It is at most 8 MiB, however much the other tests of the process hold.
	const unfreed = 8 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(int(max(1, min(20, 100*unfreed/m.HeapAlloc)))))
	before, most := m.HeapInuse, m.HeapInuse
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	}()
	fn()
	close(end)
	<-ended
	return most - before
}
