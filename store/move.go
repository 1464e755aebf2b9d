package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var moveSQL = Texts(sqlFiles, "move.sql")

// Change is a cold verb on items of one task: retry, bury, cancel or give_up.
type Change struct {
	Namespace, TaskID string
	Verb              string
	ItemIDs           []string // nil = every item of the task that the verb applies to
	To                string   // give_up: failed or cancelled
	Error             Text     // give_up: the reason, as JSON
	LeftBy            Text     // give_up: dependency = dependencyRestored may queue it again
	Actor             Actor
	Reason            Text
	Data              Text // of the events; "" = none
}

// Applied is the outcome of a Change.
type Applied struct {
	Found    bool   // the task exists
	Items    int    // items moved
	Task     string // the task's stored state after it
	Changed  bool   // a task of many: this change moved it to that state
	Released []DueItem
	Child    bool // the task is a child, and has no work left
	PassesOn bool // its children are to be cancelled too
}

// change is how a verb treats an item.
type change struct {
	from  []string
	query string
	alter func(h *StateRow, c *Change, now int64)
}

var changes = map[string]change{
	"retry": {pawl.From(pawl.ItemMoves, "retry"), "items to retry", func(h *StateRow, _ *Change, now int64) {
		h.Failures, h.CompletedAt = 0, nil
		h.Requeue(now)
	}},
	"bury": {pawl.From(pawl.ItemMoves, "bury"), "items to move", func(h *StateRow, _ *Change, now int64) { h.State = "dead_lettered" }},
	"cancel": {pawl.From(pawl.ItemMoves, "cancel"), "items to move",
		func(h *StateRow, c *Change, now int64) { h.State, h.Stage = "cancelled", stageOf(c) }},
	"give_up": {pawl.From(pawl.ItemMoves, "give_up"), "items to move", func(h *StateRow, c *Change, now int64) {
		h.State, h.Error, h.CompletedAt, h.LeftBy = c.To, c.Error, &now, c.LeftBy
	}},
}

func stageOf(c *Change) Text {
	if c.Actor.Type == pawl.ActorSystem {
		return "Cancelled"
	}
	return "Cancelled by user"
}

// Apply carries out a Change: the items' rows, their events, and the task's counters,
// state and event.
//
// A cancel moves nothing of a task that has ended, which may have failed items, or items that its decision still moves.
// A cancel of a whole task continues until no item is left that could run, and cancels the
// task whatever the states of its items are. When a cancel of items cancels the last item
// of a task, the task's plan or apply item is cancelled too.
func Apply(ctx context.Context, tx Tx, now int64, c Change) (Applied, error) {
	ch := changes[c.Verb]
	if c.LeftBy == "dependency" { // its dependencies were read before: if it is queued now, they have completed since
		ch.from = []string{"waiting"}
	}
	t, err := lockTask(ctx, tx, c)
	out := Applied{Found: t.found, Task: t.state}
	if err != nil || !t.found || c.Verb == "cancel" && pawl.TaskState(t.state).Ended() {
		return out, err
	}
	for {
		ids, err := idsToMove(ctx, tx, ch, c)
		if err != nil {
			return out, err
		}
		if len(ids) == 0 {
			break
		}
		held, err := Take(ctx, tx, ids, ch.from)
		if err == nil && t.solo && len(held) > 0 {
			err = t.read(ctx, tx, c.TaskID)
		}
		if err != nil {
			return out, err
		}
		if err := moveRows(ctx, tx, now, &t, ch, c, held, &out); err != nil {
			return out, err
		}
		if c.ItemIDs != nil || c.Verb != "cancel" && c.Verb != "retry" {
			break
		}
	}
	if t.solo {
		out.Task = t.state
		err = releaseHash(ctx, tx, c.TaskID, out)
	} else {
		err = t.conclude(ctx, tx, now, c, &out)
	}
	if err == nil && out.Task == "cancelled" && t.parent > 0 {
		var parents int64
		parents, err = tx.Exec(ctx, childrenSQL["pass on"], TaskID(c.TaskID))
		out.PassesOn = parents > 0
	}
	if err != nil || c.Verb != "cancel" || c.ItemIDs == nil || out.Task != "cancelled" {
		return out, err
	}
	c.ItemIDs = nil // its last item is cancelled, so nothing is left to apply
	ids, err := idsToMove(ctx, tx, ch, c)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	held, err := Take(ctx, tx, ids, ch.from)
	if err != nil {
		return out, err
	}
	return out, moveRows(ctx, tx, now, &t, ch, c, held, &out)
}

func moveRows(ctx context.Context, tx Tx, now int64, t *movedTask, ch change, c Change, held []StateRow, out *Applied) error {
	m := moved{held: held}
	for i := range held {
		m.move(now, t, ch, &c, &held[i], out)
	}
	return m.write(ctx, tx, now)
}

