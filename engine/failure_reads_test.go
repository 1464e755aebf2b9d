package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
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
