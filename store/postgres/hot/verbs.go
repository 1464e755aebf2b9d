// Package hot has the hot verbs on PostgreSQL. Each is one statement over arrays, in
// a .sql file beside its Go. All are built the same way, for the same reasons:
//
//   - c is the calls. x is the rows that they name, locked one by one in the order of
//     the calls. There is no join, so no plan from when a table was empty can become
//     quadratic. The lease's end is read above the lock, after any wait for it; OFFSET 0
//     keeps the planner from moving that below the lock. (@held and @begun are in
//     ../fence.sql.)
//   - n is the only time of the statement, read when the locks are held.
//   - Rows are changed by key (= ANY of an array) if all change in the same way, and by
//     INSERT … ON CONFLICT DO UPDATE if each has its own values. Both find the row by
//     its index and see its newest version.
//   - task_counters is changed last, by data dependency, because its lock is the contended
//     one. A row with items = 0 stands for a task of many whose row exists already. Only
//     an open task settles: its row then has the statement's time. The state of such a
//     row is the one that it settles to if failed items do not count.
//   - The row in tasks is not locked: cold verbs lock it before any item. A task that
//     settles as dead_lettered is marked (todo); the engine then releases its input hash.
//   - Every parameter is cast. Every row that is found answers with its call's ordinal.
package hot

