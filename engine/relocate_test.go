package engine_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// eachMove runs a test for pairs of equal or of different databases. PAWL_TORTURE=1 takes all pairs.
func eachMove(t *testing.T, equal bool, fn func(t *testing.T, from, to *pawltest.Pawl)) {
	t.Parallel()
	someMoves(t, func(from, to pawltest.Database) bool { return times(1, 4) == 4 || (from == to) == equal }, fn)
}

func someMoves(t *testing.T, runs func(from, to pawltest.Database) bool, fn func(t *testing.T, from, to *pawltest.Pawl)) {
	for _, from := range pawltest.Databases {
		for _, to := range pawltest.Databases {
			if !runs(from, to) {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				t.Parallel()
				o := withKey(t)
				source := pawltest.OpenNew(t, from, o)
				t.Cleanup(func() { // what was moved is still whole
					if err := source.Engine.ForgetMoves(context.Background()); err != nil {
						t.Error(err)
					}
				})
				fn(t, source, pawltest.OpenNew(t, to, withKey(t)))
			})
		}
	}
}

// moveAll moves what m says.
func moveAll(t *testing.T, from, to *pawltest.Pawl, m engine.Move) relocate.Result {
	t.Helper()
	return need[relocate.Result](t)(from.Engine.Relocate(t.Context(), to.Engine, m))
}

// rowsOf reads the rows of each table that a move copies, as texts in order.
func rowsOf(t *testing.T, p *pawltest.Pawl, namespace string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	db := p.Engine.DB()
	err := db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		for _, table := range relocate.Moved(namespace) {
			columns, err := db.Dialect().Fences.Columns(ctx, tx, table)
			if err != nil {
				return err
			}
			var names []string
			for _, c := range columns {
				names = append(names, c.Name)
			}
			slices.Sort(names)
			err = store.EachRow(ctx, tx, func(rows store.Rows) error {
				values, to := make([]any, len(names)), make([]any, len(names))
				for i := range values {
					to[i] = &values[i]
				}
				if err := rows.Scan(to...); err != nil {
					return err
				}
				var text []string
				for i, v := range values {
					switch b := v.(type) {
					case []byte:
						v = hex.EncodeToString(b)
					case [16]byte:
						v = hex.EncodeToString(b[:])
					}
					text = append(text, fmt.Sprintf("%s=%v", names[i], v))
				}
				out[table] = append(out[table], strings.Join(text, " "))
				return nil
			}, "SELECT "+strings.Join(names, ", ")+" FROM pawl."+table)
			if err != nil {
				return err
			}
			slices.Sort(out[table])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// samePlaceOfFeed removes what differs by database, the epoch and the server, and gaps that close when the feed is settled.
func samePlaceOfFeed(rows map[string][]string) {
	for i, r := range rows["relay_cursors"] {
		for _, part := range []string{`"server":\{[^}]*\},?`, `"epoch":\d+,?`, `"epochs":\[[^]]*\],?`, `updated_at=\d+`,
			`,?"rooted":\d+`, `,?"root":"[^"]*"`, `"gaps":"[^"]*",?`} {
			r = regexp.MustCompile(part).ReplaceAllString(r, "")
		}
		rows["relay_cursors"][i] = strings.ReplaceAll(r, ",}", "}")
	}
}

func sameRows(t *testing.T, before, after map[string][]string) {
	t.Helper()
	for _, rows := range []map[string][]string{before, after} {
		samePlaceOfFeed(rows)
		for _, table := range []string{"archives", "segments"} { // a file, or in its row
			for i, r := range rows[table] {
				rows[table][i] = regexp.MustCompile(`(body|path)=\S*`).ReplaceAllString(r, "")
			}
		}
	}
	for table, want := range before {
		if got := after[table]; !slices.Equal(got, want) {
			t.Errorf("table %s has %d rows instead of %d", table, len(got), len(want))
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("row %d is\n%.600s\ninstead of\n%.600s", i, got[i], want[i])
					break
				}
			}
		}
	}
}

// Each table of the schema has an answer to what a move does with it.
func TestEveryTableIsAnsweredForInAMove(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var names []string
		db := p.Engine.DB()
		err := db.View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
			names, err = db.Dialect().Fences.Tables(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == "test_clock" }) // of pawltest
		if left := relocate.Unanswered(names); len(left) > 0 {
			t.Errorf("a move has no answer for %s: add rows to store/relocate/tables.go", strings.Join(left, ", "))
		}
	})
}

