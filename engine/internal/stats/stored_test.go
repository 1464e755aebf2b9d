package stats_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// While one call counts the checkpoints and keys of a namespace, further calls wait without a
// connection, and until their contexts end.
func TestStatsWaitWithoutAConnection(t *testing.T) {
	t.Parallel()
	var holds atomic.Bool
	held, hold := make(chan struct{}, 8), make(chan struct{})
	server, schema := pawltest.Place(t, pawltest.Postgres)
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), server, engine.Options{Schema: schema,
		Statement: func(query string) {
			if holds.Load() && strings.Contains(query, "FROM pawl.checkpoints") {
				held <- struct{}{}
				<-hold
			}
		}}))
	t.Cleanup(func() { _ = e.Close() })
	need[pawl.Stats](t)(e.Stats(t.Context()))
	holds.Store(true)
	var calls sync.WaitGroup
	stats := func() { calls.Go(func() { need[pawl.Stats](t)(e.Stats(t.Context())) }) }
	stats()
	<-held
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { _, err := e.Stats(brief); ended <- err }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a call whose context has ended has numbers")
		}
	case <-time.After(5 * time.Second):
		t.Error("a call goes on whose context has ended")
	}
	stats()
	select {
	case <-held:
		t.Error("two calls count at the same time")
	case <-time.After(100 * time.Millisecond):
	}
	for _, p := range e.Pools() {
		if p.Name == "cold" && p.InUse != 1 {
			t.Errorf("%d connections are in use", p.InUse)
		}
	}
	holds.Store(false)
	close(hold)
	calls.Wait()
}
