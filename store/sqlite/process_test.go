package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// The test binary also runs as the other processes: see child.
const childOf, childDoes = "PAWL_SQLITE_TEST_FILE", "PAWL_SQLITE_TEST_DOES"

func TestMain(m *testing.M) {
	if path := os.Getenv(childOf); path != "" {
		if err := child(context.Background(), path, os.Getenv(childDoes)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(ctx context.Context, path, does string) error {
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	switch does {
	case "migrate":
		done, err := db.Dialect().Migrator.Up(ctx)
		fmt.Println(len(done))
		return err
	case "drain":
		return drain(ctx, db)
	case "die":
		return db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.Exec(ctx, note, "half", "x", 1); err != nil {
				return err
			}
			fmt.Println("inside")
			_, err := io.ReadAll(os.Stdin) // killed here
			return err
		})
	}
	return errors.New("what?")
}

// drain claims and completes items until none is left, and prints what it did.
func drain(ctx context.Context, db store.DB) error {
	me := fmt.Sprint("w", os.Getpid())
	for {
		var got []store.Claimed
		err := db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			got, err = db.Dialect().Hot.Claim(ctx, tx, store.Claim{Namespace: "default",
				Claimants: []store.Claimant{{WorkerID: me, Limit: 1, LeaseSeconds: 60}}, Queues: []store.Queue{{Type: "t", Rank: 1}}})
			return err
		})
		if err != nil || len(got) == 0 {
			return err
		}
		var moved []store.Moved
		err = db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			moved, err = db.Dialect().Hot.Complete(ctx, tx, []store.Complete{{Fence: fence(me, got[0]), Result: "1"}})
			return err
		})
		if err != nil || len(moved) != 1 {
			return fmt.Errorf("completed %v: %w", moved, err)
		}
		fmt.Println(got[0].ItemID)
	}
}

func spawn(t *testing.T, path, does string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childOf+"="+path, childDoes+"="+does)
	cmd.Stderr = os.Stderr
	return cmd
}

// together runs n processes at the same time and returns their outputs.
func together(t *testing.T, n int, path, does string) []string {
	t.Helper()
	outs := make([]strings.Builder, n)
	cmds := make([]*exec.Cmd, n)
	for i := range n {
		cmds[i] = spawn(t, path, does)
		cmds[i].Stdout = &outs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	var printed []string
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		printed = append(printed, strings.TrimSpace(outs[i].String()))
	}
	return printed
}

func TestFourProcessesMigrateOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db")
	var once int
	for _, out := range together(t, 4, path, "migrate") {
		if out != "0" {
			once++
		}
	}
	if once != 1 {
		t.Errorf("%d of 4 migrated", once)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestThreeProcessesDrainOneFile(t *testing.T) {
	h := newDatabase(t)
	const items = 60
	h.many(items)
	seen := map[string]bool{}
	for _, out := range together(t, 3, h.path, "drain") {
		for _, id := range strings.Fields(out) {
			if seen[id] {
				t.Errorf("%s was done twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != items {
		t.Errorf("%d of %d done", len(seen), items)
	}
	h.want("task", h.table("SELECT state, open FROM pawl.task_counters"), "completed 0")
	h.want("task's events", h.table("SELECT event FROM pawl.event_rows WHERE item_id IS NULL ORDER BY id"), "proposed\ncompleted")
	h.want("stamps in commit order", h.table("SELECT COUNT(*) FROM pawl.event_rows a JOIN pawl.task_events b ON b.id = a.id + 1 "+
		"WHERE b.created_at < a.created_at"), "0")
}

func TestAKilledWriterLeavesNothing(t *testing.T) {
	h := newDatabase(t)
	cmd := spawn(t, h.path, "die")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(stdout, make([]byte, 6), 6); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	h.do(func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "mine", "x", 1)
		return err
	})
	h.want("notes", h.notes(), "mine")
}

func TestStatusBeforeAndAfterMigrating(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "work.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m := db.Dialect().Migrator
	if err := store.Verify(t.Context(), m); pawl.CodeOf(err) != pawl.CodeUnavailable {
		t.Errorf("verify: %v", err)
	}
	done, err := m.Up(t.Context())
	if err != nil || len(done) == 0 || done[0].ID != 1 {
		t.Errorf("up: %v (%v)", done, err)
	}
	if err := store.Verify(t.Context(), m); err != nil {
		t.Error(err)
	}
}

// A schema that its table of migrations does not describe is refused, and not reported as
// an internal error.
func TestATableOfMigrationsThatIsNotTrue(t *testing.T) {
	for name, statement := range map[string]string{
		"another's":  "DROP TABLE schema_migrations; CREATE TABLE schema_migrations (version TEXT)",
		"gone":       "DROP TABLE schema_migrations",
		"empty":      "DELETE FROM schema_migrations",
		"with a gap": "UPDATE schema_migrations SET id = id + 90",
		"of nonsense": "DROP TABLE schema_migrations; CREATE TABLE schema_migrations (id, description, executed_at, oldest); INSERT INTO " +
			"schema_migrations VALUES ('x', 1, 1, 1)",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "work.db")
			db, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			m := db.Dialect().Migrator
			if _, err := m.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			other, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if _, err := other.Exec(statement); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Up(t.Context()); pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "schema_migrations") {
				t.Errorf("up: %v", err)
			}
		})
	}
}

func TestTheMigrationLockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db.lock")
	release, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(gone, path); pawl.CodeOf(err) != pawl.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	release()
	if release, err = lockFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file stays: %v", err)
	}
}

func TestBackupIsWholeWhileWorkGoesOn(t *testing.T) {
	h := newDatabase(t)
	h.many(100)
	dest := filepath.Join(t.TempDir(), "copy.db")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				h.claim("w", 1)
			}
		}
	}()
	err := Backup(t.Context(), h.DB, dest, nil)
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	h.wantCode(Backup(t.Context(), h.DB, dest, nil), pawl.CodeConflict)
	h.wantCode(Backup(t.Context(), h.DB, filepath.Join(dest, "x", "y.db"), nil), pawl.CodeInvalid)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.wantCode(Backup(gone, h.DB, dest+"2", nil), pawl.CodeUnavailable)
	if left, err := os.ReadDir(filepath.Dir(dest)); err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
	c := &database{T: t, path: dest, time: start}
	c.DB = c.open()
	c.want("items", c.table("SELECT (SELECT COUNT(*) FROM pawl.all_items), (SELECT COUNT(*) FROM pawl.ready) + (SELECT COUNT(*) "+
		"FROM pawl.leases)"), "100 100")
	c.want("events of claims", c.table("SELECT (SELECT COUNT(*) FROM pawl.leases) = (SELECT COUNT(*) FROM pawl.event_rows "+
		"WHERE event = 'leased')"), "1")
}
