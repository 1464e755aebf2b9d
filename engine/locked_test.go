package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// stranger is a connection that locks rows of Pawl and does not end its transaction.
func stranger(t *testing.T, p *pawltest.Pawl, query string, args ...any) (unlock func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		_, _ = conn.Exec(context.Background(), "ROLLBACK") // a closed connection keeps its locks until the server notices
		_ = conn.Close(context.Background())
	})
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
			soon(t, "sweep and feed", func(ctx context.Context) error { return leaseExpires(ctx, p) })
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

// leaseExpires follows the events until one says that a lease has expired.
func leaseExpires(ctx context.Context, p *pawltest.Pawl) error {
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
}

// A step that the engine owes a task waits for a lock, and leases expire meanwhile.
func TestAnOwedStepHoldsUpNoLease(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	ctx := t.Context()
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "t", Items: items(2)}))
	waits, expired := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(waits) })
	e := p.Another(engine.Options{MaxConns: 16, Statement: func(query string) {
		if strings.Contains(query, "k.ready_for_approval, k.todo") { // the lock of the task
			begun()
			<-expired
		}
	}})
	ok(t, p.Exec("UPDATE pawl.task_counters SET todo = 1 WHERE task_id = $1", store.TaskID(task.ID)))
	running, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { _ = e.Run(running) })
	defer work.Wait()
	defer stop()
	defer close(expired)
	<-waits
	need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "short", MaxAttempts: 9}))
	leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", Types: []string{"short"}, LeaseSeconds: 1}, 1)
	soon(t, "expire a lease", func(ctx context.Context) error { return leaseExpires(ctx, p) })
}

// A sweep leaves steps that are owed to many tasks, which another transaction locks, to the next one, and soon takes
// that of another task.
func TestASweepLeavesManyLockedTasks(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres)
	const locked = 30
	calls := slices.Repeat([]pawl.NewTask{{Type: "t", Items: items(2)}}, locked+1)
	all := need[[]pawl.Result[pawl.Task]](t)(p.Service.CreateTasks(t.Context(), calls))
	ok(t, p.Exec("UPDATE pawl.task_counters SET todo = 1"))
	stranger(t, p, "SELECT FROM tasks WHERE id <> id($1) FOR UPDATE", all[locked].Value.ID)
	soon(t, "sweep", func(ctx context.Context) error {
		_, err := p.Service.Sweep(ctx)
		return err
	})
	if n := (typeFixture{T: t, Pawl: p}).count("SELECT COUNT(*) FROM pawl.task_counters WHERE todo = 1"); n != locked {
		t.Errorf("%d tasks wait for a step, want %d", n, locked)
	}
}

// A lease that another transaction locks keeps no other lease of its API key from ending, neither in the call that
// revokes the key nor in a sweep. A sweep ends it later.
func TestALockedLeaseOfARevokedKeyStopsNoOther(t *testing.T) {
	for name, revoke := range map[string]func(ctx context.Context, p *pawltest.Pawl, key string) error{
		"call": func(ctx context.Context, p *pawltest.Pawl, key string) error {
			_, err := p.Engine.RevokeAPIKey(ctx, key)
			return err
		},
		"sweep": func(ctx context.Context, p *pawltest.Pawl, key string) error {
			if err := p.Exec("UPDATE pawl.api_keys SET revoked_at = 1"); err != nil {
				return err
			}
			_, err := p.Service.Sweep(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.OpenReal(t, pawltest.Postgres)
			ctx := t.Context()
			key, _, err := p.Engine.CreateAPIKey(ctx, pawl.NewAPIKey{Name: "w", Roles: []string{"claimer"}})
			ok(t, err)
			need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "t", Items: items(3)}))
			closed := p.Another(engine.Options{}) // it does not look at the key again
			ls := need[[]pawl.Lease](t)(closed.Claim(pawl.As(ctx, pawl.Caller{Key: key.ID}), pawl.ClaimRequest{WorkerID: "w", Limit: 3}))
			ok(t, closed.Close())
			unlock := stranger(t, p, "SELECT FROM leases WHERE item_id = id($1) FOR UPDATE", ls[0].ID)
			soon(t, "end the others", func(ctx context.Context) error { return revoke(ctx, p, key.ID) })
			states := func() (out []pawl.ItemState) {
				for _, l := range ls {
					out = append(out, need[pawl.Item](t)(p.Service.GetItem(ctx, l.ID)).State)
				}
				return out
			}
			if got := states(); !slices.Equal(got, []pawl.ItemState{pawl.ItemLeased, pawl.ItemQueued, pawl.ItemQueued}) {
				t.Errorf("beside a locked lease: %v", got)
			}
			unlock()
			need[pawl.SweepStats](t)(p.Service.Sweep(ctx))
			if got := states(); got[0] != pawl.ItemQueued {
				t.Errorf("afterwards: %v", got)
			}
		})
	}
}
