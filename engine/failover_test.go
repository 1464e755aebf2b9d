package engine_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/testserver"
)

// replicated starts a primary and a synchronous standby.
func replicated(t *testing.T) (primary, standby *testserver.Server) {
	t.Helper()
	if _, err := testserver.Find(); err != nil {
		t.Skip(err.Error())
	}
	primary, err := testserver.Start(t.Context(), testserver.Options{Replicated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop() })
	return primary, synchronousStandby(t, primary)
}

// synchronousStandby adds a synchronous standby to a primary.
func synchronousStandby(t *testing.T, primary *testserver.Server) *testserver.Server {
	t.Helper()
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	c, err := pgx.Connect(t.Context(), primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	// Set after the copy was made: the standby must not wait for itself once it is the
	// primary.
	for _, text := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"} {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for synchronous := false; !synchronous; time.Sleep(10 * time.Millisecond) {
		if err := c.QueryRow(t.Context(),
			"SELECT COUNT(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&synchronous); err != nil {
			t.Fatal(err)
		}
	}
	return standby
}

// The doctor warns of standbys that may lose acknowledged work: an asynchronous standby,
// and one whose state the login may not see.
func TestWarningsOfStandbys(t *testing.T) {
	primary, _ := replicated(t)
	e := need[*engine.Engine](t)(engine.Open(t.Context(), primary.URL))
	defer func() { _ = e.Close() }()
	c := need[*pgx.Conn](t)(pgx.Connect(t.Context(), primary.URL))
	defer c.Close(t.Context())
	exec := func(text string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	warned := func(e *engine.Engine) (names []string) {
		t.Helper()
		for _, w := range need[[]engine.Warning](t)(e.Warnings(t.Context())) {
			if w.Code != "no_worker" && w.Code != "sequencer_behind" { // of the work of the test
				names = append(names, w.Code)
			}
		}
		return names
	}
	if got := warned(e); len(got) != 0 {
		t.Errorf("with a synchronous standby: %v", got)
	}
	exec("CREATE ROLE plain LOGIN SUPERUSER PASSWORD 'plain'")
	u := need[*url.URL](t)(url.Parse(primary.URL))
	u.User = url.UserPassword("plain", "plain")
	plain := need[*engine.Engine](t)(engine.OpenWith(t.Context(), u.String(), engine.Options{Migrate: "off"}))
	defer func() { _ = plain.Close() }()
	exec("ALTER SYSTEM RESET synchronous_standby_names")
	exec("SELECT pg_reload_conf()")
	for async := false; !async; time.Sleep(10 * time.Millisecond) {
		if err := c.QueryRow(t.Context(), "SELECT COUNT(*) = 1 FROM pg_stat_replication WHERE sync_state = 'async'").Scan(&async); err != nil {
			t.Fatal(err)
		}
	}
	if got := warned(e); !slices.Equal(got, []string{"asynchronous_standby"}) {
		t.Errorf("with an asynchronous standby: %v", got)
	}
	exec("ALTER ROLE plain NOSUPERUSER")
	exec("GRANT USAGE ON SCHEMA pawl TO plain")
	exec("GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO plain")
	if got := warned(plain); !slices.Equal(got, []string{"standbys_unseen"}) {
		t.Errorf("of a login that may not see: %v", got)
	}
	for _, on := range []bool{false, true} {
		exec(fmt.Sprintf("ALTER SYSTEM SET autovacuum = %t", on))
		exec("SELECT pg_reload_conf()")
		for end := clock.Now().Add(60 * time.Second); slices.Contains(warned(e), "autovacuum_off") == on; time.Sleep(10 * time.Millisecond) {
			if clock.Now().After(end) {
				t.Fatalf("with autovacuum %t: %v", on, warned(e))
			}
		}
	}
}

// ledger has the acknowledged tasks and the followed events.
type ledger struct {
	mu                 sync.Mutex
	created, completed map[string]bool // tasks
	seen               map[string]bool // events
}

func (l *ledger) note(what map[string]bool, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		what[id] = true
	}
}

// wait waits until so many tasks were completed.
func (l *ledger) wait(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	for begun := clock.Now(); ; time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		done := len(l.completed)
		l.mu.Unlock()
		if done >= n {
			return
		}
		if clock.Now().Sub(begun) > limit {
			t.Fatalf("%d tasks are completed after %v, want %d", done, limit, n)
		}
	}
}

