package store

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// failedRows are failed tasks of one group, whose errors are long.
type failedRows struct {
	n, left int
	before  uint64
	held    int64 // the memory that is in use at the end and was not at the beginning
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (r *failedRows) Next() bool {
	switch {
	case r.left == r.n:
		r.before = inUse()
	case r.left == 0:
		r.held = int64(inUse()) - int64(r.before)
		return false
	}
	r.left--
	return true
}

func (r *failedRows) Scan(dest ...any) error {
	*dest[0].(*TaskID), *dest[1].(*string), *dest[2].(*string) = TaskID(fmt.Sprint("tsk_", r.left)), "report", "failed"
	*dest[3].(*int64) = int64(r.left)
	*dest[4].(*Text) = Text(`{"code":"apply_failed","message":"` + strings.Repeat("x", 32<<10) + `"}`)
	return nil
}

func (*failedRows) Err() error { return nil }
func (*failedRows) Close()     {}

type failedTx struct {
	Tx
	rows *failedRows
}

func (t failedTx) Query(context.Context, string, ...any) (Rows, error) { return t.rows, nil }

// Groups of failed tasks are counted without their errors in memory.
func TestTheErrorsOfFailedTasksAreNotHeld(t *testing.T) {
	const n = 400
	rows := &failedRows{n: n, left: n}
	groups := map[string]*pawl.FailureGroup{}
	if err := addFailedTasks(t.Context(), failedTx{rows: rows}, "default", nil, failureStates, groups); err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	for _, g := range groups {
		if g.Count != n || g.Failed != n || g.TaskID != fmt.Sprint("tsk_", n-1) || !g.FirstAt.Equal(Stamp(0)) {
			t.Errorf("the group: %+v", g)
		}
	}
	if rows.held > n*(32<<10)/4 {
		t.Errorf("%d bytes are held of %d", rows.held, n*(32<<10))
	}
}
