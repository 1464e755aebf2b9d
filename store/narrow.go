package store

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// fewCandidates bounds the rows that a list collects before it reads them. When there are
// more, it reads them in its order, some at a time.
const fewCandidates = 10_000

// fewOrdered is fewCandidates of a list that can read its candidates in its order instead.
const fewOrdered = 500

// candidates is a set of sources in which all rows are found that a list may want. The sources
// are tables and indexes that hold few of the rows. Without candidates, a list of rare states
// reads every row.
type candidates struct {
	sources []source
	args    []any // of the sources, from $3 on; each source uses all of them
	// ordered: the sources can be read in the order of ids.
	ordered bool
}

// source is a query for candidates: the ids in a column of a table, by a condition that begins
// with AND. The namespace is $1.
type source struct{ column, table, cond string }

// from returns a source of candidates.
func from(column, table, cond string) source { return source{column, table, cond} }

// text is the query.
func (s source) text() string {
	of := " WHERE namespace = $1"
	if s == itemsOfTasks {
		of = " WHERE t.namespace = $1"
	}
	if slices.Contains([]string{"ready", "scheduled", "waiting", "parked_items", "finished_items"}, s.table) {
		of = " WHERE queue_id IN @queues_of($1)"
	}
	return "SELECT " + s.column + " AS id FROM pawl." + s.table + of + s.cond
}

// itemsOfTasks has all items of a namespace that has few tasks.
var itemsOfTasks = from("w.id", "tasks t JOIN pawl.all_items w ON w.task_id = t.id", "")

// few returns the ids of all rows that a list may want, in its order and behind its cursor.
// few is false when no set of candidates is small.
func (l *listing[T]) few(ctx context.Context, tx Tx, namespace, cursor string) (ids []string, few bool, err error) {
	if l.many {
		return nil, false, nil
	}
	for _, set := range l.sets {
		texts := make([]string, len(set.sources))
		for i, s := range set.sources {
			texts[i] = s.text()
		}
		most := fewCandidates
		if l.byID && set.ordered {
			most = fewOrdered
		}
		args := append([]any{namespace, most + 1}, set.args...)
		ids, err := l.noun.column(ctx, tx, "SELECT x.id FROM ("+strings.Join(texts, " UNION ALL ")+") x\nLIMIT $2", args...)
		if err != nil {
			return nil, false, err
		}
		if len(ids) > most {
			continue
		}
		slices.Sort(ids)
		return l.behind(slices.Compact(ids), cursor), true, nil
	}
	return nil, false, nil
}

// behind returns those of the ids, which are sorted, that follow the cursor in the list's order.
func (l *listing[T]) behind(ids []string, cursor string) []string {
	if cursor != "" {
		at, found := slices.BinarySearch(ids, cursor)
		if l.desc {
			ids = ids[:at]
		} else if ids = ids[at:]; found {
			ids = ids[1:]
		}
	}
	if l.desc {
		slices.Reverse(ids)
	}
	return ids
}

// fewTasks says whether a namespace has so few tasks that a list of their items or events
// should start from the tasks. The indexes of items and events do not begin with the
// namespace, and another namespace may have millions of them.
func fewTasks(ctx context.Context, tx Tx, namespace string) (bool, error) {
	var n int
	_, err := Row(ctx, tx, []any{&n}, readSQL["count tasks"], namespace, fewCandidates/10+1)
	return n <= fewCandidates/10, err
}

// listing is a list whose rows are joined from many tables. It finds ids by the conditions
// that one table and its index can decide. It then reads the rows with these ids by all
// conditions, until the page is full. With one query for both, the planner could join all
// tables first.
type listing[T any] struct {
	own, derived Where        // conditions on columns of the table, and on columns of what is joined to it
	sets         []candidates // any of them has all rows
	indexed      bool         // an index decides the conditions of own
	table, rows  string       // the table with its alias, one letter; the query that reads the rows
	noun         noun
	key, order   string   // the expression of the cursor, and the list's order
	parts        []string // conditions that divide the table, in the list's order; none = undivided
	desc         bool
	byID         bool // the list is in the order of ids
	cursor       string
	limit        int
	after        func(w *Where, cursor string) error
	scan         func(query string, args ...any) ([]T, error)
	// check returns those of the keys whose rows the list wants, by what no statement decides; nil = all.
	check   func(ctx context.Context, tx Tx, keys []string) ([]string, error)
	queue   func(typ string) bool // whether the list may want items of a type; nil = it may
	many    bool                  // no set of candidates is small: see few
	changed bool                  // the candidates are those that changed since a time
	effort  effort
	whole   bool   // a page does not end early: few rows are looked at
	stopped string // the key at which the search ended before the page was full; "" = it did not
}