import (
	"cmp"
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

// column returns the values of one array argument.
func column[T, C any](rows []T, of func(r *T) C) []C {
	out := make([]C, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}

// sparse returns a column that is empty when all its values equal none.
func sparse[T any, C comparable](rows []T, none C, of func(r *T) C) []C {
	for i := range rows {
		if of(&rows[i]) != none {
			return column(rows, of)
		}
	}
	return []C{}
}

// once returns a column that has only its first value when all values are the same. The
// statement reads that value for every row that unnest fills up with NULL. Do not use it
// for columns that may be NULL.
func once[C comparable](column []C) []C {
	for i := range column {
		if column[i] != column[0] {
			return column
		}
	}
	return column[:min(1, len(column))]
}

// arrays returns the arguments of the columns of a list: see store.Column. put puts a row
// where the columns are.
func arrays[T any](list []store.Column, rows []T, put func(r *T)) []any {
	all := make([]gatherer, len(list))
	for j := range list {
		switch at := list[j].At.(type) {
		case *string:
			all[j] = gather(at, len(rows), once)
		case *int:
			all[j] = gather(at, len(rows), once)
		case *bool:
			all[j] = &gathered[bool]{at, make([]bool, len(rows)), func(bs []bool) any {
				return once(column(bs, func(b *bool) int { return bit(*b) }))
			}}
		case *store.TaskID:
			all[j] = gather(at, len(rows), once)
		case **store.TaskID:
			all[j] = &gathered[*store.TaskID]{at, make([]*store.TaskID, len(rows)), func(ids []*store.TaskID) any {
				return some(column(ids, func(id **store.TaskID) store.TaskID { return *cmp.Or(*id, new(store.TaskID)) }))
			}}
		case *store.Text:
			all[j] = gather(at, len(rows), some)
		case **string:
			all[j] = gather(at, len(rows), some)
		case **int:
			all[j] = gather(at, len(rows), some)
		case **int64:
			all[j] = gather(at, len(rows), some)
		default:
			panic(fmt.Sprintf("hot: a column of %T", at))
		}
	}
	for i := range rows {
		put(&rows[i])
		for _, g := range all {
			g.take(i)
		}
	}
	return column(all, func(g *gatherer) any { return (*g).argument() })
}

// gatherer gathers the values of a column.
type gatherer interface {
	take(i int)
	argument() any
}

type gathered[C any] struct {
	at   *C
	all  []C
	made func([]C) any
}

func (g *gathered[C]) take(i int)    { g.all[i] = *g.at }
func (g *gathered[C]) argument() any { return g.made(g.all) }

func gather[C any](at *C, rows int, short func([]C) []C) gatherer {
	return &gathered[C]{at, make([]C, rows), func(all []C) any { return short(all) }}
}

// some returns a column that is empty when all its values are NULL.
func some[C comparable](column []C) []C {
	var null C
	return sparse(column, null, func(v *C) C { return *v })
}

// orNull returns nil for 0.
func orNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// bit returns a bool as it is stored.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// nameList collects names without repetition. A row is sent with the place of its name,
// counted from 1.
type nameList[N comparable] struct {
	names  []N
	places map[N]int
}

func (l *nameList[N]) place(name N) int {
	if n := len(l.names); n > 0 && l.names[n-1] == name { // as in most batches
		return n
	}
	if at, found := l.places[name]; found {
		return at
	}
	if l.places == nil {
		l.places = map[N]int{}
	}
	l.names = append(l.names, name)
	l.places[name] = len(l.names)
	return len(l.names)
}

// fences returns the first four arguments of a worker's verb, and the names of the workers,
// which are its last argument.
func fences[T any](calls []T, of func(c *T) *store.Fence) (args []any, workers []string) {
	var list nameList[string]
	who := column(calls, func(c *T) int { return list.place(of(c).WorkerID) })
	return []any{
		column(calls, func(c *T) store.ItemID { return store.ItemID(of(c).ItemID) }),
		column(calls, func(c *T) string { return of(c).Namespace }),
		who,
		column(calls, func(c *T) int { return of(c).Attempt }),
	}, list.names
}

// read passes every row of an answer to scan. err is the error of the query.
func read(rows store.Rows, err error, scan func(r store.Rows) error) error {
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

// variants has a statement's text without and with the columns of an item.
type variants struct{ plain, item string }

// withItem returns the variants of a text. The text has the mark /* item */ at the end of
// its columns, and /* none */ where a row has no item.
func withItem(text, column string) variants {
	return variants{strings.NewReplacer(" /* item */", "", " /* none */", "").Replace(text),
		strings.NewReplacer(" /* item */", ",\n  "+column, " /* none */", ", NULL, NULL").Replace(text)}
}

// of returns the text for calls that either all want their items or all do not.
func (v variants) of(f *store.Fence) string {
	if f.Return {
		return v.item
	}
	return v.plain
}

// moved reads the answer of complete and leave: a row for each item, then a row without an
// ordinal for each task of many that is no longer open. err is the error of the query. With
// returns, the rows have the columns of an item. call returns a call's number and fence,
// and left changes its returned item.
func moved(rows store.Rows, err error, returns bool,
	call func(i int) (ord int, fence *store.Fence), left func(i int, r *store.Returned, m *store.Moved)) ([]store.Moved, error) {
	var out []store.Moved
	settled := map[string]string{}
	var i, fed, done int
	var m store.Moved
	var item store.ReturnedColumns
	targets := []any{&i, (*store.TaskID)(&m.TaskID), (*store.Text)(&m.State), &m.Failures, &m.Rank,
		(*store.Text)(&m.Type), &m.RunAt, &m.Now, &fed, &done}
	if returns {
		targets = append(targets, item.Targets()...)
	}
	err = read(rows, err, func(r store.Rows) error {
		if err := r.Scan(targets...); err != nil {
			return err
		}
		if i == 0 {
			settled[m.TaskID] = m.State
			return nil
		}
		ord, fence := call(i - 1)
		m.Ord, m.Fed, m.Child, m.Settled = ord, fed%2 == 1, fed > 1, done == 1
		if returns {
			var err error
			if m.Returned, err = store.NewReturned(*fence, m.TaskID, m.Failures, item); err != nil {
				return err
			}
			left(i-1, m.Returned, &m)
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

// actor returns the actor of the call, or the worker if the call names none.
func actor(a store.Actor, worker string) store.Actor {
	if a.Type == "" {
		return store.Actor{Type: pawl.ActorWorker, ID: worker}
	}
	return a
}
