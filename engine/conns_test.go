package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// with adds parameters to a URL.
func with(t *testing.T, base string, params ...string) string {
	t.Helper()
	u := need[*url.URL](t)(url.Parse(base))
	q := u.Query()
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// backends counts the connections of an application until stop is called, which returns the most.
func backends(t *testing.T, server, application string) (stop func() int64) {
	t.Helper()
	c := need[*pgx.Conn](t)(pgx.Connect(t.Context(), server))
	var most atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var counting sync.WaitGroup
	counting.Go(func() {
		for often := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-often.C {
			var n int64
			if c.QueryRow(ctx, "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = $1", application).Scan(&n) == nil && n > most.Load() {
				most.Store(n)
			}
		}
	})
	return func() int64 {
		cancel()
		counting.Wait()
		_ = c.Close(context.Background())
		return most.Load()
	}
}

// A process never has more connections than max_conns, whatever it does at the same time, and with two
// it still does everything.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			server, schema := pawltest.Place(t, pawltest.Postgres)
			name := schema + "_conns"
			stop := backends(t, server, name)
			e := need[*engine.Engine](t)(engine.OpenWith(t.Context(),
				with(t, server, "max_conns", fmt.Sprint(n), "application_name", name), engine.Options{Schema: schema}))
			everything(t, e)
			if e.Hears() != (n >= 4) {
				t.Errorf("with %d connections it listens: %t", n, e.Hears())
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if most := stop(); most > int64(n) || most == 0 {
				t.Errorf("%d connections of at most %d", most, n)
			}
		})
	}
}

// everything uses an engine in all ways at once, and checks the result.
func everything(t *testing.T, e *engine.Engine) {
	t.Helper()
	const callers = 12
	each := times(3, 6)
	ctx, cancel := context.WithCancel(t.Context())
	var background, calls sync.WaitGroup
	ends := func(what string, run func() error) {
		background.Go(func() {
			if err := run(); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	ends("run", func() error { return e.Run(ctx) })
	ends("work", func() error {
		return worker.RunWith(ctx, e, worker.Options{ID: "w", Concurrency: 8, LeaseSeconds: 10, WaitSeconds: 1},
			worker.Handle("", func(ctx context.Context, l pawl.Lease) (any, error) { return "done", nil }))
	})
	for i := range 4 { // calls that wait, and are given up
		ends("wait", func() error {
			for ctx.Err() == nil {
				brief, stop := context.WithTimeout(ctx, time.Duration(50+50*i)*time.Millisecond)
				_, err := e.Claim(brief, pawl.ClaimRequest{WorkerID: fmt.Sprint("idle-", i), Types: []string{"none"}, WaitSeconds: 5})
				stop()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && pawl.CodeOf(err) != pawl.CodeUnavailable {
					return err
				}
			}
			return nil
		})
	}
	var followed atomic.Int64
	ends("follow", func() error {
		return e.FollowEvents(ctx, pawl.EventFilter{}, func(_ pawl.FeedPosition, events []pawl.Event) error {
			followed.Add(int64(len(events)))
			return nil
		})
	})
	ends("look", func() error {
		// Looks without a pause would take the processor from what they are beside.
		for pause := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-pause.C {
			if _, err := e.Doctor(ctx, pawl.DoctorCall{}); err != nil {
				return err
			}
			if _, err := e.ListTasks(ctx, pawl.TaskFilter{}); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range callers {
		calls.Go(func() {
			for j := range each { // each with names that have no row yet
				by := pawl.As(ctx, pawl.Caller{ActorType: "user", ActorID: fmt.Sprint("u", i, "-", j)})
				task, err := pawl.Create(by, e, pawl.NewTask{Type: fmt.Sprint("t", i, "-", j)})
				if err == nil {
					var within context.CancelFunc
					by, within = context.WithTimeout(by, time.Minute)
					task, err = pawl.Await(by, e, task.ID)
					within()
				}
				if err != nil || task.State != pawl.TaskCompleted {
					t.Errorf("task %d of caller %d: %s, %v", j, i, task.State, err)
					return
				}
			}
		})
	}
	calls.Wait()
	until(t, "events are missing", func() bool { return followed.Load() >= int64(3*callers*each) })
	cancel()
	background.Wait()
	if r, err := e.Doctor(t.Context(), pawl.DoctorCall{}); err != nil || len(r.Breaches) > 0 {
		t.Error(r.Breaches, err)
	}
}
