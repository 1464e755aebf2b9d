package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

var update = flag.Bool("update", false, "make the databases of testdata/databases anew")

// The databases of earlier versions. They are made by
//
//	go test ./engine -run TestMakeDatabases -update
//
// which needs pg_dump. A version that was released is never made anew: the next one is added.
const (
	databases = "testdata/databases"
	inDump    = "pawl_database"
)

// madeBy lists the migrations that databases were made by. TestMakeDatabases makes the last one.
var madeBy = []string{"0001", "0002"}

// madeAt is when the databases end: the clock of those who open them stands there, so that
// leases still run.
var madeAt = pawltest.Start.Add(pawl.DefaultRetainTasks + time.Hour)

func nameOf(which pawltest.Database, number string) string {
	if which == pawltest.SQLite {
		return filepath.Join(databases, number+".sqlite.tar.gz")
	}
	return filepath.Join(databases, number+".postgres.sql.gz")
}

// migrationsText returns what the migrations up to a number run: their files with the marks
// expanded. What a mark becomes follows the tables of states and columns of the
// program, so a change of these may change a migration that was released.
func migrationsText(t *testing.T, which pawltest.Database, last string) string {
	t.Helper()
	text := need[string](t)(engine.SchemaSQL(string(which), "pawl", 0))
	for _, later := range regexp.MustCompile(`(?m)^-- (\d+): `).FindAllStringSubmatchIndex(text, -1) {
		if fmt.Sprintf("%04s", text[later[2]:later[3]]) > last {
			return strings.TrimSuffix(text[:later[0]], "\n") // the empty line before the next migration
		}
	}
	return text
}

// migrationsHash returns a hash of the migrations up to a number.
func migrationsHash(t *testing.T, which pawltest.Database, last string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(migrationsText(t, which, last)))
	return hex.EncodeToString(sum[:])
}

// The hash of migrations covers what their marks become: another state in the tables of the
// program is another hash.
func TestTheHashOfMigrationsCoversTheirMarks(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		text := migrationsText(t, which, madeBy[0])
		if mark := regexp.MustCompile(`@\w+\(`).FindString(text); mark != "" {
			t.Errorf("%s: the text has the mark %s", which, mark)
		}
		for _, state := range pawl.ItemStates { // in the views
			if !strings.Contains(text, fmt.Sprintf("WHEN %d THEN '%s'", state.Code, state.Name)) {
				t.Errorf("%s: the text does not have state %s", which, state.Name)
			}
		}
	}
}

// TestMakeDatabases makes the databases with -update. Without it, it checks that a database
// made now has rows of every kind.
func TestMakeDatabases(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			o := withKey(t)
			p := pawltest.OpenWith(t, which, o)
			f := &filling{t, p, t.Context()}
			f.fill()
			if missing := f.missing(); len(missing) > 0 {
				t.Fatalf("a database that is made now lacks %s", strings.Join(missing, ", "))
			}
			if !*update {
				return
			}
			var text []byte
			if which == pawltest.SQLite {
				dir := t.TempDir() // of the database and its archives
				f.do(p.Engine.Backup(t.Context(), filepath.Join(dir, "pawl.db")))
				var files bytes.Buffer
				w := tar.NewWriter(&files)
				f.do(w.AddFS(os.DirFS(dir)), w.Close())
				text = files.Bytes()
			} else {
				text = dump(t, p)
			}
			number := madeBy[len(madeBy)-1]
			var out bytes.Buffer
			w := need[*gzip.Writer](t)(gzip.NewWriterLevel(&out, gzip.BestCompression))
			_, err := w.Write(text)
			f.do(err, w.Close(), os.MkdirAll(databases, 0o750), os.WriteFile(nameOf(which, number), out.Bytes(), 0o600),
				os.WriteFile(nameOf(which, number)+".made-by", []byte(migrationsHash(t, which, number)+"\n"), 0o600))
		})
	}
}

// dump returns a schema as SQL.
func dump(t *testing.T, p *pawltest.Pawl) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), "pg_dump", "--no-owner", "--no-privileges", "--rows-per-insert=100", "--schema="+p.Schema, p.URL)
	c.Stderr = os.Stderr
	text := need[[]byte](t)(c.Output())
	text = regexp.MustCompile(`(?m)^(\\.*|SELECT pg_catalog.set_config.*|SET (transaction|default|xml|idle).*)$`).ReplaceAll(text, nil)
	return bytes.ReplaceAll(text, []byte(p.Schema), []byte(inDump))
}

// older opens a copy of the database that the migrations up to a number made.
func older(t *testing.T, which pawltest.Database, number string) *engine.Engine {
	t.Helper()
	url, o := unopened(t, which, number)
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), url, o)) // migrates it
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// unopened copies the database that the migrations up to a number made.
func unopened(t *testing.T, which pawltest.Database, number string) (string, engine.Options) {
	t.Helper()
	name := nameOf(which, number)
	if made := need[[]byte](t)(os.ReadFile(name + ".made-by")); strings.TrimSpace(string(made)) != migrationsHash(t, which, number) {
		t.Fatalf("migration %s of %s has changed, and %s was made by what it was before", number, which, name)
	}
	r := need[*gzip.Reader](t)(gzip.NewReader(bytes.NewReader(need[[]byte](t)(os.ReadFile(name)))))
	text := need[[]byte](t)(io.ReadAll(r))
	url, schema := pawltest.Place(t, which)
	o := engine.Options{Schema: schema}
	if which == pawltest.SQLite {
		o.Clock = func() time.Time { return madeAt }
		unpack(t, text, filepath.Dir(strings.TrimPrefix(url, "sqlite:")))
	} else {
		conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), url))
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(string(text), inDump, schema)); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
	}
	return url, o
}

