package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// deadLettering makes a task whose last open item is leased and whose other item is
// dead-lettered. Completing the lease settles the task as dead_lettered.
func deadLettering(t *testing.T, p *pawltest.Pawl) (pawl.NewTask, pawl.Lease) {
	t.Helper()
	call := pawl.NewTask{
		Type:    "t",
		Payload: []byte(`{"n":1}`),
		Dedupe:  pawl.Dedupe{All: true},
		Items:   []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}},
	}
	need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, call))
	both := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 300}, 2)
	if err := ruin(p.Service, both[0].Fence()); err != nil {
		t.Fatal(err)
	}
	need[pawl.Task](t)(first(p.Service.BuryTasks(t.Context(), []pawl.TaskCall{{TaskID: both[0].TaskID, ItemIDs: []string{both[0].ID}}})))
	return call, both[1]
}

// A cancel locks the task, then its items, then its counters. A completion that settles
// the task as dead_lettered holds the lease and the counters, so it must not wait for the
// task.
func TestSettlingDoesNotLockTheTask(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	call, last := deadLettering(t, p)
	unlock := stranger(t, p, "SELECT FROM tasks WHERE id = id($1) FOR NO KEY UPDATE", last.TaskID) // the first statement of a cancel
	completed := make(chan error, 1)
	go func() { completed <- finish(p.Service, last.Fence()) }()
	for state := pawl.TaskOpen; state != pawl.TaskDeadLettered; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-completed:
			if err != nil {
				t.Fatalf("the completion waited for the task: %v", err)
			}
			completed <- nil
		default:
		}
		state = need[pawl.Task](t)(p.Service.GetTask(t.Context(), last.TaskID)).State
	}
	if breaches, err := p.Engine.Check(t.Context()); err != nil || len(breaches) > 0 {
		t.Errorf("while the hash is not released yet: %v, %v", breaches, err)
	}
	unlock()
	if err := <-completed; err != nil {
		t.Error(err)
	}
	again := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, call))
	if again.Deduplicated || again.ID == last.TaskID {
		t.Errorf("a dead-lettered task keeps its input hash: %+v", again)
	}
	need[pawl.Task](t)(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: last.TaskID}})))
}

// A create that runs before the hash of a dead-lettered task is released releases the
// hash.
func TestCreateReleasesTheHashOfADeadLetteredTask(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	call, last := deadLettering(t, p)
	if err := finish(p.Service, last.Fence()); err != nil {
		t.Fatal(err)
	}
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	defer conn.Close(t.Context())
	for _, text := range []string{"UPDATE tasks SET dedupes = 1 WHERE id = $1",
		"UPDATE task_counters SET todo = 1 WHERE task_id = $1"} { // as after a crash
		if _, err := conn.Exec(t.Context(), text[:7]+p.Schema+"."+text[7:], store.TaskID(last.TaskID)); err != nil {
			t.Fatal(err)
		}
	}
	if again := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, call)); again.Deduplicated {
		t.Errorf("%+v", again)
	}
}

// A completion locks its lease and then the items that depend on it; so does a cancel.
func TestCancelLocksLeasesBeforeWhatWaits(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "t",
		Items: []pawl.NewItem{{Key: "a", Input: []byte(`1`)}, {Key: "b", Input: []byte(`2`), After: []string{"a"}}}}))
	held := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 300}, 1)[0]
	unlock := stranger(t, p, "SELECT FROM leases WHERE item_id = id($1) FOR UPDATE", held.ID) // the first lock of a completion
	var cancel sync.WaitGroup
	cancel.Go(func() {
		need[pawl.Task](t)(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}})))
	})
	defer cancel.Wait()
	defer unlock()
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	defer conn.Close(t.Context())
	for waits := false; !waits; time.Sleep(5 * time.Millisecond) {
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+
			p.Schema+"%leases%')").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT FROM "+p.Schema+".waiting FOR UPDATE NOWAIT"); err != nil { // the second lock of a completion
		t.Errorf("the cancel locked what waits before the lease: %v", err)
	}
}

// While a verb waits for a lease, it holds no lock that comes after leases in the lock
// order: dependent items, counters, and leases with greater ids.
func TestVerbsThatWaitForALeaseHoldNothingThatComesAfterIt(t *testing.T) {
	seven := 7
	verbs := map[string]func(svc pawl.Service, task string) error{
		"add_items": func(svc pawl.Service, task string) error {
			return addTo(svc, task, pawl.NewItem{Input: []byte(`1`), After: []string{"w", "a"}},
				pawl.NewItem{Input: []byte(`1`), After: []string{"b"}})
		},
		"cancel": func(svc pawl.Service, task string) error { return cancelTask(svc, task) },
		"update": func(svc pawl.Service, task string) error {
			_, err := first(svc.UpdateTasks(context.Background(), []pawl.TaskUpdate{{TaskID: task, Priority: &seven}}))
			return err
		},
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			p, svc := onPostgres(t)
			task := need[pawl.Task](t)(pawl.Create(t.Context(), svc[0], pawl.NewTask{Type: "t", Items: []pawl.NewItem{
				{Key: "a", Input: []byte(`1`)}, {Key: "b", Input: []byte(`1`)}, {Key: "w", Input: []byte(`1`), After: []string{"a", "b"}}}}))
			held := leases(t, svc[0], pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 300}, 2)
			slices.SortFunc(held, func(a, b pawl.Lease) int { return strings.Compare(a.ID, b.ID) })
			lease, beside := newGate(t, p), newGate(t, p)
			// The rows are in the table in descending order of their ids.
			lease.exec("CREATE TEMP TABLE l AS SELECT * FROM leases")
			lease.exec("DELETE FROM leases")
			lease.exec("INSERT INTO leases SELECT * FROM l ORDER BY item_id DESC")
			lease.close("SELECT FROM leases WHERE item_id = id($1) FOR UPDATE", held[0].ID)
			done := started(func() error { return verb(svc[1], task.ID) })
			lease.waiting(1)
			for _, query := range []string{
				"SELECT FROM leases WHERE item_id > id('" + held[0].ID + "') FOR UPDATE NOWAIT",
				"SELECT FROM waiting FOR UPDATE NOWAIT",
				"SELECT FROM task_counters WHERE task_id = id('" + task.ID + "') FOR UPDATE NOWAIT",
			} {
				if tag, err := beside.conn.Exec(t.Context(), query); err != nil || tag.RowsAffected() != 1 {
					t.Errorf("%s: %v, %v", query, tag, err)
				}
			}
			lease.open()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A spawn that waits for the parent does not hold the lease of its item: all calls that lock both
// lock the task first.
func TestASpawnLocksTheParentBeforeItsLease(t *testing.T) {
	p, svc := onPostgres(t)
	l, _ := spawned(t, p.Engine, "parent", 0)
	task, beside := newGate(t, p), newGate(t, p)
	task.close("SELECT FROM tasks WHERE id = id($1) FOR UPDATE", l.TaskID)
	done := started(func() error {
		_, err := first(svc[1].Spawn(context.Background(), []pawl.SpawnCall{{Fence: l.Fence(), Key: "k", Task: pawl.NewTask{Type: "child"}}}))
		return err
	})
	task.waiting(1)
	tag, err := beside.conn.Exec(t.Context(), "SELECT FROM leases WHERE item_id = id($1) FOR UPDATE NOWAIT", l.ID)
	if err != nil || tag.RowsAffected() != 1 {
		t.Errorf("the lease: %v, %v", tag, err)
	}
	task.open()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
