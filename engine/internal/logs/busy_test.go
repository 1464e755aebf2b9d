package logs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A check of the log finds nothing while tasks are made and deleted, pages are packed and
// checkpoints are signed.
func TestTheLogIsCheckedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			o := withKey(t)
			p := pawltest.OpenReal(t, which, o)
			writers := []*engine.Engine{p.Engine, p.Another(o), p.Another(o)}
			checks := p.Another(o)
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(times(2, 60))*time.Second)
			defer stop()
			var busy sync.WaitGroup
			for n, e := range writers {
				busy.Go(func() {
					with := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: fmt.Sprint("a", n)})
					var kept []pawl.TaskCall
					for i := 0; ctx.Err() == nil || i < 25; i++ { // also on a slow machine there is enough to check
						task, err := pawl.Create(with, e, pawl.NewTask{Type: fmt.Sprint("t", n), Items: make([]pawl.NewItem, 1+i%3)})
						if err != nil {
							t.Error(err)
							return
						}
						if kept = append(kept, pawl.TaskCall{TaskID: task.ID, Force: true}); len(kept) > 20 {
							if _, err := e.DeleteTasks(t.Context(), kept[:15]); err != nil {
								t.Error(err)
								return
							}
							kept = append(kept[:0], kept[15:]...)
						}
						if err := e.Log(t.Context()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			busy.Go(func() {
				for ctx.Err() == nil {
					if _, err := writers[1].SignLog(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
			n := 0
			for ; ctx.Err() == nil && !t.Failed(); n++ {
				limit := -1
				if n%2 == 1 {
					limit = 300
				}
				got, err := checks.VerifyLog(t.Context(), limit, nil)
				if err != nil || !got.Intact {
					t.Errorf("check %d: %+v, %v", n, got, err)
				}
			}
			stop()
			busy.Wait()
			if got, err := checks.VerifyLog(t.Context(), -1, nil); err != nil || !got.Intact || got.Size < 100 {
				t.Errorf("at rest, after %d checks: %+v, %v", n, got, err)
			}
		})
	}
}

// A task that is deleted in many transactions is intact after each of them.
func TestATaskThatIsBeingDeletedIsAsItWasLogged(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
		ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"})
		task, err := pawl.Create(ctx, c.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 5)})
		c.ok(task, err)
		c.task = task
		for range 5 {
			c.ok(pawl.Complete(ctx, c.Service, c.Claim("a").Fence(), nil))
		}
		c.sign()
		by := store.Deletion{Actor: store.Actor{Type: pawl.ActorSystem}}
		for n, done := 0, false; !done; n++ {
			c.ok(nil, c.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				done, err = store.DeleteTask(ctx, tx, "default", task.ID, &by, 3)
				return err
			}))
			if n%2 == 0 {
				c.sign()
			}
			if got := c.verifyAll(); !got.Intact {
				t.Errorf("the log after %d transactions: %+v", n+1, got.Faults)
			}
			if got := c.verify(); !got.Intact {
				t.Errorf("the task after %d transactions: %+v", n+1, got.Faults)
			}
		}
	})
}

// Pages that are packed into one between two steps of a walk are not taken for missing ones.
func TestPagesArePackedUnderAWalk(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		add := func(n int) {
			for range n {
				c.Create(pawl.NewTask{Type: "a"})
				c.ok(nil, c.Engine.Log(t.Context()))
			}
		}
		add(2*store.LoosePages + store.LoosePages - 1) // two pages that are packed, and as many others as there can be
		var w logs.Walk
		w.Begin(1)
		var faults []engine.LogFault
		step := func() (done bool) {
			c.ok(nil, c.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				var more []engine.LogFault
				more, done, err = w.Step(ctx, tx)
				faults = append(faults, more...)
				return err
			}))
			return done
		}
		if step() {
			t.Fatal("one step reads all pages")
		}
		add(2)
		for !step() {
		}
		if len(faults) > 0 || w.Events != 3*store.LoosePages+1 {
			t.Errorf("%d events, %+v", w.Events, faults)
		}
	})
}