// A view of a user's that reads one of Pawl's stops the upgrade to migration 9. The error names it, and says what to do.
func TestAViewOfAUserThatStopsAnUpgradeIsNamed(t *testing.T) {
	url, o := unopened(t, pawltest.Postgres, madeBy[len(madeBy)-1])
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), url))
	defer conn.Close(context.WithoutCancel(t.Context()))
	mine := o.Schema + ".my_report"
	exec := func(query string) { t.Helper(); need[pgconn.CommandTag](t)(conn.Exec(t.Context(), query)) }
	exec("CREATE VIEW " + mine + " AS SELECT id FROM " + o.Schema + ".v_items")
	_, err := engine.OpenWith(t.Context(), url, o)
	if pawl.CodeOf(err) != pawl.CodeConflict || !strings.Contains(err.Error(), "my_report") ||
		!strings.Contains(err.Error(), "drop") || !strings.Contains(err.Error(), "create them again") {
		t.Fatalf("the upgrade says: %v", err)
	}
	exec("DROP VIEW " + mine)
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), url, o))
	ok(t, e.Close())
	exec("CREATE VIEW " + mine + " AS SELECT id FROM " + o.Schema + ".v_items")
}

// unpack writes the files of a tar archive into a directory.
func unpack(t *testing.T, text []byte, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(h, err)
		}
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o700)
		} else {
			err = os.WriteFile(to, need[[]byte](t)(io.ReadAll(r)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A database that an earlier version made opens and is migrated. Its rules hold, its log is
// intact, and the work in it goes on where it was.
func TestADatabaseOfAnEarlierVersionGoesOn(t *testing.T) {
	eachOlder(t, madeBy, func(t *testing.T, e *engine.Engine) {
		ctx := t.Context()
		sound(t, e)
		of := func(state pawl.ItemState) pawl.List[pawl.Item] {
			q := pawl.ItemFilter{States: []pawl.ItemState{state}, Types: []string{string(state)}}
			return need[pawl.List[pawl.Item]](t)(e.ListItems(ctx, q))
		}
		leased, waiting := of(pawl.ItemLeased), of(pawl.ItemWaiting)
		if len(leased.Items) != 5 || len(waiting.Items) != 5 {
			t.Fatalf("%d leased and %d waiting items", len(leased.Items), len(waiting.Items))
		}
		fences := []pawl.Fence{}
		for _, it := range leased.Items {
			fences = append(fences, pawl.Fence{ItemID: it.ID, WorkerID: it.WorkerID, Attempt: it.Attempt})
		}
		for _, it := range waiting.Items {
			need[pawl.Signalled](t)(first(e.SendSignals(ctx, []pawl.SignalCall{{Name: "go", Key: it.ID, Payload: json.RawMessage("1")}})))
			l := leases(t, e, pawl.ClaimRequest{WorkerID: "after", ItemID: it.ID}, 1)[0]
			fences = append(fences, l.Fence())
		}
		for _, f := range fences {
			need[pawl.Moved](t)(first(e.Complete(ctx, []pawl.CompleteCall{{Fence: f, Result: json.RawMessage("3")}})))
		}
		for _, it := range append(leased.Items, waiting.Items...) {
			task := need[pawl.Task](t)(e.GetTask(ctx, it.TaskID))
			if task.State != pawl.TaskCompleted {
				t.Errorf("%s is %s", task.ID, task.State)
			}
		}
		list := need[pawl.List[pawl.Archive]](t)(e.ListArchives(ctx, pawl.Page{}))
		for _, a := range list.Items {
			need[pawl.Task](t)(e.RestoreArchive(ctx, a.TaskID))
		}
		if len(list.Items) != 2 {
			t.Errorf("%d archives", len(list.Items))
		}
		sound(t, e)
	})
}

// eachOlder runs a test with the databases that the migrations up to each number made.
func eachOlder(t *testing.T, numbers []string, run func(t *testing.T, e *engine.Engine)) {
	for _, which := range pawltest.Databases {
		for _, number := range numbers {
			t.Run(string(which)+"/"+number, func(t *testing.T) {
				t.Parallel()
				run(t, older(t, which, number))
			})
		}
	}
}

// sound checks the rules and the log of a database, as doctor and verify --all do.
func sound(t *testing.T, e *engine.Engine) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := e.Log(ctx); err != nil {
		t.Fatal(err)
	}
	for _, b := range need[[]engine.Breach](t)(e.Check(ctx)) {
		t.Errorf("rule %q is broken by %s: %s", b.Rule, b.Subject, b.Found)
	}
	v, err := e.VerifyLog(ctx, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Faults {
		t.Errorf("the log: %+v", f)
	}
}