// work creates, claims and completes tasks until ctx ends.
func (l *ledger) work(ctx context.Context, e *engine.Engine, worker string) {
	for n := 0; ctx.Err() == nil; n++ {
		task, err := pawl.Create(ctx, e, pawl.NewTask{Type: "t", Payload: fmt.Appendf(nil, "%d", n), MaxAttempts: 99})
		if err == nil {
			l.note(l.created, task.ID)
		}
		got, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, LeaseSeconds: 5, WaitSeconds: 1})
		if err != nil || len(got) == 0 {
			continue
		}
		if _, err := first(e.Complete(ctx, []pawl.CompleteCall{{Fence: pawl.Fence{ItemID: got[0].ID, WorkerID: worker,
			Attempt: got[0].Attempt}}})); err == nil {
			l.note(l.completed, got[0].TaskID)
		}
	}
}

// follow notes every event, across epochs.
func (l *ledger) follow(ctx context.Context, e *engine.Engine) error {
	var f pawl.EventFilter
	for {
		err := e.FollowEvents(ctx, f, func(at pawl.FeedPosition, events []pawl.Event) error {
			f.After, f.Epoch = &at.Position, at.Epoch
			for i := range events {
				l.note(l.seen, events[i].ID)
			}
			return nil
		})
		if at, epoch := pawl.RestartOf(err); epoch {
			f.After, f.Epoch = &at.Position, at.Epoch
		} else if err == nil || ctx.Err() != nil {
			return nil
		} else if pawl.CodeOf(err) != pawl.CodeUnavailable {
			return err
		}
	}
}

// The primary freezes under load and its synchronous standby is promoted. Nothing that
// was acknowledged is lost, followers skip nothing, and claims work again within the time
// limits of a statement and of connecting.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, standby := replicated(t)
	u, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(standby.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host += "," + other.Host
	q := u.Query()
	q.Set("target_session_attrs", "read-write")
	q.Set("statement_timeout", "3000")
	q.Set("connect_timeout", "2")
	u.RawQuery = q.Encode()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := &ledger{created: map[string]bool{}, completed: map[string]bool{}, seen: map[string]bool{}}
	var work, background sync.WaitGroup
	working, rest := context.WithCancel(ctx)
	defer rest()
	var engines []*engine.Engine
	for s := range 2 {
		e, err := engine.Open(ctx, u.String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		engines = append(engines, e)
		background.Go(func() { _ = e.Run(ctx) })
		background.Go(func() {
			if err := l.follow(ctx, e); err != nil {
				t.Error(err)
			}
		})
		for w := range 4 {
			work.Go(func() { l.work(working, e, fmt.Sprintf("w%d-%d", s, w)) })
		}
	}
	l.wait(t, 200, time.Minute)
	if err := primary.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	promoted := clock.Now()
	l.mu.Lock()
	before := len(l.completed)
	l.mu.Unlock()
	l.wait(t, before+1, 15*time.Second)
	t.Logf("completes come back %v after the promotion; %d were acknowledged before", clock.Now().Sub(promoted), before)
	l.wait(t, before+200, time.Minute)
	rest()
	work.Wait()

	e := engines[0]
	for id := range maps.Keys(l.created) {
		if _, err := e.GetTask(ctx, id); err != nil {
			t.Errorf("task %s was created: %v", id, err)
		}
	}
	for id := range maps.Keys(l.completed) {
		if task, err := e.GetTask(ctx, id); err != nil || task.State != pawl.TaskCompleted {
			t.Errorf("task %s was completed: it is %s, %v", id, task.State, err)
		}
	}
	if _, err := e.Feed().Head(ctx); err != nil {
		t.Fatal(err)
	}
	var all []pawl.Event
	for at := int64(0); ; at = all[len(all)-1].Position {
		some, err := e.Feed().Read(ctx, at, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		all = append(all, some...)
	}
	missed := func() (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range all {
			if !l.seen[all[i].ID] {
				n++
			}
		}
		return n
	}
	for begun := clock.Now(); missed() > 0 && clock.Now().Sub(begun) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
	}
	if n := missed(); n > 0 {
		t.Errorf("the followers missed %d events of %d", n, len(all))
	}
	t.Logf("%d created, %d completed, %d events, epoch %d", len(l.created), len(l.completed), len(all), e.Feed().Epoch())
	breaches, err := e.Check(ctx)
	chains, _, err2 := e.CheckLog(ctx, -1)
	if breaches = slices.Concat(breaches, chains); err != nil || err2 != nil || len(breaches) > 0 {
		t.Errorf("%+v, %v, %v", breaches, err, err2)
	}
	stop()
	background.Wait()
}