// A database in which every feature was used is the same after a move, row by row.
func TestAMovedDatabaseHasTheSameRows(t *testing.T) {
	eachMove(t, false, func(t *testing.T, from, to *pawltest.Pawl) {
		f := &filling{t, from, t.Context()}
		f.fill()
		to.Advance(from.Now().Sub(to.Now()))
		before := rowsOf(t, from, "")
		moveAll(t, from, to, engine.Move{URL: "https://there.example"})
		sameRows(t, before, rowsOf(t, to, ""))
		_, err := from.Service.GetTask(t.Context(), "tsk_00000000000000000000000000")
		var moved *pawl.Error
		if !errors.As(err, &moved) || moved.Code != pawl.CodeMoved || moved.URL != "https://there.example" {
			t.Errorf("a read of the source: %v", err)
		}
		_, err = pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "late"})
		if pawl.CodeOf(err) != pawl.CodeMoved {
			t.Errorf("a create in the source: %v", err)
		}
		task := need[pawl.Task](t)(pawl.Create(t.Context(), to.Service, pawl.NewTask{Type: "next", Payload: json.RawMessage("1")}))
		l := leases(t, to.Engine, pawl.ClaimRequest{WorkerID: "there", TaskID: task.ID}, 1)[0]
		if _, err := first(to.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}})); err != nil {
			t.Error(err)
		}
		soundLog(t, to)
	})
}

// soundLog gives all events of a database their leaves, and compares these with their rows.
func soundLog(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	if err := p.Engine.Log(t.Context()); err != nil {
		t.Error(err)
	}
	breaches, _, err := p.Engine.CheckLog(t.Context(), -1)
	if err != nil || len(breaches) > 0 {
		t.Errorf("the log: %v %v", breaches, err)
	}
	if breaches, err = p.Engine.Check(pawl.As(t.Context(), pawl.Caller{Namespace: "none"})); err != nil || len(breaches) > 0 {
		t.Errorf("the database: %v %v", breaches, err)
	}
}

// A move that dies after any of its steps goes on when it is run again, and nothing is lost or there
// twice.
func TestAMoveGoesOnAfterEachStep(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		for i := range 30 {
			need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "work", Payload: json.RawMessage(fmt.Sprint(i))}))
		}
		l := leases(t, from.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"work"}, LeaseSeconds: 3600}, 1)[0]
		var out relocate.Result
		died := map[string]bool{}
		for done := false; !done; {
			done = dies(func() {
				out = moveAll(t, from, to, engine.Move{Namespace: namespace, Step: func(name string) {
					if !died[name] {
						died[name] = true
						panic(diedAt(name))
					}
				}})
			})
			if owners := boolInt(acts(t, from)) + boolInt(acts(t, to)); owners > 1 {
				t.Fatalf("both databases act after %v", died)
			}
			if !died["fenced"] && !acts(t, from) {
				t.Fatalf("the source does not act before its fence: %v", died)
			}
		}
		if out.ID == "" || !acts(t, to) {
			t.Fatalf("the target does not act: %+v", out)
		}
		items := need[pawl.List[pawl.Item]](t)(to.Service.ListItems(t.Context(), pawl.ItemFilter{Page: pawl.Page{Limit: 1000}}))
		if len(items.Items) < 30 {
			t.Errorf("%d items instead of at least 30", len(items.Items))
		}
		if _, err := first(to.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}})); err != nil {
			t.Errorf("complete under the lease of the source: %v", err)
		}
	})
}

type diedAt string

// dies runs fn and reports whether it returned.
func dies(fn func()) (returned bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(diedAt); !ours {
				panic(r)
			}
		}
	}()
	fn()
	return true
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// acts reports whether a database lets a task be created.
func acts(t *testing.T, p *pawltest.Pawl) bool {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := p.Engine.LookForMoves(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "probe"})
	return err == nil
}