// noun is what a list lists.
type noun struct {
	prefix string
	id     func(id string) ID
	target func() IDTarget
	list   func(ids []string) string                                                     // the argument of @among_ids
	column func(ctx context.Context, tx Tx, query string, args ...any) ([]string, error) // reads ids
	ids    func(ctx context.Context, tx Tx, query string, args ...any) ([]string, error) // reads the list's keys
}

var (
	tasks = noun{taskPrefix, func(id string) ID { return TaskID(id) }, func() IDTarget { return new(TaskID) }, TaskList, TaskIDs, TaskIDs}
	items = noun{itemPrefix, func(id string) ID { return ItemID(id) }, func() IDTarget { return new(ItemID) }, ItemList, ItemIDs, ItemIDs}
)

// found is a page of a list: its rows, and one more if there are more.
func (l *listing[T]) found(rows []T, err error, cursor func(T) string) (pawl.List[T], error) {
	if err != nil {
		return pawl.List[T]{}, err
	}
	out := Paged(rows, l.limit, cursor)
	if out.Next == "" && l.stopped != "" {
		out.Next, out.Incomplete = l.stopped, true
	}
	return out, nil
}

func (l *listing[T]) page(ctx context.Context, tx Tx, namespace string) (out []T, err error) {
	behind := l.own.with("TRUE")
	if err := l.after(&behind, l.cursor); err != nil {
		return nil, err
	}
	cursor := l.cursor
	if !l.byID { // candidates are in the order of ids, so all are read at once
		cursor = ""
	}
	ids, few, err := l.few(ctx, tx, namespace, cursor)
	switch {
	case err != nil:
		return nil, err
	case few && l.byID:
		out, err = l.search(ctx, tx, func(_ string, size int) ([]string, string, bool, error) {
			some := ids[:min(size, len(ids))]
			if ids = ids[len(some):]; len(some) == 0 {
				return nil, "", true, nil
			}
			keys, err := l.find(ctx, tx, l.own.with(l.id()+" @among_ids(?)", l.noun.list(some)), len(some))
			return keys, some[len(some)-1], len(ids) == 0, err
		})
	case few:
		if ids, err = l.find(ctx, tx, behind.with(l.id()+" @among_ids(?)", l.noun.list(ids)), max(1, len(ids))); err == nil {
			out, err = l.wanted(ctx, tx, ids)
		}
	case l.byID && l.isOrdered():
		out, err = l.search(ctx, tx, func(at string, size int) ([]string, string, bool, error) {
			some, err := l.merged(ctx, tx, namespace, at, size)
			if err != nil || len(some) == 0 {
				return nil, "", true, err
			}
			keys, err := l.find(ctx, tx, l.own.with(l.id()+" @among_ids(?)", l.noun.list(some)), len(some))
			return keys, some[len(some)-1], len(some) < size, err
		})
	case l.byID:
		out, err = l.search(ctx, tx, func(at string, size int) ([]string, string, bool, error) { return l.walked(ctx, tx, at, size) })
	default:
		out, err = l.search(ctx, tx, func(at string, size int) ([]string, string, bool, error) {
			w := l.own.with("TRUE")
			if err := l.after(&w, at); err != nil {
				return nil, "", true, err
			}
			keys, err := l.next(ctx, tx, w, size)
			if err != nil || len(keys) == 0 {
				return nil, "", true, err
			}
			return keys, keys[len(keys)-1], len(keys) < size, err
		})
	}
	return out[:min(len(out), l.limit+1)], err
}

