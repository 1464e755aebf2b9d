package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Claims that begin after a pause has returned get nothing of the queue, also those of another
// engine on the same database, while other queues go on.
func TestAPauseHoldsForEveryClaimAfterIt(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		items := make([]pawl.NewItem, 500)
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "slow", Items: items}))
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "fast", Items: items}))
		var paused atomic.Bool
		var late, before, fast atomic.Int64
		var all sync.WaitGroup
		stop := make(chan struct{})
		for _, e := range []*engine.Engine{p.Engine, other, p.Engine, other} {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					after := paused.Load()
					got, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 2})
					if err != nil {
						t.Error(err)
						return
					}
					for _, l := range got {
						switch {
						case l.Type == "fast":
							fast.Add(1)
						case after:
							late.Add(1)
						default:
							before.Add(1)
						}
					}
				}
			})
		}
		for before.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		need[pawl.Queue](t)(other.PauseQueue(t.Context(), "slow"))
		paused.Store(true)
		time.Sleep(300 * time.Millisecond)
		close(stop)
		all.Wait()
		if late.Load() > 0 || fast.Load() == 0 {
			t.Errorf("%d items of the paused queue were claimed after the pause, %d of the other queue", late.Load(), fast.Load())
		}
		q := need[pawl.Queue](t)(p.Engine.GetQueue(t.Context(), "slow"))
		if q.Queued+q.Leased != 500 || q.Leased != before.Load() {
			t.Errorf("%+v, and %d were claimed", q, before.Load())
		}
	})
}

// The limit of types with queued work counts the types of paused queues.
func TestPausedQueuesCountForTheLimitOfTypes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Another(engine.Options{MaxTypes: 2})
		need[struct{}](t)(struct{}{}, e.PauseNamespace(t.Context()))
		for _, typ := range []string{"a", "b"} {
			need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: typ}))
		}
		time.Sleep(1100 * time.Millisecond) // the engine asks the database again
		if _, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "c"}); pawl.CodeOf(err) != pawl.CodeLimit {
			t.Errorf("a third type: %v", err)
		}
	})
}
