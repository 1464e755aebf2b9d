package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var readSQL = Texts(sqlFiles, "read.sql")

// GetItem reads an item; not_found outside the namespace. At now, a lease that
// has run out reads as status expired; 0 leaves that out.
func GetItem(ctx context.Context, tx Tx, namespace, id string, now int64) (ItemRow, error) {
	rows, err := scanItems(ctx, tx, now, readSQL["items"]+"\nWHERE i.id = $1 AND i.namespace = $2", id, namespace)
	if err != nil {
		return ItemRow{}, err
	}
	if len(rows) == 0 {
		return ItemRow{}, pawl.NotFound("item", id)
	}
	return rows[0], nil
}

// GetItems reads those of some items that there are, in whichever namespaces.
func GetItems(ctx context.Context, tx Tx, ids []string, now int64) ([]ItemRow, error) {
	return scanItems(ctx, tx, now, readSQL["items"]+"\nWHERE i.id @among($1)", List(ids))
}

// where gathers conditions and their arguments. The conditions are from a fixed
// set, so the texts it makes are few.
type where struct {
	conds []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		cond = strings.Replace(cond, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.conds = append(w.conds, cond)
}

// with is a copy with one condition more.
func (w where) with(cond string, args ...any) where {
	w.conds, w.args = slices.Clip(w.conds), slices.Clip(w.args)
	w.and(cond, args...)
	return w
}

func (w *where) text(base, order string, limit int) string {
	w.args = append(w.args, limit)
	return base + "\nWHERE " + strings.Join(w.conds, " AND ") + "\nORDER BY " + order + fmt.Sprintf("\nLIMIT $%d", len(w.args))
}

// after goes on behind a cursor that is an id.
func (w *where) after(comparison, prefix, cursor string) error {
	if cursor == "" {
		return nil
	}
	if rest, found := strings.CutPrefix(cursor, prefix); !found || len(rest) != 26 {
		return notACursor()
	}
	w.and(comparison+" ?", cursor)
	return nil
}

func notACursor() error { return pawl.Invalid("/cursor", "is not a cursor of this list") }

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
	l := listing[ItemRow]{table: "work_items i", rows: without(readSQL["items"], q.Fields, largeOfItem), prefix: "itm_", key: "i.id",
		order: "i.id ASC", byID: true, desc: q.Desc, cursor: q.Cursor, limit: q.Limit}
	l.after = func(w *where, cursor string) error { return w.after("i.id >", l.prefix, cursor) }
	if q.Desc {
		l.order, l.after = "i.id DESC", func(w *where, cursor string) error { return w.after("i.id <", l.prefix, cursor) }
	}
	l.scan = func(query string, args ...any) ([]ItemRow, error) { return scanItems(ctx, tx, now, query, args...) }
	l.own.and("i.namespace = ?", namespace)
	if len(q.IDs) > 0 {
		l.own.and("i.id @among(?)", List(q.IDs))
	}
	if q.TaskID != "" {
		l.own.and("i.task_id = ?", q.TaskID)
	}
	if len(q.Types) > 0 {
		l.own.and("i.type @among(?)", List(q.Types))
	}
	if len(q.States) > 0 {
		l.sources = l.derived.states(texts(q.States))
	}
	if len(q.Statuses) > 0 {
		l.sources = l.derived.statuses(q.Statuses, now)
	}
	if q.WorkerID != "" {
		l.derived.and("i.last_worker_id = ?", q.WorkerID)
	}
	if q.TaskID != "" || len(q.IDs) > 0 {
		l.sources = nil // these lead to fewer
	} else if len(l.sources) == 0 {
		few, err := fewTasks(ctx, tx, namespace)
		if err != nil {
			return pawl.List[pawl.Item]{}, err
		}
		if few {
			l.sources = []string{"SELECT w.id FROM pawl.tasks t JOIN pawl.work_items w ON w.task_id = t.id WHERE t.namespace = $1"}
		}
	}
	rows, err := l.page(ctx, tx, namespace)
	if err != nil {
		return pawl.List[pawl.Item]{}, err
	}
	items := make([]pawl.Item, len(rows))
	for i := range rows {
		items[i] = rows[i].Item
	}
	return paged(items, q.Limit, itemCursor), nil
}

// states asks for item states, and says where items of them are.
func (w *where) states(states []string) (sources []string) {
	w.and("i.state @among(?)", List(states))
	return itemSources(states, "item_id")
}

// statuses asks for the coarse words; expired is a lease that has run out, and
// such a one is not in_progress.
func (w *where) statuses(statuses []pawl.Status, now int64) (sources []string) {
	var states []string
	expired := slices.Contains(statuses, pawl.StatusExpired)
	running := slices.Contains(statuses, pawl.StatusInProgress)
	for _, s := range pawl.ItemStates {
		if slices.Contains(statuses, s.Status) || expired && s.Leased {
			states = append(states, s.Name)
		}
	}
	sources = w.states(states)
	if expired && !running {
		w.and("(i.lease_expires_at IS NULL OR i.lease_expires_at <= ?)", now)
	}
	if running && !expired {
		w.and("(i.lease_expires_at IS NULL OR i.lease_expires_at > ?)", now)
	}
	return sources
}

// large are columns of values that may be large, by the member that shows them,
// and what stands for each where it is not wanted.
type large struct{ member, column, instead string }

var (
	largeOfTask = []large{{"payload", " t.payload,", " NULL,"}, {"metadata", " t.metadata,", " '{}',"}}
	largeOfItem = []large{{"input", " i.input,", " 'null',"}, {"result", " i.result,", " NULL,"}, {"assembled_result", " i.assembled_result,", " NULL,"}}
)

// without is a query that reads no large column but those of the fields that are
// asked for; none = all.
func without(query string, fields []string, columns []large) string {
	query = expandColumns(query)
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
	rows, err := tx.Query(ctx, query, args...)
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
	return out, rows.Err()
}

// stageOrState is the stage a worker set, else the state in words: 'Queued'.
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

// Queues lists the queues (type and rank) of ready that have rows, by skipping
// from one to the next along the index.
func Queues(ctx context.Context, tx Tx, namespace string) ([]Queue, error) {
	rows, err := tx.Query(ctx, readSQL["groups"], namespace)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Queue
	for rows.Next() {
		var g Queue
		if err := rows.Scan(&g.Type, &g.Rank); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, rows.Err()
}

// Picks lists the rows of ready of one item, or the best of a task's.
func Picks(ctx context.Context, tx Tx, namespace, taskID, itemID string, types []string, limit int) ([]Pick, error) {
	query, args := readSQL["pick task"], []any{namespace, taskID, List(types), limit}
	if itemID != "" {
		query, args = readSQL["pick item"], []any{namespace, itemID, List(types), taskID}
	}
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Pick
	for rows.Next() {
		var p Pick
		if err := rows.Scan(&p.Type, &p.Rank, &p.ItemID); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
