package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// database is a migrated database with a clock that only the test moves.
type database struct {
	*testing.T
	store.DB
	path string
	mu   sync.Mutex
	time time.Time
	ids  int
}

const (
	second = int64(1_000_000)
	minute = 60 * second
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

func newDatabase(t *testing.T) *database {
	t.Helper()
	h := &database{T: t, path: filepath.Join(t.TempDir(), "work.db"), time: start}
	file, err := migrated()
	if err == nil {
		err = os.WriteFile(h.path, file, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.DB = h.open()
	return h
}

// migrated returns a file with the schema. It is made only once, because that takes long
// under the race detector.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-sqlite")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "work.db")
	db, err := Open(context.Background(), path, Options{})
	if err != nil {
		return nil, err
	}
	_, err = db.Dialect().Migrator.Up(context.Background())
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// open opens one more handle on the same file, with the same clock.
func (h *database) open() store.DB {
	h.Helper()
	db, err := Open(h.Context(), h.path, Options{Clock: h.now})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := db.Close(); err != nil {
			h.Error(err)
		}
	})
	return db
}

func (h *database) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *database) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

func (h *database) stamp() int64 { return h.now().UnixMicro() }

func (h *database) do(fn func(ctx context.Context, tx store.Tx) error) {
	h.Helper()
	if err := h.Do(h.Context(), fn); err != nil {
		h.Fatal(err)
	}
}

// id returns ids that sort in the order in which they are made.
func (h *database) id(prefix string) string {
	h.ids++
	return fmt.Sprintf("%s_%026d", prefix, h.ids)
}

// solo creates a task of one item and returns the item's id.
func (h *database) solo(change ...func(*store.NewItem)) string {
	h.Helper()
	ids := h.task(1, true, change...)
	return ids[0]
}

// many creates a task of n items and returns their ids.
func (h *database) many(n int, change ...func(*store.NewItem)) []string {
	h.Helper()
	return h.task(n, false, change...)
}

func (h *database) task(n int, solo bool, change ...func(*store.NewItem)) []string {
	h.Helper()
	actor := store.Actor{Type: pawl.ActorAPI, ID: "someone"}
	task := store.NewTask{ID: h.id("tsk"), Namespace: "default", Type: "t", Solo: solo, Metadata: "{}", Items: n, Actor: actor,
		Data: `{"of":"task"}`}
	if !solo {
		payload := `{"big":true}`
		task.Payload = &payload
	}
	var items []store.NewItem
	var ids []string
	for i := range n {
		item := store.NewItem{ID: h.id("itm"), Namespace: "default", TaskID: task.ID, Type: "t", Kind: "work", Solo: solo, Position: i,
			MaxAttempts: 3,
			Input:       fmt.Sprintf(`{"n":%d}`, i), Actor: actor}
		if solo {
			item.ID = "itm_" + task.ID[4:]
			item.Data = store.Text(task.Data)
		}
		for _, c := range change {
			c(&item)
		}
		items, ids = append(items, item), append(ids, item.ID)
	}
	h.create([]store.NewTask{task}, items)
	return ids
}

func (h *database) create(tasks []store.NewTask, items []store.NewItem) {
	h.Helper()
	h.do(func(ctx context.Context, tx store.Tx) error {
		now, err := h.Dialect().Hot.Create(ctx, tx, tasks, items)
		if err == nil && now != h.stamp() {
			err = fmt.Errorf("created at %d, the clock says %d", now, h.stamp())
		}
		return err
	})
}

// claim claims up to n items of type t at priority 0 for worker w, for a minute.
func (h *database) claim(w string, n int, change ...func(*store.Claim)) []store.Claimed {
	h.Helper()
	c := store.Claim{Namespace: "default", Claimants: []store.Claimant{{WorkerID: w, Limit: n, LeaseSeconds: 60}},
		Queues: []store.Queue{{Type: "t", Rank: 0}, {Type: "t", Rank: 1}, {Type: "t", Rank: 2}}}
	for _, f := range change {
		f(&c)
	}
	var out []store.Claimed
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Hot.Claim(ctx, tx, c)
		return err
	})
	return out
}

