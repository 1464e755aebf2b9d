package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// gate is a connection beside the engines of a PostgreSQL test. It holds a lock, so that
// a verb waits at a statement that the test chooses.
type gate struct {
	t    *testing.T
	conn *pgx.Conn
	look *pgx.Conn // outside the transaction, in which pg_stat_activity would not change
}

func newGate(t *testing.T, p *pawltest.Pawl) *gate {
	t.Helper()
	g := &gate{t: t}
	for _, conn := range []**pgx.Conn{&g.conn, &g.look} {
		c, err := pgx.Connect(t.Context(), p.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		if _, err := c.Exec(t.Context(), "SET search_path = "+p.Schema); err != nil {
			t.Fatal(err)
		}
		*conn = c
	}
	return g
}

func (g *gate) exec(query string, args ...any) {
	g.t.Helper()
	if _, err := g.conn.Exec(context.Background(), query, args...); err != nil {
		g.t.Fatalf("%s: %v", query, err)
	}
}

func (g *gate) close(query string, args ...any) {
	g.t.Helper()
	g.exec("BEGIN")
	g.exec(query, args...)
}

func (g *gate) open() { g.t.Helper(); g.exec("ROLLBACK") }

// waiting returns once n connections of this database wait for a lock in the
// test's schema.
func (g *gate) waiting(n int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for got := -1; got != n; {
		err := g.look.QueryRow(ctx, `SELECT count(DISTINCT a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
			WHERE NOT l.granted AND a.query LIKE '%' || current_schema || '%'`).Scan(&got)
		if err != nil {
			g.t.Fatalf("%d connections wait for a lock, not %d: %v", got, n, err)
		}
	}
}

// started runs fn in a goroutine. The channel gets its error.
func started(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

func addTo(svc pawl.Service, task string, items ...pawl.NewItem) error {
	_, err := first(svc.AddItems(context.Background(), []pawl.AddItems{{TaskID: task, Items: items}}))
	return err
}

func cancelTask(svc pawl.Service, task string, items ...string) error {
	_, err := first(svc.CancelTasks(context.Background(), []pawl.TaskCall{{TaskID: task, ItemIDs: items}}))
	return err
}

var oneMore = pawl.NewItem{Input: []byte(`"more"`)}

func items(n int) []pawl.NewItem {
	out := make([]pawl.NewItem, n)
	for i := range out {
		out[i].Input = []byte(`1`)
	}
	return out
}

// states returns a task's state and the states of its items, in their order.
func states(t testing.TB, svc pawl.Service, task string) string {
	t.Helper()
	out := []string{string(need[pawl.Task](t)(svc.GetTask(context.Background(), task)).State)}
	list := need[pawl.List[pawl.Item]](t)(svc.ListItems(context.Background(), pawl.ItemFilter{TaskID: task}))
	for i := range list.Items {
		out = append(out, string(list.Items[i].State))
	}
	return strings.Join(out, " ")
}

// onPostgres runs a test that needs two transactions at once. SQLite has one writer:
// other tests make the same calls there one after the other. Both processes know the name of the
// caller: with a new name a transaction begins again, after those that wait for its locks.
func onPostgres(t *testing.T) (*pawltest.Pawl, [2]pawl.Service) {
	t.Helper()
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	svc := [2]pawl.Service{p.Engine, p.Another(engine.Options{})}
	for _, s := range svc {
		if err := cancelTask(s, need[pawl.Task](t)(pawl.Create(t.Context(), s, pawl.NewTask{Type: "named"})).ID); err != nil {
			t.Fatal(err)
		}
	}
	return p, svc
}

// Items that are being added while the task is cancelled are cancelled with it, or
// refused.
func TestCancelWaitsForItemsThatAreBeingAdded(t *testing.T) {
	p, svc := onPostgres(t)
	task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: "a", Items: items(2)}))
	inserts, counter := newGate(t, p), newGate(t, p)
	inserts.close("LOCK TABLE items IN SHARE MODE")
	added := started(func() error { return addTo(svc[0], task.ID, oneMore) })
	counter.waiting(1)
	counter.close("SELECT 1 FROM task_counters WHERE task_id = id($1) FOR UPDATE", task.ID)
	inserts.open()
	inserts.waiting(1) // at the counter
	cancelled := started(func() error { return cancelTask(svc[1], task.ID) })
	inserts.waiting(2)
	counter.open()
	if err := <-added; err != nil && pawl.CodeOf(err) != pawl.CodeConflict {
		t.Error("add_items:", err)
	}
	if err := <-cancelled; err != nil {
		t.Error("cancel:", err)
	}
	if got := states(t, svc[0], task.ID); strings.Count(got, "cancelled") != len(strings.Fields(got)) {
		t.Error("a cancelled task has items to run:", got)
	}
}

