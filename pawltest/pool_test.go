package pawltest

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Tests that begin and end at the same time never have the same database.
func TestThePoolLendsADatabaseOnce(t *testing.T) {
	const callers = 8
	of := kind{which: "none"}
	pool.mu.Lock()
	was := pool.kept
	pool.kept = false // an empty pool makes no new database
	pool.mu.Unlock()
	t.Cleanup(func() {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.kept = was
		delete(pool.free, of)
	})
	for range callers {
		put(&kept{kind: of})
	}
	var held sync.Map
	var twice atomic.Bool
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 20_000 {
				k := take(t, of)
				if k == nil {
					continue
				}
				if _, loaded := held.LoadOrStore(k, true); loaded {
					twice.Store(true)
					return
				}
				held.Delete(k)
				put(k)
			}
		})
	}
	all.Wait()
	if twice.Load() {
		t.Error("two tests have one database")
	}
}
