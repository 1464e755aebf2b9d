package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var readSQL = Texts(sqlFiles, "read.sql")

// GetItem reads an item. An item of another namespace is not_found. A lease that has run
// out at now reads as status expired; with now = 0 it does not.
func GetItem(ctx context.Context, tx Tx, namespace, id string, now int64) (ItemRow, error) {
	rows, err := scanItems(ctx, tx, now, readSQL["items"]+"\nWHERE i.id = $1 AND i.namespace = $2", ItemID(id), namespace)
	if err != nil {
		return ItemRow{}, err
	}
	if len(rows) == 0 || rows[0].State == "" { // of a task that is being made, or removed
		return ItemRow{}, pawl.NotFound("item", id)
	}
	return rows[0], nil
}

// GetItems reads those of the given items that exist, in any namespace.
func GetItems(ctx context.Context, tx Tx, ids []string, now int64) ([]ItemRow, error) {
	return scanItems(ctx, tx, now, readSQL["items"]+"\nWHERE i.id @among_ids($1)", ItemList(ids))
}

// Where collects conditions and their arguments. The conditions come from a fixed set, so
// it makes only a few different texts.
type Where struct {
	conds []string
	Args  []any
}

// And adds a condition; each ? is the next argument.
func (w *Where) And(cond string, args ...any) {
	for _, a := range args {
		w.Args = append(w.Args, a)
		cond = strings.Replace(cond, "?", fmt.Sprintf("$%d", len(w.Args)), 1)
	}
	w.conds = append(w.conds, cond)
}

// with returns a copy with one more condition.
func (w Where) with(cond string, args ...any) Where {
	w.conds, w.Args = slices.Clip(w.conds), slices.Clip(w.Args)
	w.And(cond, args...)
	return w
}

// Text returns the statement: base with the conditions, in an order, with at most limit rows.
func (w *Where) Text(base, order string, limit int) string {
	w.Args = append(w.Args, limit)
	return base + "\nWHERE " + strings.Join(w.conds, " AND ") + "\nORDER BY " + order + fmt.Sprintf("\nLIMIT $%d", len(w.Args))
}

// after continues the list behind a cursor that is an id.
func (w *Where) After(comparison, prefix, cursor string) error {
	if cursor == "" {
		return nil
	}
	if rest, found := strings.CutPrefix(cursor, prefix); !found || len(rest) != 26 {
		return NotACursor()
	}
	w.And(comparison+" ?", cursor)
	return nil
}

// afterID is after for the id of a task or an item.
func (w *Where) afterID(comparison string, id ID) error {
	if fmt.Sprint(id) == "" {
		return nil
	}
	if _, ok := id.Bytes(); !ok {
		return NotACursor()
	}
	w.And(comparison+" ?", id)
	return nil
}

// NotACursor refuses a cursor of another list.
func NotACursor() error { return pawl.Invalid("/cursor", "is not a cursor of this list") }

// ListItems lists a namespace's items in order of id.
func ListItems(ctx context.Context, tx Tx, namespace string, q pawl.ItemFilter, now int64) (pawl.List[pawl.Item], error) {
	return Pages(q.Page, func(i *pawl.Item) int {
		return len(i.Input) + len(i.Result) + len(i.AssembledResult) + sizeOfFailure(i.Error)
	}, itemCursor, func(p pawl.Page) (pawl.List[pawl.Item], error) {
		q.Page = p
		return listItems(ctx, tx, namespace, q, now)
	})
}

func itemCursor(i pawl.Item) string { return i.ID }

func listItems(ctx context.Context, tx Tx, namespace string, q pawl.ItemFilter, now int64) (pawl.List[pawl.Item], error) {
	l := listing[ItemRow]{table: "all_items i", rows: without(readSQL["items"], q.Fields, largeOfItem), noun: items, key: "i.id",
		order: "i.id ASC", byID: true, desc: q.Desc, cursor: q.Cursor, limit: q.Limit}
	l.after = func(w *Where, cursor string) error { return w.afterID("i.id >", l.noun.id(cursor)) }
	if q.Desc {
		l.order, l.after = "i.id DESC", func(w *Where, cursor string) error { return w.afterID("i.id <", l.noun.id(cursor)) }
	}
	l.scan = func(query string, args ...any) ([]ItemRow, error) { return scanItems(ctx, tx, now, query, args...) }
	l.own.And("i.namespace = ?", namespace)
	if err := l.own.ExceptCopies(ctx, tx, "i.task_id"); err != nil {
		return pawl.List[pawl.Item]{}, err
	}
	if len(q.IDs) > 0 {
		l.own.And("i.id @among_ids(?)", ItemList(q.IDs))
	}
	if q.TaskID != "" {
		l.own.And("i.task_id = ?", TaskID(q.TaskID))
	}
	if err := l.searchItems(ctx, tx, namespace, &q, now); err != nil {
		return pawl.List[pawl.Item]{}, err
	}
	rows, err := l.page(ctx, tx, namespace)
	found, err := l.found(rows, err, func(i ItemRow) string { return i.ID })
	out := pawl.List[pawl.Item]{Items: make([]pawl.Item, len(found.Items)), Next: found.Next, Incomplete: found.Incomplete}
	for i := range found.Items {
		out.Items[i] = found.Items[i].Item
	}
	return out, err
}

// large is a column whose values may be large: the JSON member that shows it, the column,
// and what replaces the column when the member is not wanted.
type large struct{ member, column, instead string }

var (
	largeOfTask = []large{{"payload", " t.payload,", " NULL,"}, {"metadata", " t.metadata,", " '{}',"}}
	largeOfItem = []large{{"input", " i.input,", " 'null',"}, {"result", " i.result,", " NULL,"},
		{"assembled_result", " i.assembled_result,", " NULL,"}}
)

// without returns the query without the large columns that fields does not name. When
// fields is empty, the query keeps all columns.
func without(query string, fields []string, columns []large) string {
	query = ExpandColumns(query)
	for _, c := range columns {
		if len(fields) > 0 && !slices.Contains(fields, c.member) {
			query = strings.Replace(query, c.column, c.instead, 1)
		}
	}
	return query
}

func texts[S ~string](in []S) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

func scanItems(ctx context.Context, tx Tx, now int64, query string, args ...any) ([]ItemRow, error) {
	rows, err := tx.Query(ByKeys(ctx), query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ItemRow
	var s itemScan
	targets := append(Targets(s.columns()), &s.acceptance)
	for rows.Next() {
		s = itemScan{}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		out = append(out, s.item(now))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	questions := map[string][]*json.RawMessage{}
	for i := range out {
		if it := &out[i]; it.Type == pawl.TypeBudget {
			questions[it.TaskID] = append(questions[it.TaskID], &it.Input, &it.Result)
		}
	}
	return out, withAsked(ctx, tx, questions)
}

// stageOrState returns the stage that a worker set, else the state in words: 'Queued'.
func stageOrState(stage Text, state string) string {
	if stage != "" || state == "" {
		return string(stage)
	}
	words := strings.ReplaceAll(state, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

func progressOf(p *int, state string) int {
	switch {
	case state == "completed":
		return 100
	case p == nil:
		return 0
	}
	return *p
}

// Queues lists the queues (type and rank) of ready that have rows; paused ones only if paused
// is set.
func Queues(ctx context.Context, tx Tx, namespace string, paused bool) ([]Queue, error) {
	return All(ctx, tx, readSQL["groups"], []any{namespace, math.MinInt32, paused}, func(rows Rows, g *Queue) error {
		return rows.Scan(&g.Type, &g.Rank)
	})
}
