package engine_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/testserver"
	"github.com/pawl-work/pawl/pawltest"
)

// behind opens an engine whose database is reached through a proxy, and through other
// servers while the proxy does not answer.
func behind(t *testing.T, p *pawltest.Pawl, proxy *testserver.Proxy, others ...string) *engine.Engine {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Addr
	for _, o := range others {
		u.Host += "," + o
	}
	q := u.Query()
	q.Set("statement_timeout", "3000") // its wait for a connection is longer than connect_timeout, so a second host is tried
	q.Set("connect_timeout", "1")
	u.RawQuery = q.Encode()
	e, err := engine.OpenWith(t.Context(), u.String(), engine.Options{Schema: p.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proxy.Close() // else it waits a quarter of a minute for each lost connection
		_ = e.Close()
	})
	return e
}

func proxied(t *testing.T, p *pawltest.Pawl) (proxy *testserver.Proxy, server string) {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	if proxy, err = testserver.NewProxy(t.Context(), u.Host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy, u.Host
}

// If a database freezes without closing its connections, every call ends as unavailable
// within the time limit. Work goes on soon after the thaw, or with another server of the
// URL. That includes sweeps, waiting claims and followers.
func TestAFrozenDatabase(t *testing.T) {
	for name, elsewhere := range map[string]bool{"thawed": false, "another server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, pawltest.Postgres)
			proxy, server := proxied(t, p)
			var others []string
			if elsewhere {
				others = []string{server}
			}
			e := behind(t, p, proxy, others...)
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			defer work.Wait()
			defer stop()
			work.Go(func() { _ = e.Run(ctx) })
			events := make(chan pawl.Event, 1000)
			work.Go(func() {
				for ctx.Err() == nil { // a follower that reads as the freeze begins gets its error
					if err := e.FollowEvents(ctx, pawl.EventFilter{}, func(_ pawl.FeedPosition, some []pawl.Event) error {
						for _, ev := range some {
							events <- ev
						}
						return nil
					}); err != nil && !errors.Is(err, pawl.ErrUnavailable) {
						t.Error("follow:", err)
						return
					}
				}
			})
			task := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "t", MaxAttempts: 9}))
			leases := need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 3}))
			if len(leases) != 1 {
				t.Fatal(leases)
			}
			for ev := range events { // the follower has begun
				if ev.Event == "leased" {
					break
				}
			}
			freeze := proxy.Freeze
			if elsewhere { // the other address is of the same server: locks of before would be left there
				freeze = proxy.Lose
			}
			freeze()
			frozen := clock.Now()
			var calls sync.WaitGroup
			for what, call := range map[string]func() error{
				"create": func() error { _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "u"}); return err },
				"claim": func() error {
					_, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: "v", Types: []string{"u"}})
					return err
				},
				"read":   func() error { _, err := e.GetTask(ctx, task.ID); return err },
				"cancel": func() error { _, err := first(e.CancelTasks(ctx, []pawl.TaskCall{{TaskID: "tsk_none"}})); return err },
				"heartbeat": func() error {
					_, err := first(e.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: pawl.Fence{ItemID: leases[0].ID, WorkerID: "w", Attempt: 1}}}))
					return err
				},
			} {
				calls.Go(func() {
					err := call()
					took := clock.Now().Sub(frozen)
					if done := elsewhere && (err == nil || errors.Is(err, pawl.ErrNotFound)); !done && !errors.Is(err, pawl.ErrUnavailable) ||
						took > 20*time.Second {
						t.Errorf("%s: %v after %v", what, err, took)
					}
				})
			}
			calls.Wait()
			if !elsewhere {
				proxy.Thaw()
			}
			again := clock.Now()
			for {
				_, err := pawl.Create(ctx, e, pawl.NewTask{Type: "after"})
				if err == nil {
					break
				}
				if !errors.Is(err, pawl.ErrUnavailable) || clock.Now().Sub(again) > 20*time.Second {
					t.Fatalf("after %v: %v", clock.Now().Sub(again), err)
				}
			}
			t.Logf("calls come back after %v", clock.Now().Sub(again))
			for seen := map[string]bool{}; !seen["lease_expired"] || !seen[task.ID]; { // until the lease is swept and the feed has reached the task
				select {
				case ev := <-events:
					seen[ev.Event] = true
					if ev.Event == "lease_expired" {
						seen[ev.TaskID] = true
					}
				case <-time.After(60 * time.Second):
					t.Fatalf("the sweep or the feed stands still %v after the freeze", clock.Now().Sub(frozen))
				}
			}
			t.Logf("swept and followed %v after the freeze", clock.Now().Sub(frozen))
			// The listener is connected again: a notice of other work comes far sooner than the poll.
			work.Go(func() {
				_, _ = pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "heard"})
			})
			got, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"heard"}, WaitSeconds: 10})
			if err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