func fence(w string, c store.Claimed) store.Fence {
	return store.Fence{Namespace: "default", ItemID: c.ItemID, WorkerID: w, Attempt: c.Attempt}
}

func (h *database) complete(w string, claims ...store.Claimed) []store.Moved {
	h.Helper()
	var calls []store.Complete
	for i, c := range claims {
		calls = append(calls, store.Complete{Ord: i, Fence: fence(w, c), Result: `"done"`})
	}
	var out []store.Moved
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Hot.Complete(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) leave(calls ...store.Leave) []store.Moved {
	h.Helper()
	for i := range calls {
		calls[i].Ord = i
		if calls[i].Verb == store.VerbFail {
			calls[i].CheckpointID = h.id("ckp")
		}
	}
	var out []store.Moved
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Hot.Leave(ctx, tx, calls)
		return err
	})
	return out
}

// fail returns a final failure, unless change says otherwise.
func fail(w string, c store.Claimed, change ...func(*store.Leave)) store.Leave {
	l := store.Leave{Fence: fence(w, c), Verb: store.VerbFail, Error: `{"message":"no <good>"}`, Jitter: 1}
	for _, f := range change {
		f(&l)
	}
	return l
}

func (h *database) touch(t store.Touch) []store.Touched {
	h.Helper()
	var out []store.Touched
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Hot.Touch(ctx, tx, []store.Touch{t})
		return err
	})
	return out
}

func (h *database) checkpoint(calls ...store.Checkpoint) []store.Checkpointed {
	h.Helper()
	for i := range calls {
		calls[i].Ord, calls[i].ID = i, h.id("ckp")
		if calls[i].Snapshot == "" {
			calls[i].Snapshot = "{}"
		}
	}
	var out []store.Checkpointed
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Hot.Checkpoint(ctx, tx, calls)
		return err
	})
	return out
}

func (h *database) expire(limit int, only ...string) []store.Expired {
	h.Helper()
	var ids []string
	for range limit {
		ids = append(ids, h.id("ckp"))
	}
	var out []store.Expired
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Timed.Expire(ctx, tx, limit, only, true, ids)
		return err
	})
	return out
}

func (h *database) due(limit int, only ...string) []store.DueItem {
	h.Helper()
	var out []store.DueItem
	h.do(func(ctx context.Context, tx store.Tx) (err error) {
		out, err = h.Dialect().Timed.Due(ctx, tx, limit, only)
		return err
	})
	return out
}

// table returns the result of a query as text: one line per row, columns separated by a
// blank, NULL as a dash.
func (h *database) table(query string, args ...any) string {
	h.Helper()
	for i := range args { // the id of an item
		if id, ok := args[i].(string); ok && strings.HasPrefix(id, "itm_") {
			args[i] = store.ItemID(id)
		}
	}
	var lines []string
	err := h.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
		rs, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rs.Close()
		columns := rs.(*rows).stmt.ColumnCount()
		for rs.Next() {
			values, targets := make([]any, columns), make([]any, columns)
			for i := range values {
				targets[i] = &values[i]
			}
			if err := rs.Scan(targets...); err != nil {
				return err
			}
			for i, v := range values {
				if v == nil {
					values[i] = "-"
				}
			}
			lines = append(lines, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
		}
		return rs.Err()
	})
	if err != nil {
		h.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// events returns the events of an item in order, or without an id those of the tasks
// themselves.
func (h *database) events(itemID string) string {
	h.Helper()
	const columns = "SELECT event, from_state, to_state, task_from, task_to, attempt, @kind_of(actor), " +
		"@name_of(actor), data FROM pawl.event_rows "
	if itemID == "" {
		return h.table(columns + "WHERE item_id IS NULL ORDER BY id")
	}
	return h.table(columns+"WHERE item_id = $1 ORDER BY id", itemID)
}

func (h *database) want(what, got, want string) {
	h.Helper()
	if got != want {
		h.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func (h *database) wantCode(err error, code pawl.Code) {
	h.Helper()
	if got := pawl.CodeOf(err); got != code {
		h.Errorf("got %q (%v), want %q", got, err, code)
	}
}