// A task of one item becomes a task of many items while it is cancelled.
func TestCancelOfATaskThatGrowsBeyondOneItem(t *testing.T) {
	p, svc := onPostgres(t)
	task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: "a"}))
	g := newGate(t, p)
	g.close("SELECT 1 FROM ready WHERE task_id = id($1) FOR UPDATE", task.ID)
	added := started(func() error { return addTo(svc[0], task.ID, oneMore) })
	g.waiting(1)
	cancelled := started(func() error { return cancelTask(svc[1], task.ID) })
	g.waiting(2)
	g.open()
	if err := <-added; err != nil {
		t.Error("add_items:", err)
	}
	if err := <-cancelled; err != nil {
		t.Error("cancel:", err)
	}
	if got := states(t, svc[0], task.ID); got != "cancelled cancelled cancelled" {
		t.Error(got)
	}
}

// Two calls add items to a task of one item: both count.
func TestTwoAddToATaskOfOne(t *testing.T) {
	p, svc := onPostgres(t)
	for _, place := range []string{"ready", "leases"} {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: place}))
		if place == "leases" {
			leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", Types: []string{place}}, 1)
		}
		g := newGate(t, p)
		g.close("LOCK TABLE " + place + " IN EXCLUSIVE MODE")
		var done [2]<-chan error
		for i := range done {
			done[i] = started(func() error { return addTo(svc[i], task.ID, oneMore) })
			g.waiting(i + 1)
		}
		g.open()
		for i := range done {
			if err := <-done[i]; err != nil {
				t.Errorf("%s: add_items %d: %v", place, i, err)
			}
		}
		if got := need[pawl.Task](t)(svc[0].GetTask(t.Context(), task.ID)); got.Items != 3 || got.ItemsOpen != 3 {
			t.Errorf("%s: %d items, %d open; want 3 and 3", place, got.Items, got.ItemsOpen)
		}
	}
}

// A call with an idempotency key waits for a lock until its lease has expired. The lease
// is checked against the time after the wait.
func TestALeaseIsJudgedAfterTheWaitForIt(t *testing.T) {
	p, svc := onPostgres(t)
	need[pawl.TypeRef](t)(first(svc[0].PutTypes(t.Context(), []pawl.Type{{Name: "a", Acceptance: true}})))
	verbs := map[string]func(ctx context.Context, svc pawl.Service, l pawl.Lease) error{
		"submit": func(ctx context.Context, svc pawl.Service, l pawl.Lease) error {
			_, err := first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}}))
			return err
		},
		"release": func(ctx context.Context, svc pawl.Service, l pawl.Lease) error {
			_, err := pawl.Release(ctx, svc, l.Fence())
			return err
		},
		"complete": func(ctx context.Context, svc pawl.Service, l pawl.Lease) error {
			_, err := pawl.Complete(ctx, svc, l.Fence(), nil)
			return err
		},
	}
	for verb, call := range verbs {
		kind := "a"
		if verb == "complete" { // of the statement that no type with acceptance takes
			kind = "b"
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: kind}))
		l := leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60}, 1)[0]
		g := newGate(t, p)
		g.close("SELECT 1 FROM leases WHERE item_id = id($1) FOR UPDATE", l.ID)
		done := started(func() error {
			_, _, err := p.Engine.Idempotent(context.Background(), pawl.KeyBegin{Scope: "test", Key: verb, RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					return &pawl.Answer{Code: 200}, call(ctx, svc, l)
				})
			return err
		})
		g.waiting(1)
		p.Advance(2 * time.Minute)
		g.open()
		if err := <-done; !errors.Is(err, pawl.ErrLeaseExpired) {
			t.Errorf("%s: %v, want that the lease has run out", verb, err)
		}
		need[pawl.SweepStats](t)(svc[0].Sweep(t.Context()))
		if err := cancelTask(svc[0], l.TaskID); err != nil {
			t.Error(err)
		}
	}
}

