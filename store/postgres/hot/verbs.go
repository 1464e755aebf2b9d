// Package hot has the hot verbs on PostgreSQL: each one statement over arrays,
// the text beside its Go. All are built alike, and for the same reasons:
//
//   - c is the calls. x is the rows they name, locked one by one in the order of
//     the calls: no join, so no plan that a table once empty can turn quadratic.
//     The lease's end is read above the lock, after any wait for it; OFFSET 0
//     keeps the planner from pushing that below. (@held and @begun are in
//     ../fence.sql.)
//   - n is the statement's one now, read when the locks are held.
//   - Rows are changed by key (= ANY of an array) where all change alike, and by
//     INSERT … ON CONFLICT DO UPDATE where each has its own values: both find
//     the row by its index and see its newest version.
//   - task_live comes last, by data dependency: its lock is the contended one.
//     A row of items 0 stands for a task of many, whose row is there already.
//     Only a task that is open settles: its row then has the statement's now. The
//     state of such a row is what it settles as where failed items do not count.
//   - The row in tasks is not locked: cold verbs lock it before any item. A task
//     that settles as dead_lettered is marked (todo); the engine then releases its
//     input hash.
//   - Every parameter is cast; every row found answers with its call's ordinal.
package hot

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Verbs implements store.Hot and store.Timed.
type Verbs struct{}

var (
	_ store.Hot   = Verbs{}
	_ store.Timed = Verbs{}
)

// column is one array argument.
func column[T, C any](rows []T, of func(r *T) C) []C {
	out := make([]C, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}

// sparse is a column that is empty when all its values are the same as none.
func sparse[T any, C comparable](rows []T, none C, of func(r *T) C) []C {
	for i := range rows {
		if of(&rows[i]) != none {
			return column(rows, of)
		}
	}
	return []C{}
}

// once is a column cut to its first value when all are the same: the statement
// reads it for every row that unnest fills up with NULL. Not for columns that
// may be NULL.
func once[C comparable](column []C) []C {
	for i := range column {
		if column[i] != column[0] {
			return column
		}
	}
	return column[:min(1, len(column))]
}

// arrays are the arguments of columns that a list names: see store.Column.
func arrays[T any](rows []T, columns func(r *T) []store.Column) []any {
	all := make([][]store.Column, len(rows))
	for i := range rows {
		all[i] = columns(&rows[i])
	}
	list := columns(new(T))
	out := make([]any, len(list))
	for j := range list {
		switch list[j].At.(type) {
		case *string:
			out[j] = once(column(all, func(r *[]store.Column) string { return *(*r)[j].At.(*string) }))
		case *int:
			out[j] = once(column(all, func(r *[]store.Column) int { return *(*r)[j].At.(*int) }))
		case *bool:
			out[j] = once(column(all, func(r *[]store.Column) int { return bit(*(*r)[j].At.(*bool)) }))
		case *store.Text:
			out[j] = sparse(all, nil, func(r *[]store.Column) *string { return null(*(*r)[j].At.(*store.Text)) })
		case **string:
			out[j] = sparse(all, nil, func(r *[]store.Column) *string { return *(*r)[j].At.(**string) })
		default:
			panic(fmt.Sprintf("hot: a column of %T", list[j].At))
		}
	}
	return out
}

// bit is how a bool is kept.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// null is a Text in an array.
func null(t store.Text) *string {
	if t == "" {
		return nil
	}
	s := string(t)
	return &s
}

// fences are the first four arguments of a worker's verb.
func fences[T any](calls []T, of func(c *T) *store.Fence) []any {
	return []any{
		column(calls, func(c *T) string { return of(c).ItemID }),
		column(calls, func(c *T) string { return of(c).Namespace }),
		column(calls, func(c *T) string { return of(c).WorkerID }),
		column(calls, func(c *T) int { return of(c).Attempt }),
	}
}

// read runs a statement and hands every row to scan.
func read(ctx context.Context, tx store.Tx, query string, args []any, scan func(r store.Rows) error) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// variants are a statement's text without and with the column of an item.
type variants struct{ plain, item string }

// withItem makes the variants of a text that has the mark /* item */ at the end of its
// columns, and /* none */ where a row has no item.
func withItem(text, column string) variants {
	return variants{strings.NewReplacer(" /* item */", "", " /* none */", "").Replace(text),
		strings.NewReplacer(" /* item */", ",\n  "+column, " /* none */", ", NULL, NULL").Replace(text)}
}

// of is the text for calls which all want their items, or none does.
func (v variants) of(f *store.Fence) string {
	if f.Return {
		return v.item
	}
	return v.plain
}

// moved reads the answer of complete and leave: a row for each item, then one
// without an ordinal for each task of many that left open. call tells of a call its
// number and fence, and what it makes of its item.
func moved(ctx context.Context, tx store.Tx, query variants, args []any, call func(i int) (int, *store.Fence, func(*store.Returned, *store.Moved))) ([]store.Moved, error) {
	var out []store.Moved
	settled := map[string]string{}
	_, first, _ := call(0)
	err := read(ctx, tx, query.of(first), args, func(r store.Rows) error {
		var i, fed, done int
		var m store.Moved
		var item store.ReturnedColumns
		targets := []any{&i, &m.TaskID, &m.State, &m.Failures, &m.Priority, &m.Type, &m.RunAt, &m.Now, &fed, &done}
		if first.Return {
			targets = append(targets, item.Targets()...)
		}
		if err := r.Scan(targets...); err != nil {
			return err
		}
		if i == 0 {
			settled[m.TaskID] = m.State
			return nil
		}
		ord, fence, left := call(i - 1)
		m.Ord, m.Fed, m.Settled = ord, fed == 1, done == 1
		if first.Return {
			var err error
			if m.Returned, err = store.NewReturned(*fence, m.TaskID, m.Failures, item); err != nil {
				return err
			}
			left(m.Returned, &m)
		}
		out = append(out, m)
		return nil
	})
	for i := range out {
		to, many := settled[out[i].TaskID]
		out[i].Settled, out[i].Owed = out[i].Settled || many, to == "submitted" || to == "dead_lettered"
	}
	return out, err
}

// actor is the worker, unless the call names another.
func actor(a store.Actor, worker string) store.Actor {
	if a.Type == "" {
		return store.Actor{Type: pawl.ActorWorker, ID: worker}
	}
	return a
}