// A namespace moves into a database that is used by others, with its ids, and leaves nothing behind that acts.
func TestANamespaceMoves(t *testing.T) {
	eachMove(t, true, func(t *testing.T, from, to *pawltest.Pawl) {
		f := &filling{t, from, t.Context()}
		f.fill() // the namespace default
		to.Advance(from.Now().Sub(to.Now()))
		other := pawl.As(t.Context(), pawl.Caller{Namespace: "other"})
		for _, p := range []*pawltest.Pawl{from, to} { // the numbers of queues, actors and events differ
			for range 5 {
				need[pawl.Task](t)(pawl.Create(other, p.Service, pawl.NewTask{Type: "others", Payload: json.RawMessage("1")}))
			}
			claim := pawl.ClaimRequest{WorkerID: "other", Types: []string{"others"}, Limit: 1, LeaseSeconds: 3600}
			if _, err := p.Engine.Claim(other, claim); err != nil {
				t.Fatal(err)
			}
		}
		kept := countsOf(t, from, "other")
		before := countsOf(t, from, "default")
		tasks := tasksOf(t, from)
		out := moveAll(t, from, to, engine.Move{Namespace: "default", URL: "https://there.example"})
		if out.Rows["tasks"] == 0 {
			t.Errorf("nothing was moved: %+v", out)
		}
		if after := countsOf(t, to, "default"); !maps.Equal(after, before) {
			t.Errorf("the target has\n%v\ninstead of\n%v", after, before)
		}
		if after := tasksOf(t, to); !slices.Equal(after, tasks) {
			t.Errorf("the tasks are\n%v\ninstead of\n%v", after, tasks)
		}
		if after := countsOf(t, from, "other"); !maps.Equal(after, kept) {
			t.Errorf("the other namespace has\n%v\ninstead of\n%v", after, kept)
		}
		for table, n := range countsOf(t, from, "default") {
			if n > 0 && table != "queues" && table != "api_keys" {
				t.Errorf("the source has %d rows in %s still", n, table)
			}
		}
		if _, err := from.Service.GetTask(t.Context(), "tsk_00000000000000000000000000"); pawl.CodeOf(err) != pawl.CodeMoved {
			t.Errorf("a read of the source: %v", err)
		}
		tx := beginOwn(t, from)
		if _, err := tx.GetTask(t.Context(), "tsk_00000000000000000000000000"); pawl.CodeOf(err) != pawl.CodeMoved {
			t.Errorf("a read of the source in a transaction: %v", err)
		}
		if _, err := tx.ListTasks(other, pawl.TaskFilter{}); err != nil {
			t.Errorf("a read of the other namespace in the same: %v", err)
		}
		tx.rollback()
		soundLog(t, to)
		soundLog(t, from)
		archives := need[pawl.List[pawl.Archive]](t)(to.Engine.ListArchives(t.Context(), pawl.Page{})).Items
		if len(archives) == 0 {
			t.Error("no archive was moved")
		}
		for range 2 { // the second time, the log has their events
			for _, a := range archives {
				if a.RestoredAt == nil {
					need[pawl.Task](t)(to.Engine.RestoreArchive(t.Context(), a.TaskID))
				}
			}
			soundLog(t, to)
			to.Advance(pawl.DefaultRetainTasks + time.Hour)
			for range 2 {
				need[pawl.SweepStats](t)(to.Service.Sweep(t.Context()))
			}
			soundLog(t, to)
		}
		need[pawl.Task](t)(pawl.Create(other, from.Service, pawl.NewTask{Type: "others"}))
		need[pawl.Task](t)(pawl.Create(t.Context(), to.Service, pawl.NewTask{Type: "greet"}))
	})
}

// countsOf counts the rows of a namespace.
func countsOf(t *testing.T, p *pawltest.Pawl, namespace string) map[string]int64 {
	t.Helper()
	return need[map[string]int64](t)(relocate.Counts(pawl.As(t.Context(), pawl.Caller{Namespace: "none"}), p.Engine.DB(), namespace))
}

// tasksOf reads all tasks as they are shown.
func tasksOf(t *testing.T, p *pawltest.Pawl) (out []string) {
	t.Helper()
	for page := (pawl.Page{Limit: 100}); ; {
		list := need[pawl.List[pawl.Task]](t)(p.Service.ListTasks(t.Context(), pawl.TaskFilter{Page: page}))
		for _, task := range list.Items {
			out = append(out, fmt.Sprintf("%s %s %s v%d %d/%d", task.ID, task.Type, task.State, task.Version, task.ItemsOpen, task.Items))
		}
		if page.Cursor = list.Next; page.Cursor == "" {
			return out
		}
	}
}
