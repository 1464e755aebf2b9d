package stats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Every event is counted once, whichever of several engines gives it its position.
func TestCountersAreExact(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		engines := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		ctx, stop := context.WithCancel(t.Context())
		var running, working sync.WaitGroup
		for _, e := range engines {
			running.Go(func() { _ = e.Run(ctx) })
		}
		const each, rounds = 40, 3
		for i, e := range engines {
			working.Go(func() {
				worker := fmt.Sprint("w", i)
				for range rounds {
					for range each {
						if _, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`), MaxAttempts: 9}); err != nil {
							t.Error(err)
						}
					}
					held, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: worker, Types: []string{"a"}, Limit: each})
					if err != nil {
						t.Error(err)
					}
					for n, l := range held {
						if n%2 == 0 {
							_, err = pawl.Complete(t.Context(), e, l.Fence(), json.RawMessage(`1`))
						} else {
							_, err = pawl.Fail(t.Context(), e, l.Fence(), pawl.RetryAfter(0, errors.New("no")))
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		working.Wait()
		stop()
		running.Wait()
		want := map[string]int64{}
		for _, name := range []string{"proposed", "leased", "completed", "failed"} {
			for page := (pawl.EventFilter{Event: name, Page: pawl.Page{Limit: 1000}}); ; {
				list := need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(t.Context(), page))
				want[name] += int64(len(list.Items))
				if page.Cursor = list.Next; list.Next == "" {
					break
				}
			}
		}
		got := map[string]int64{}
		for _, e := range engines { // the answer does not depend on who is asked
			clear(got)
			for _, s := range need[[]pawl.QueueSeries](t)(e.Series(t.Context(), pawl.SeriesQuery{})) {
				for _, at := range s.Points {
					got["proposed"] += at.Created
					got["leased"] += at.Claimed
					got["completed"] += at.Completed
					got["failed"] += at.Failed
					got["waits"] += at.Wait.Count
					got["runs"] += at.Run.Count
				}
			}
			if got["waits"] != want["leased"] || got["runs"] != want["completed"]+want["failed"] {
				t.Errorf("%v, of the events %v", got, want)
			}
			for name, n := range want {
				if got[name] != n || n == 0 {
					t.Errorf("%s: %d counted, %d events", name, got[name], n)
				}
			}
		}
	})
}

// An engine that runs stores the backlog at the end of each minute.
func TestBacklogIsCountedOnceAMinute(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Advance(time.Minute - p.Now().Sub(p.Now().Truncate(time.Minute))) // to the beginning of a minute
		for range 3 {
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`)}))
		}
		soon := p.Now().Add(time.Hour)
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`), RunAt: &soon}))
		leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}, LeaseSeconds: 3600}, 1)
		begin := p.Now()
		p.Advance(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Engine.Run(ctx) })
		defer running.Wait()
		defer stop()
		want := pawl.Backlog{Queued: 2, Leased: 1, Scheduled: 1}
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			s := need[[]pawl.QueueSeries](t)(p.Engine.Series(t.Context(), pawl.SeriesQuery{Since: begin, Step: time.Minute}))
			if len(s) == 1 && s[0].Points[0].Backlog != nil {
				if got := *s[0].Points[0].Backlog; got != want || !s[0].Points[0].At.Equal(begin.Truncate(time.Minute)) {
					t.Fatalf("the backlog of %v is %+v", s[0].Points[0].At, got)
				}
				if len(s[0].Points) > 1 {
					t.Fatalf("the present minute has a point: %+v", s[0].Points[1])
				}
				return
			}
			if time.Now().After(until) {
				t.Fatalf("no backlog: %+v", s)
			}
		}
	})
}

// The backlog of a queue that was emptied is zero, in steps of a minute and in longer ones.
func TestTheBacklogOfAnEmptiedQueueIsZero(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Advance(time.Hour - p.Now().Sub(p.Now().Truncate(time.Hour))) // to the beginning of an hour
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`)}))
		begin := p.Now()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Engine.Run(ctx) })
		defer running.Wait()
		defer stop()
		backlog := func(step time.Duration, want int64) {
			t.Helper()
			for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				s := need[[]pawl.QueueSeries](t)(p.Engine.Series(t.Context(), pawl.SeriesQuery{Since: begin, Step: step}))
				if len(s) == 1 {
					if b := s[0].Points[len(s[0].Points)-1].Backlog; b != nil && b.Queued == want {
						return
					}
				}
				if time.Now().After(until) {
					t.Fatalf("the backlog is not %d: %+v", want, s)
				}
			}
		}
		p.Advance(time.Minute)
		backlog(time.Minute, 1)
		need[[]pawl.Result[pawl.Task]](t)(p.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}}))
		p.Advance(time.Minute)
		backlog(time.Minute, 0)
		backlog(time.Hour, 0)
	})
}

// Counters of minutes are removed when they are as old as RetainCounters says.
func TestOldMinutesAreRemoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
		ok(t, p.Engine.Feed().Log(t.Context()))
		for i, want := range []int{1, 0} {
			p.Advance([]time.Duration{pawl.DefaultSweepOptions().RetainCounters - time.Hour, 2 * time.Hour}[i])
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			if n := count(t, p, "SELECT COUNT(*) FROM pawl.queue_minutes WHERE created > 0"); n != want {
				t.Errorf("%d minutes, want %d", n, want)
			}
		}
	})
}
