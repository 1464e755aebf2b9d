package store

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// fewCandidates bounds the rows that a list collects before it reads them. When there are
// more, the list wants about one row in a hundred or more, and a walk in its order fills a
// page soon.
const fewCandidates = 10_000

// candidates returns the ids of all rows that a list may want, in its order and behind its
// cursor. They come from tables and indexes that hold few of the rows; without them, a
// list of rare states reads every row. sources are queries with the namespace as $1. few
// is false when there are too many ids, or no sources.
func (l *listing[T]) candidates(ctx context.Context, tx Tx, namespace, cursor string) (ids []string, few bool, err error) {
	if len(l.sources) == 0 {
		return nil, false, nil
	}
	args := append([]any{namespace, fewCandidates + 1}, l.more...)
	ids, err = l.noun.column(ctx, tx, "SELECT x.id FROM ("+strings.Join(l.sources, " UNION ALL ")+") x\nLIMIT $2", args...)
	if err != nil || len(ids) > fewCandidates {
		return nil, false, err
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
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
	return ids, true, nil
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
	own, derived where    // conditions on columns of the table, and on columns of what is joined to it
	sources      []string // of candidates
	more         []any    // arguments of sources, from $3 on
	table, rows  string   // the table with its alias, one letter; the query that reads the rows
	noun         noun
	key, order   string   // the expression of the cursor, and the list's order
	parts        []string // conditions that divide the table, in the list's order; none = undivided
	desc         bool
	byID         bool // the list is in the order of ids
	cursor       string
	limit        int
	after        func(w *where, cursor string) error
	scan         func(query string, args ...any) ([]T, error)
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

func (l *listing[T]) page(ctx context.Context, tx Tx, namespace string) (out []T, err error) {
	behind := l.own.with("TRUE")
	if err := l.after(&behind, l.cursor); err != nil {
		return nil, err
	}
	cursor, size := l.cursor, 2*l.limit
	if !l.byID { // candidates are in the order of ids, so all are read at once
		cursor, size = "", fewCandidates
	}
	ids, few, err := l.candidates(ctx, tx, namespace, cursor)
	if few {
		for some := range slices.Chunk(ids, size) {
			if some, err = l.find(ctx, tx, behind.with(l.id()+" @among_ids(?)", l.noun.list(some)), len(some)); err != nil {
				return nil, err
			}
			rows, err := l.read(some)
			if out = append(out, rows...); err != nil || len(out) > l.limit {
				break
			}
		}
	} else if err == nil {
		out, err = l.walk(ctx, tx, behind)
	}
	return out[:min(len(out), l.limit+1)], err
}

// walk reads the table in the list's order, in steps of growing size.
func (l *listing[T]) walk(ctx context.Context, tx Tx, at where) (out []T, err error) {
	for size := l.limit + 1; ; size = min(2*size, max(pawl.MaxPage, l.limit+1)) {
		keys, err := l.next(ctx, tx, at, size)
		if err != nil || len(keys) == 0 {
			return out, err
		}
		rows, err := l.read(keys)
		if out = append(out, rows...); err != nil || len(out) > l.limit || len(keys) < size || len(l.derived.conds) == 0 {
			return out, err
		}
		at = l.own.with("TRUE")
		if err := l.after(&at, keys[len(keys)-1]); err != nil {
			return out, err
		}
	}
}

// find reads the keys of rows by the table's own conditions.
func (l *listing[T]) find(ctx context.Context, tx Tx, w where, limit int) ([]string, error) {
	return l.noun.ids(ctx, tx, w.text("SELECT "+l.key+" FROM pawl."+l.table, l.order, limit), w.args...)
}

// next finds keys in one part after another.
func (l *listing[T]) next(ctx context.Context, tx Tx, w where, limit int) (keys []string, err error) {
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

func (l *listing[T]) read(keys []string) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k[strings.Index(k, l.noun.prefix):]
	}
	w := l.derived.with(l.id()+" @among_ids(?)", l.noun.list(ids))
	text := w.text(l.rows, l.order, l.limit+1)
	return l.scan(text, w.args...)
}

func (l *listing[T]) id() string { return l.table[len(l.table)-1:] + ".id" }

// from returns a source of candidates.
func from(column, table, cond string) string {
	of := " WHERE namespace = $1"
	if slices.Contains([]string{"ready", "scheduled", "waiting", "parked_items", "finished_items"}, table) {
		of = " WHERE queue_id IN @queues_of($1)"
	}
	return "SELECT " + column + " AS id FROM pawl." + table + of + cond
}

// rare repeats the condition of a partial index word for word, because SQLite uses the
// index only then.
const rare = " AND state <> '" + completed + "' AND state = '"

// completed is the state in which most items and tasks end.
const completed = string(pawl.ItemCompleted)

// itemSources returns the sources of items in the given states. It returns nil when one of
// the states is completed.
func itemSources(states []string, column string) (out []string) {
	for _, s := range states {
		i := slices.IndexFunc(pawl.ItemStates, func(x pawl.StateInfo) bool { return x.Name == s })
		if i < 0 || s == completed {
			return nil
		}
		switch table := pawl.ItemStates[i].Table; table {
		case "parked_items":
			out = append(out, from(column, table, " AND state = @state("+s+")"))
		case "finished_items":
			out = append(out, from(column, table, " AND state <> @state(completed) AND state = @state("+s+")"))
		default:
			out = append(out, from(column, table, ""))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taskSources returns the sources of tasks in the given states: tasks of one item by the
// state of the item, the others by task_counters.
func taskSources(states []string) (out []string) {
	for _, s := range states {
		if s == completed {
			return nil
		}
		items := itemStates(func(i pawl.StateInfo) bool { return i.Task == s })
		stored := string(pawl.TaskState(s).Stored())
		out = append(append(out, itemSources(items, "task_id")...), from("task_id", "task_counters", rare+stored+"'"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
