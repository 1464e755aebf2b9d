package sweep_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// late makes all deadlines pass.
func (h *fixture) late() { h.exec("UPDATE pawl.deadlines SET at = 1") }

// A transaction that has changed the counters of one task does not lock the leases of another.
func TestLateTasksOfManyItemsHaveTransactionsOfTheirOwn(t *testing.T) {
	each(t, func(h *fixture) {
		at := time.Now().Add(time.Hour)
		call := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`), Deadline: &at}
		solos := []pawl.Task{h.Create(call), h.Create(call)}
		call.Items = slices.Repeat([]pawl.NewItem{{Input: json.RawMessage(`1`)}}, 2)
		many := []pawl.Task{h.Create(call), h.Create(call)}
		h.claim(6)
		h.late()
		s, err := h.Quick(h.Context())
		h.OK(err)
		h.same(s.GivenUp, 6, "given up")
		for _, task := range append(many, solos...) {
			h.same(h.state(task.ID), pawl.TaskFailed, "state")
		}
		if h.Database != pawltest.Postgres {
			return
		}
		h.same(h.count("SELECT COUNT(DISTINCT CAST(xmin AS text)) FROM pawl.task_counters"), 2, "transactions of tasks of many items")
		h.same(h.count(`SELECT COUNT(DISTINCT CAST(f.xmin AS text))
			FROM pawl.parked_items f JOIN pawl.tasks t ON t.id = f.task_id AND t.solo = 1`), 1, "transactions of tasks of one item")
	})
}

// Many items with one deadline do not keep a quick pass from expiring leases.
func TestQuickPassGivesUpABoundedNumberOfItems(t *testing.T) {
	each(t, func(h *fixture) {
		at := time.Now().Add(time.Hour)
		calls := slices.Repeat([]pawl.NewTask{{Type: "a", Payload: json.RawMessage(`{}`), Deadline: &at}}, 500)
		for range 3 {
			rs, err := h.Service.CreateTasks(h.Context(), calls)
			h.OK(err)
			for _, r := range rs {
				h.OK(r.Err)
			}
		}
		h.late()
		for _, want := range []int64{1000, 500, 0} {
			s, err := h.Quick(h.Context())
			h.OK(err)
			h.same(s.GivenUp, want, "given up")
		}
	})
}

// A step that fails does not keep the next ones from running.
func TestFailedStepDoesNotStopThePass(t *testing.T) {
	each(t, func(h *fixture) {
		h.solos(1, 3)
		h.claim(1)
		h.exec("UPDATE pawl.leases SET lease_expires_at = 1")
		h.exec("ALTER TABLE pawl.deadlines RENAME TO deadlines_away")
		s, err := h.Quick(h.Context())
		h.exec("ALTER TABLE pawl.deadlines_away RENAME TO deadlines")
		if err == nil || s.ExpiredFound != 1 {
			h.Errorf("expired %d, %v; want 1 and the error of the step deadlines", s.ExpiredFound, err)
		}
	})
}

// waitsDB notes the longest wait for a lock that a transaction may have. 0 is the database's setting.
type waitsDB struct {
	store.DB
	longest time.Duration
}

func (d *waitsDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	wait := store.LockWaitOf(ctx)
	if wait == 0 {
		wait = time.Hour
	}
	d.longest = max(d.longest, wait)
	return d.DB.Do(ctx, fn)
}

// A late task that another transaction locks does not hold up the leases that expire after it.
func TestLateTasksWaitBrieflyForLocks(t *testing.T) {
	each(t, func(h *fixture) {
		at := time.Now().Add(time.Hour)
		call := pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`), Deadline: &at}
		h.Create(call)
		call.Items = make([]pawl.NewItem, 2)
		h.Create(call)
		h.late()
		db := &waitsDB{DB: h.DB}
		s, err := h.server(db).Quick(h.Context())
		h.OK(err)
		h.same(s.GivenUp, 3, "given up")
		if db.longest > time.Second/2 {
			h.Errorf("a transaction waited up to %s for a lock", db.longest)
		}
	})
}
