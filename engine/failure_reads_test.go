package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// rowsTx counts the rows that its queries return.
type rowsTx struct {
	store.Tx
	read int
}

func (x *rowsTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	rows, err := x.Tx.Query(ctx, query, args...)
	return &countedRows{rows, x}, err
}

type countedRows struct {
	store.Rows
	tx *rowsTx
}

func (r *countedRows) Next() bool {
	more := r.Rows.Next()
	if more {
		r.tx.read++
	}
	return more
}

// A page of a group of tasks reads the errors of its own tasks. The newest failed tasks of another namespace hide none.
func TestAPageOfAGroupOfFailuresReadsItsTasksAlone(t *testing.T) {
	apply := func(context.Context, pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{}, errors.New("port 5432 is closed")
	}
	withType(t, `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
		for range 30 {
			task, ls := o.task(1)
			o.submit(ls[0], `1`)
			o.state(task.ID, pawl.TaskFailed)
		}
		o.OK(o.Exec(`INSERT INTO pawl.task_counters (task_id, namespace, state, failed_in, error, updated_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
			SELECT ` + map[pawltest.Database]string{
			pawltest.SQLite:   `unhex('7f' || printf('%030x', i))`,
			pawltest.Postgres: `CAST('7f' || lpad(to_hex(i), 30, '0') AS uuid)`}[o.Database] + `, 'other', 'failed', 'apply', '{}', 1 FROM n`))
		groups := need[pawl.List[pawl.FailureGroup]](o.T)(o.Engine.ListFailures(o.Context(), pawl.FailureFilter{})).Items
		if len(groups) != 1 || groups[0].Count != 30 {
			o.Fatalf("the groups are %+v", groups)
		}
		o.OK(o.Engine.DB().View(o.Context(), func(ctx context.Context, tx store.Tx) error {
			x, seen := &rowsTx{Tx: tx}, 0
			for page := (pawl.Page{Limit: 5}); ; {
				list, err := store.ListTasks(ctx, x, pawl.DefaultNamespace, pawl.TaskFilter{Failure: groups[0].Failure, Page: page})
				if seen += len(list.Items); err != nil || list.Next == "" {
					if seen != 30 {
						o.Errorf("%d tasks are listed", seen)
					}
					return err
				}
				if page.Cursor = list.Next; x.read > 10*seen {
					o.Errorf("%d rows were read for %d tasks", x.read, seen)
				}
			}
		}))
		o.OK(o.Exec(`DELETE FROM pawl.task_counters WHERE namespace = 'other'`))
	})
}

// Whether tasks are in a group of failures is read of these tasks alone, and of none if the group is one of items.
func TestAGroupOfFailuresReadsTheErrorsOfItsTasksAlone(t *testing.T) {
	apply := func(context.Context, pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{}, errors.New("port 5432 is closed")
	}
	withType(t, `{"name":"report","approval":{"mode":"auto"},"apply":{"mode":"go"}}`, pawl.Hooks{Apply: apply}, func(o typeFixture) {
		var failed []string
		for range 5 {
			task, ls := o.task(1)
			o.submit(ls[0], `1`)
			o.state(task.ID, pawl.TaskFailed)
			failed = append(failed, task.ID)
		}
		_, ls := o.task(1)
		need[pawl.Moved](o.T)(pawl.Fail(o.Context(), o.Engine, ls[0].Fence(), pawl.Permanent(errors.New("no"))))
		groups := need[pawl.List[pawl.FailureGroup]](o.T)(o.Engine.ListFailures(o.Context(), pawl.FailureFilter{})).Items
		if len(groups) != 2 {
			o.Fatalf("groups: %+v", groups)
		}
		for _, g := range groups {
			ofTasks := g.ItemID == ""
			if want := map[bool]string{true: "port 5432 is closed", false: "no"}[ofTasks]; g.Message != want {
				o.Errorf("the example of %s is %q", g.Failure, g.Message)
			}
			o.OK(o.Engine.DB().View(o.Context(), func(ctx context.Context, tx store.Tx) error {
				x := &rowsTx{Tx: tx}
				items, err := store.ItemsOfFailure(ctx, x, pawl.DefaultNamespace, g.Failure, failed[:1])
				if _, in := items[failed[0]]; in != ofTasks || len(items) > 1 {
					o.Errorf("tasks of the group %s: %v", g.Failure, items)
				}
				if x.read != 1 {
					o.Errorf("%d rows were read for one task, of tasks: %v", x.read, ofTasks)
				}
				return err
			}))
		}
	})
}
