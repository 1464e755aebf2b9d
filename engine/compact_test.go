package engine_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A SQLite file gives the space of removed tasks back with each pass. One that was made before files could shrink does
// so from a compact on.
func TestAFileShrinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	opened := func(use func(e *engine.Engine)) (size int64) {
		t.Helper()
		sweeps := pawl.DefaultSweepOptions()
		sweeps.RetainTasks = time.Microsecond
		e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), "sqlite:"+path, engine.Options{Sweep: &sweeps}))
		use(e)
		ok(t, e.Close()) // puts everything into the file
		return need[os.FileInfo](t)(os.Stat(path)).Size()
	}
	lives := func(e *engine.Engine) {
		calls := pawltest.NewCalls(t, e)
		for range 100 {
			calls.Create(pawl.NewTask{Type: "a", Payload: []byte(`"` + strings.Repeat("x", 60_000) + `"`)})
			calls.Complete(calls.Claim(), "")
		}
		if st := need[pawl.SweepStats](t)(e.Sweep(t.Context())); st.TasksPruned != 100 {
			t.Fatalf("%d tasks were removed", st.TasksPruned)
		}
	}
	const most = 3 << 20
	if n := opened(lives); n > most {
		t.Errorf("after retention the file has %d bytes", n)
	}
	db := need[*sql.DB](t)(sql.Open("sqlite", path))
	need[sql.Result](t)(db.Exec("PRAGMA auto_vacuum = NONE; VACUUM"))
	ok(t, db.Close())
	full := opened(lives)
	if full < 5<<20 {
		t.Fatalf("the file of before shrinks by itself, to %d bytes", full)
	}
	var freed int64
	n := opened(func(e *engine.Engine) { freed = need[int64](t)(e.Compact(t.Context())) })
	if n > most || freed < full-most {
		t.Errorf("compact has freed %d bytes of %d; %d are left", freed, full, n)
	}
	if n := opened(lives); n > most {
		t.Errorf("after compact and retention the file has %d bytes", n)
	}
}

// On PostgreSQL, compact needs no stop of the work.
func TestCompactOnPostgres(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	p.Create(pawl.NewTask{Type: "a"})
	if freed := need[int64](t)(p.Engine.Compact(t.Context())); freed < 0 {
		t.Errorf("%d bytes", freed)
	}
	p.Claim()
}