// A dependency of an item ends while the item's own row is changed: by a change of
// priority, or by add_items with an item that depends on it.
func TestDependentsLearnOfAnEndWhileTheirRowIsChanged(t *testing.T) {
	p, svc := onPostgres(t)
	ends := []struct {
		name string
		end  func(pawl.Fence) error
		want string
	}{
		{"complete", func(f pawl.Fence) error { return finish(svc[1], f) }, "queued"},
		{"fail", func(f pawl.Fence) error { return ruin(svc[1], f) }, "failed"},
		{"expire", func(pawl.Fence) error {
			_, err := svc[1].Sweep(context.Background())
			return err
		}, "failed"},
		{"cancel", func(f pawl.Fence) error { return drop(svc[1], f) }, "cancelled"},
	}
	changes := []struct {
		name, gate string
		change     func(task string) error
	}{
		{"priority", "SELECT 1 FROM task_counters WHERE task_id = id($1) FOR UPDATE", func(task string) error {
			seven := 7
			_, err := first(svc[0].UpdateTasks(context.Background(), []pawl.TaskUpdate{{TaskID: task, Priority: &seven}}))
			return err
		}},
		{"add_items", "LOCK TABLE items IN SHARE MODE", func(task string) error {
			return addTo(svc[0], task, pawl.NewItem{Input: []byte(`3`), After: []string{"b"}})
		}},
	}
	for i, end := range ends {
		for j, c := range changes {
			name := fmt.Sprintf("%s while %s", end.name, c.name)
			typ, own := fmt.Sprintf("t%d%d", i, j), 5 // the first item keeps its row
			task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: typ, MaxAttempts: 1, Items: []pawl.NewItem{
				{Input: []byte(`1`), Key: "a", Priority: &own}, {Input: []byte(`2`), Key: "b", After: []string{"a"}}}}))
			l := leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, LeaseSeconds: 60}, 1)[0]
			if end.name == "expire" {
				p.Advance(2 * time.Minute)
			}
			g := newGate(t, p)
			query, args := c.gate, []any{task.ID}
			if !strings.Contains(query, "$1") {
				args = nil
			}
			g.close(query, args...)
			changed := started(func() error { return c.change(task.ID) })
			g.waiting(1)
			ended := started(func() error { return end.end(l.Fence()) })
			g.waiting(2)
			g.open()
			if err := <-changed; err != nil && pawl.CodeOf(err) != pawl.CodeConflict {
				t.Errorf("%s: %v", name, err)
			}
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := svc[0].Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(states(t, svc[0], task.ID)); got[2] != end.want {
				t.Errorf("%s: the item that waited is %s, want %s", name, got[2], end.want)
			}
		}
	}
}

// A retry that waits for a cancel of a task whose apply failed is a conflict: the state
// that it read has changed.
func TestARetryAfterACancelItWaitedFor(t *testing.T) {
	p, svc := onPostgres(t)
	need[pawl.TypeRef](t)(
		first(svc[0].PutTypes(t.Context(), []pawl.Type{{Name: "report", Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem}}})))
	for _, verb := range []string{"retry", "bury"} {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: "report", Items: []pawl.NewItem{{}, {}}}))
		for _, l := range leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: 2}, 2) {
			need[pawl.Moved](t)(first(svc[0].Submit(t.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}})))
		}
		if err := ruin(svc[0], leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", Types: []string{"report.apply"}}, 1)[0].Fence()); err != nil {
			t.Fatal(err)
		}
		g := newGate(t, p)
		g.close("SELECT 1 FROM tasks WHERE id = id($1) FOR UPDATE", task.ID)
		cancelled := started(func() error { return cancelTask(svc[0], task.ID) })
		g.waiting(1)
		done := started(func() error {
			do := svc[1].RetryTasks
			if verb == "bury" {
				do = svc[1].BuryTasks
			}
			_, err := first(do(t.Context(), []pawl.TaskCall{{TaskID: task.ID}}))
			return err
		})
		g.waiting(2)
		g.open()
		if err := <-cancelled; err != nil {
			t.Error("cancel:", err)
		}
		if err := <-done; !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("%s: %v", verb, err)
		}
		if got := need[pawl.Task](t)(svc[0].GetTask(t.Context(), task.ID)); got.State != pawl.TaskCancelled {
			t.Errorf("after %s the task is %s", verb, got.State)
		}
	}
}
