package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// shop is the database of an application, which has tables of the names of Pawl's.
func shop(t *testing.T) (url string, db *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db = need[*sql.DB](t)(sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)"))
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range []string{"PRAGMA journal_mode = WAL", "CREATE TABLE tasks (id INTEGER PRIMARY KEY, task TEXT)",
		"CREATE TABLE items (name)", "CREATE TABLE events (name)", "CREATE VIEW v_tasks AS SELECT id FROM tasks"} {
		need[sql.Result](t)(db.Exec(s))
	}
	return "sqlite:" + path + "?prefix=pawl_", db
}

func count(t *testing.T, db *sql.DB, from string) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COUNT(*) FROM " + from).Scan(&n); err != nil {
		t.Fatal(from, err)
	}
	return n
}

// A task lives in an application's file, and two engines share it with the application's writes.
func TestATaskInAnApplicationsFile(t *testing.T) {
	ctx := t.Context()
	url, db := shop(t)
	open := func() *engine.Engine {
		e := need[*engine.Engine](t)(engine.OpenWith(ctx, url, engine.Options{Identity: "check"}))
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	e, other := open(), open()
	var ids []string
	for i, commit := range []bool{true, false} {
		tx := need[*sql.Tx](t)(db.BeginTx(ctx, nil))
		in := e.In(tx)
		task := need[pawl.Task](t)(pawl.Create(ctx, in, pawl.NewTask{Type: "invoice", Payload: json.RawMessage(`{"order":7}`)}))
		need[sql.Result](t)(tx.Exec("INSERT INTO tasks VALUES ($1, $2)", i, task.ID))
		if !commit {
			_ = tx.Rollback()
			continue
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		in.Committed()
		ids = append(ids, task.ID)
	}
	for _, from := range []string{"tasks t JOIN pawl_v_tasks p ON p.id = t.task", "pawl_v_tasks", "v_tasks"} {
		if n := count(t, db, from); n != 1 {
			t.Errorf("%d rows of %s", n, from)
		}
	}
	held := leases(t, other, pawl.ClaimRequest{WorkerID: "w", Types: []string{"invoice"}, Limit: 2}, 1)
	need[pawl.Moved](t)(pawl.Complete(ctx, other, held[0].Fence(), json.RawMessage(`1`)))
	if got := need[pawl.Task](t)(e.GetTask(ctx, ids[0])); got.State != pawl.TaskCompleted {
		t.Errorf("the task is %s", got.State)
	}
	if breaches, err := e.Check(ctx); err != nil || len(breaches) > 0 {
		t.Error(breaches, err)
	}
	if _, err := os.Stat(strings.TrimSuffix(strings.TrimPrefix(url, "sqlite:"), "?prefix=pawl_") + ".place"); err != nil {
		t.Error(err)
	}
}

// Tasks of an application's file are archived beside it, and restored into it.
func TestArchivesOfAnApplicationsFile(t *testing.T) {
	ctx, o := asOperator(t.Context()), pawl.DefaultSweepOptions()
	o.RetainTasks = time.Microsecond
	url, db := shop(t)
	e := need[*engine.Engine](t)(engine.OpenWith(ctx, url, engine.Options{Sweep: &o}))
	t.Cleanup(func() { _ = e.Close() })
	need[sql.Result](t)(db.Exec("INSERT INTO tasks VALUES (1, 'mine')"))
	ids := endedTasks(t, &pawltest.Pawl{Engine: e}, 3)
	for pruned := int64(0); pruned < 3; {
		pruned += need[pawl.SweepStats](t)(e.Sweep(ctx)).TasksPruned
	}
	if n := count(t, db, "pawl_v_tasks"); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(url, "sqlite:"), "?")
	if files := need[[]string](t)(filepath.Glob(filepath.Join(file+".archives", "*", "*"))); len(files) == 0 {
		t.Error("no archive is beside the file")
	}
	for _, id := range ids {
		need[pawl.Task](t)(e.RestoreArchive(ctx, id))
	}
	for from, want := range map[string]int{"pawl_v_tasks": 3, "tasks": 1} {
		if n := count(t, db, from); n != want {
			t.Errorf("%d rows of %s, want %d", n, from, want)
		}
	}
	if breaches, err := e.Check(ctx); err != nil || len(breaches) > 0 {
		t.Error(breaches, err)
	}
}

// A move between an application's file and a database of Pawl's alone copies Pawl's rows.
func TestMovesOfAnApplicationsFile(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]pawltest.Database{{pawltest.Prefixed, pawltest.SQLite}, {pawltest.SQLite, pawltest.Prefixed},
		{pawltest.Prefixed, pawltest.Postgres}, {pawltest.Postgres, pawltest.Prefixed}} {
		for _, namespace := range []string{"", pawl.DefaultNamespace} {
			t.Run(string(way[0])+" to "+string(way[1])+" "+namespace, func(t *testing.T) {
				t.Parallel()
				from, to := pawltest.OpenNew(t, way[0], withKey(t)), pawltest.OpenNew(t, way[1], withKey(t))
				t.Cleanup(func() { // what was moved is still whole
					if err := from.Engine.ForgetMoves(context.Background()); err != nil {
						t.Error(err)
					}
				})
				task := from.Create(pawl.NewTask{Type: "a"})
				ended := from.Create(pawl.NewTask{Type: "b"})
				from.Complete(from.Claim("b"), `1`)
				moveAll(t, from, to, engine.Move{Namespace: namespace})
				for id, state := range map[string]pawl.TaskState{task.ID: pawl.TaskQueued, ended.ID: pawl.TaskCompleted} {
					if got := need[pawl.Task](t)(to.Engine.GetTask(t.Context(), id)); got.State != state {
						t.Errorf("%s is %s", id, got.State)
					}
				}
			})
		}
	}
}