// isOrdered reports whether a set of candidates can be read in the order of ids.
func (l *listing[T]) isOrdered() bool {
	return slices.ContainsFunc(l.sets, func(c candidates) bool { return c.ordered })
}

// find reads the keys of rows by the table's own conditions.
func (l *listing[T]) find(ctx context.Context, tx Tx, w Where, limit int) ([]string, error) {
	return l.noun.ids(ctx, tx, w.Text("SELECT "+l.key+" FROM pawl."+l.table, l.order, limit), w.Args...)
}

// next finds keys in one part after another.
func (l *listing[T]) next(ctx context.Context, tx Tx, w Where, limit int) (keys []string, err error) {
	if len(l.parts) == 0 {
		return l.find(ctx, tx, w, limit)
	}
	for _, part := range l.parts {
		some, err := l.find(ctx, tx, w.with(part), limit-len(keys))
		if keys = append(keys, some...); err != nil || len(keys) == limit {
			return keys, err
		}
	}
	return keys, nil
}

// wanted reads those rows with the keys that the list wants.
func (l *listing[T]) wanted(ctx context.Context, tx Tx, keys []string) (out []T, err error) {
	if keys, err = l.checked(ctx, tx, keys); err != nil {
		return nil, err
	}
	return l.read(keys)
}

// checked returns those of the keys that check wants.
func (l *listing[T]) checked(ctx context.Context, tx Tx, keys []string) ([]string, error) {
	if l.check == nil || len(keys) == 0 {
		return keys, nil
	}
	return l.check(ctx, tx, keys)
}

func (l *listing[T]) read(keys []string) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	w := l.derived.with(l.id()+" @among_ids(?)", l.noun.list(l.noun.idsOf(keys)))
	text := w.Text(l.rows, l.order, l.limit+1)
	return l.scan(text, w.Args...)
}

// idsOf returns the ids in the keys of a list.
func (n noun) idsOf(keys []string) []string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k[strings.Index(k, n.prefix):]
	}
	return ids
}

func (l *listing[T]) id() string { return l.table[len(l.table)-1:] + ".id" }

// rare repeats the condition of a partial index word for word, because SQLite uses the
// index only then.
const rare = " AND state <> '" + completed + "' AND state = '"

// completed is the state in which most items and tasks end.
const completed = string(pawl.ItemCompleted)

// itemSources returns the sources of items in the given states, with a condition more: of all
// items, or of the only items of their tasks. It returns nil when one of the states is completed.
func itemSources(states []string, solo bool, more string) (out []source) {
	if solo {
		more += isSolo
	}
	for _, s := range states {
		i := slices.IndexFunc(pawl.ItemStates, func(x pawl.StateInfo) bool { return x.Name == s })
		if i < 0 || s == completed {
			return nil
		}
		switch table := pawl.ItemStates[i].Table; table {
		case "parked_items", "leases":
			out = append(out, from(itemColumn, table, more+" AND state = @state("+s+")"))
		case "finished_items":
			cond := " AND state <> @state(completed) AND state = @state(" + s + ")"
			if solo {
				out = append(out, from("task_id", table, cond)) // the table does not say which are the only items of their tasks
			} else {
				out = append(out, from(itemColumn, table, more+cond))
			}
		default:
			out = append(out, from(itemColumn, table, more))
		}
	}
	return unique(out)
}

func unique(in []source) []source {
	slices.SortFunc(in, func(a, b source) int { return strings.Compare(a.text(), b.text()) })
	return slices.Compact(in)
}

// itemColumn is the column with the id of an item; that of the only item of a task is the task's id too.
// The tables are in the order of item_id.
const (
	itemColumn = "item_id"
	isSolo     = " AND solo = 1"
)

// taskSources returns the sources of tasks in the given states: tasks of one item by the
// state of the item, the others by task_counters.
func taskSources(states []string) (out []source) {
	for _, s := range states {
		if s == completed {
			return nil
		}
		items := itemStates(func(i pawl.StateInfo) bool { return i.Task == s })
		stored := string(pawl.TaskState(s).Stored())
		out = append(append(out, itemSources(items, true, "")...), from("task_id", "task_counters", rare+stored+"'"))
	}
	return unique(out)
}