// moved collects what a change writes.
type moved struct {
	held    []StateRow
	events  []Event
	bumps   [][]any // rows of "bump solo"
	feeders []string
}

// move moves an item, and adds what that writes besides its row.
func (m *moved) move(now int64, t *movedTask, ch change, c *Change, h *StateRow, out *Applied) {
	from := h.State
	ch.alter(h, c, now)
	h.Since = &now
	out.Items++
	out.Child = out.Child || h.OfChild() && h.State != "queued"
	e := Event{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt,
		Event: eventOf(c.Verb, h.State), From: Text(from), To: Text(h.State), Actor: c.Actor, Message: c.Reason, Data: c.Data}
	switch {
	case h.Solo == Aside:
	case t.solo:
		if add, bump := t.soloMove(from, h.State, &e); bump {
			m.bumps = append(m.bumps, []any{TaskID(h.TaskID), h.Namespace, add})
		}
	default:
		t.count(from, -1)
		t.count(h.State, +1)
		t.acceptance = t.acceptance || h.Acceptance == 1
	}
	m.events = append(m.events, e)
	if h.State == "queued" {
		out.Released = append(out.Released, DueItem{h.Namespace, h.ItemID, h.Type, h.Rank})
	}
	if h.FeedsItems() && h.State != "queued" && h.State != "dead_lettered" {
		m.feeders = append(m.feeders, h.ItemID)
	}
}

func (m *moved) write(ctx context.Context, tx Tx, now int64) error {
	if len(m.bumps) > 0 {
		if _, err := tx.Exec(ctx, moveSQL["bump solo"], Table(m.bumps), now); err != nil {
			return err
		}
	}
	if err := putMoved(ctx, tx, now, m.held); err != nil {
		return err
	}
	if err := Record(ctx, tx, now, m.events); err != nil {
		return err
	}
	if len(m.feeders) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, moveSQL["break dependents"], ItemList(m.feeders))
	return err
}

func eventOf(verb, to string) string {
	for _, m := range pawl.ItemMoves {
		if m.Verb == verb && m.Event != "" {
			return m.Event
		}
	}
	return to
}

// ItemsToCancel lists the items that a cancel of a task moves, if the task has more than
// the given number of items. Failed items come first, so that the task stays open.
func ItemsToCancel(ctx context.Context, tx Tx, namespace, taskID string, more int) ([]string, error) {
	return ItemIDs(ctx, tx, moveSQL["items to cancel"], TaskID(taskID), namespace, more, List(changes["cancel"].from))
}

// idsToMove lists the items that a change may move. Named items may be in any state: Take
// skips those in other states, and so the whole task is not read for a few items.
func idsToMove(ctx context.Context, tx Tx, ch change, c Change) ([]string, error) {
	if c.ItemIDs != nil {
		return ItemIDs(ctx, tx, moveSQL["named "+ch.query], TaskID(c.TaskID), c.Namespace, ItemList(c.ItemIDs))
	}
	return ItemIDs(ctx, tx, moveSQL[ch.query], TaskID(c.TaskID), c.Namespace, List(ch.from))
}

// Strings reads a query of one text column.
func Strings(ctx context.Context, tx Tx, query string, args ...any) ([]string, error) {
	return column[string](ctx, tx, query, args)
}

// Ints reads a query of one column of numbers.
func Ints(ctx context.Context, tx Tx, query string, args ...any) ([]int64, error) {
	return column[int64](ctx, tx, query, args)
}

// TaskIDs reads a query of one column of task ids.
func TaskIDs(ctx context.Context, tx Tx, query string, args ...any) ([]string, error) {
	return idColumn[TaskID](ctx, tx, query, args)
}

// ItemIDs reads a query of one column of item ids.
func ItemIDs(ctx context.Context, tx Tx, query string, args ...any) ([]string, error) {
	return idColumn[ItemID](ctx, tx, query, args)
}

func idColumn[T ~string](ctx context.Context, tx Tx, query string, args []any) ([]string, error) {
	ids, err := column[T](ctx, tx, query, args)
	if err != nil || ids == nil {
		return nil, err
	}
	return texts(ids), nil
}

func column[T any](ctx context.Context, tx Tx, query string, args []any) ([]T, error) {
	return All(ctx, tx, query, args, func(rows Rows, v *T) error { return rows.Scan(v) })
}

// All reads the rows of a query.
func All[T any](ctx context.Context, tx Tx, query string, args []any, scan func(rows Rows, v *T) error) (out []T, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var v T
		err := scan(rows, &v)
		out = append(out, v)
		return err
	}, query, args...)
	return out, err
}

// Row scans the first row of a query. It returns false when there is none.
func Row(ctx context.Context, tx Tx, dest []any, query string, args ...any) (bool, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return false, rows.Err()
	}
	if err := rows.Scan(dest...); err != nil {
		return false, err
	}
	rows.Close()
	return true, rows.Err()
}
