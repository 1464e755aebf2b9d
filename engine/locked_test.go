package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
)

// stranger is a connection that locks rows of Pawl and does not end its transaction.
func stranger(t *testing.T, p *pawltest.Pawl, query string, args ...any) (unlock func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	t.Cleanup(unlock)
	for _, text := range []string{"SET search_path = " + p.Schema, "BEGIN"} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if tag, err := conn.Exec(t.Context(), query, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %v", query, tag, err)
	}
	return unlock
}

// soon runs a function that must not wait for the stranger's lock.
func soon(t *testing.T, what string, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// A row that another connection locks delays only the calls that need it. It does not
// delay other calls of the same verb, reads, heartbeats, the sweep or the feed.
func TestALockedRowStopsOnlyItsOwnCalls(t *testing.T) {
	for name, query := range map[string]string{
		"lease":        "SELECT FROM leases WHERE item_id = id($1) FOR UPDATE",
		"task's count": "SELECT FROM task_counters WHERE task_id = (SELECT task_id FROM leases WHERE item_id = id($1)) FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, pawltest.Postgres)
			ctx := t.Context()
			two := func(typ string) pawl.NewTask {
				return pawl.NewTask{Type: typ, Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}
			}
			for range 60 {
				need[pawl.Task](t)(pawl.Create(ctx, p.Service, two("t")))
			}
			all := need[[]pawl.Lease](t)(p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Limit: 120, LeaseSeconds: 300}))
			need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "short", MaxAttempts: 9}))
			need[[]pawl.Lease](t)(p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"short"}, LeaseSeconds: 1}))
			blocked := all[0]
			unlock := stranger(t, p, query, blocked.ID)
			running, stop := context.WithCancel(ctx)
			var work sync.WaitGroup
			work.Go(func() { _ = p.Engine.Run(running) })
			defer work.Wait()
			defer stop()

			fence := func(l pawl.Lease) pawl.Fence { return pawl.Fence{ItemID: l.ID, WorkerID: "w", Attempt: l.Attempt} }
			complete := func(ctx context.Context, l pawl.Lease) error {
				_, err := first(p.Service.Complete(ctx, []pawl.CompleteCall{{Fence: fence(l)}}))
				return err
			}
			begun := clock.Now()
			var late sync.WaitGroup
			for range 8 { // a client that tries again, many times at once
				late.Go(func() {
					if err := complete(ctx, blocked); !errors.Is(err, pawl.ErrUnavailable) {
						t.Errorf("the blocked call: %v", err)
					}
				})
			}
			for _, l := range all[1:] {
				if l.TaskID == blocked.TaskID {
					continue
				}
				work.Go(func() {
					soon(t, "complete", func(ctx context.Context) error { return complete(ctx, l) })
				})
			}
			soon(t, "heartbeat", func(ctx context.Context) error {
				_, err := first(p.Service.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: fence(all[119])}}))
				if errors.Is(err, pawl.ErrLeaseLost) || errors.Is(err, pawl.ErrConflict) {
					err = nil // the item has completed
				}
				return err
			})
			soon(t, "read", func(ctx context.Context) error {
				_, err := p.Service.GetTask(ctx, blocked.TaskID)
				return err
			})
			soon(t, "sweep and feed", func(ctx context.Context) error {
				err := p.Service.FollowEvents(ctx, pawl.EventFilter{}, func(_ pawl.FeedPosition, events []pawl.Event) error {
					for _, e := range events {
						if e.Event == "lease_expired" {
							return errFound
						}
					}
					return nil
				})
				if errors.Is(err, errFound) {
					return nil
				}
				return errors.Join(errors.New("no lease expired"), err)
			})
			late.Wait()
			if d := clock.Now().Sub(begun); d > 30*time.Second {
				t.Errorf("the blocked calls took %v", d)
			}
			unlock()
			soon(t, "complete what was blocked", func(ctx context.Context) error { return complete(ctx, blocked) })
		})
	}
}

var errFound = errors.New("found")
