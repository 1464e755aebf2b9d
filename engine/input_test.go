package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestADatabaseThatIsNotOursIsSaidPlainlyAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	other := filepath.Join(dir, "other.db")
	if err := os.WriteFile(text, []byte("these are my notes, and no database\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE tasks (mine TEXT); INSERT INTO tasks VALUES ('precious')`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, path := range []string{text, other} {
		before, _ := os.ReadFile(path)
		e, err := engine.Open(t.Context(), "sqlite:"+path)
		if err == nil {
			e.Close()
			t.Errorf("%s was opened", filepath.Base(path))
			continue
		}
		if code := pawl.CodeOf(err); code == pawl.CodeInternal {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s was changed", filepath.Base(path))
		}
	}
}

func TestAURLThatIsNoneIsInvalidOrUnavailable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "pawl.db", "mysql://localhost/x", "sqlite:", "sqlite:" + t.TempDir(), "sqlite:" + filepath.Join(t.TempDir(), "no", "such", "dir",
			"x.db"),
		"postgres://nobody@127.0.0.1:1/none?connect_timeout=2", "postgres://%zz",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		e, err := engine.Open(ctx, url)
		cancel()
		if err == nil {
			e.Close()
			t.Errorf("%q was opened", url)
			continue
		}
		if code := pawl.CodeOf(err); code != pawl.CodeInvalid && code != pawl.CodeUnavailable {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// The server's connections are cut again and again while workers work. Every call is
// either carried out or returns unavailable. Afterwards nothing is lost.
func TestPostgresGoneAndBack(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	killer := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer killer.Close(context.Background())
	var work sync.WaitGroup
	var done, refused atomic.Int64
	results := sync.Map{}
	end, last := time.Now().Add(time.Duration(times(3, 30))*time.Second), time.Now().Add(time.Minute)
	more := func() bool { // a busy machine may need more time and longer pauses to make progress
		return time.Now().Before(end) || done.Load() == 0 && time.Now().Before(last)
	}
	for n := range 4 {
		work.Go(func() {
			for i := 0; more(); i++ {
				task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: fmt.Sprint("w", n), MaxAttempts: 1000})
				if gone(t, err, &refused) {
					continue
				}
				ls, err := p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("w", n), TaskID: task.ID, LeaseSeconds: 3600})
				if gone(t, err, &refused) || len(ls) == 0 {
					continue
				}
				result := fmt.Sprintf(`"%d-%d"`, n, i)
				if _, err = pawl.Complete(ctx, p.Service, ls[0].Fence(), []byte(result)); gone(t, err, &refused) {
					continue
				}
				results.Store(task.ID, result)
				done.Add(1)
			}
		})
	}
	for pause := 100 * time.Millisecond; more(); {
		if time.Now().After(end) {
			pause *= 2
		}
		time.Sleep(pause)
		if _, err := killer.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND `+
			`application_name = 'pawl' AND query LIKE '%' || $1 || '%'`, p.Schema); err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
	cut := time.Now() // a connection that was idle for a second is checked before it is used
	until(t, "connections are not idle for long", func() bool { return time.Since(cut) > 1500*time.Millisecond })
	t.Logf("%d carried out, %d unavailable", done.Load(), refused.Load())
	if done.Load() == 0 {
		t.Error("nothing was carried out")
	}
	results.Range(func(id, want any) bool {
		r, err := p.Service.TaskResult(ctx, id.(string))
		if err != nil || string(r.Payload) != want {
			t.Errorf("task %s: result %s, %v, want %s", id, r.Payload, err, want)
		}
		return true
	})
}

// gone reports whether a call failed; only a lost connection is an allowed reason.
func gone(t *testing.T, err error, refused *atomic.Int64) bool {
	if err == nil {
		return false
	}
	refused.Add(1)
	if !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("with the connection cut: %v", err)
	}
	return true
}

// The databases themselves refuse changes of events, except by retention.
func TestTheRecordIsAppendOnly(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Payload: []byte(`1`)}))
		l := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		need[pawl.CheckpointRef](t)(
			pawl.SaveCheckpoint(t.Context(), p.Service, l.Fence(), pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)}))
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Service, l.Fence(), []byte(`1`)))
		before := printOf(t, p.Service)
		for _, query := range []string{
			`UPDATE pawl.task_events SET actor = actor + 1`,
			`UPDATE pawl.checkpoints SET snapshot = '2'`,
			`UPDATE pawl.finished_items SET result = '2'`,
			`DELETE FROM pawl.task_events`,
			`DELETE FROM pawl.checkpoints`,
			`DELETE FROM pawl.finished_items`,
		} {
			if err := p.Exec(query); err == nil {
				t.Errorf("%s was carried out", query)
			}
		}
		if after := printOf(t, p.Service); after != before {
			t.Errorf("the record changed:\nbefore %s\nafter  %s", before, after)
		}
	})
}
