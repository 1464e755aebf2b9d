package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

// restoreParts has a large archive restored in several transactions, as Copy makes a task: all rows but those that
// let something happen by themselves are written first, each part with what the log needs. The row of the task is
// in no namespace until the last transaction. If the process dies, a sweep removes what was written.
//
// The archive is read again for its events, whose leaves depend on the other rows. Those of a payload that was replaced
// depend on the events that say so: these are inserted first.
type restoreParts struct {
	*Copy
	do     func(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	signed func(ctx context.Context, tx Tx) (SignedRoot, error)
	turn   int        // which rows are inserted
	early  bool       // the archive has rows of turn 1
	events []rowsRead // of turn 1, which are inserted from the last to the first: a leaf depends on the next of them
	task   rowsRead
	late   []rowsRead // what is inserted by the last transaction
}

// InParts has the archive restored in transactions of do, where signed reads the root of the log. The mark of c is written.
func (r *Restorer) InParts(c *Copy, do func(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error,
	signed func(ctx context.Context, tx Tx) (SignedRoot, error)) {
	r.parts = &restoreParts{Copy: c, do: do, signed: signed}
}

// madeLate are the tables whose rows may be acted on without their task. These rows are small.
var madeLate = []string{"task_counters", "deadlines", "parents", "child_links", "child_waits", "awaited_children"}

// skips says whether a row is for another reading.
func (p *restoreParts) skips(table string, row map[string]any) bool {
	if p == nil || table != "task_events" {
		return p != nil && p.turn > 0
	}
	diff, _ := row["diff"].(string)
	_, _, replaced := replacement(diff)
	p.early = p.early || replaced
	return p.turn == 0 || replaced != (p.turn == 1)
}

// Again inserts the rest of what was read, and reports whether the archive is to be read again.
func (r *Restorer) Again(ctx context.Context) (more bool, err error) {
	p := r.parts
	err = r.Flush(ctx, nil)
	for ; err == nil && len(p.events) > 0; p.events = p.events[:len(p.events)-1] {
		err = r.insertNow(ctx, p.events[len(p.events)-1])
	}
	if p.turn++; p.turn == 1 && !p.early {
		p.turn++
	}
	return p.turn < 3, err
}

// BeginRestore writes the mark of a restore. It reports false, and writes nothing, while the namespace is being moved:
// a row of no namespace would not move. The move waits for marks that were written before: see Restoring.
func (c *Copy) BeginRestore(ctx context.Context, tx Tx, namespace string) (begun bool, err error) {
	if err := c.begin(ctx, tx, Text(namespace)); err != nil {
		return false, err
	}
	var one int
	moving, err := Row(ctx, tx, []any{&one}, copySQL["namespace is moving"], namespace)
	if err == nil && moving {
		err = c.End(ctx, tx)
	}
	return !moving, err
}

// insertPart inserts rows in a transaction of their own.
func (r *Restorer) insertPart(ctx context.Context, read rowsRead) error {
	p := r.parts
	if read.table == "tasks" {
		p.task = read
	}
	parked := read.table == "parked_items" && p.task.value("solo") == int64(1) // the log needs the row of an item that has ended
	if parked || slices.Contains(madeLate, read.table) {
		p.late = append(p.late, read)
		return nil
	}
	if p.turn == 1 {
		p.events = append(p.events, read)
		return nil
	}
	return r.insertNow(ctx, read)
}

func (r *Restorer) insertNow(ctx context.Context, read rowsRead) error {
	p := r.parts
	return p.do(ctx, func(ctx context.Context, tx Tx) error {
		if err := p.Keep(ctx, tx); err != nil {
			return err
		}
		switch read.table {
		case "tasks":
			return r.insertHidden(ctx, tx, read)
		case "task_events":
			return r.insertEvents(ctx, tx, read)
		}
		return r.insert(ctx, tx, read)
	})
}

// value returns the value of a column of the first row.
func (r *rowsRead) value(column string) any { return r.rows[0][r.column(column)] }

// insertHidden inserts the row of the task in no namespace. If the task was deleted, its tombstone counts no more.
func (r *Restorer) insertHidden(ctx context.Context, tx Tx, read rowsRead) error {
	row := slices.Clone(read.rows[0])
	row[read.column("dedupes")] = int64(0)
	read.rows = [][]any{row}
	if err := r.insert(ctx, tx, read); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, copySQL["show restored"], TaskID(r.TaskID), pawl.AnyNamespace, 0); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, tombstoneSQL["mark tombstones restored"], TaskID(r.TaskID), now)
	return err
}

// insertEvents inserts events, and has the log record that they are there again.
func (r *Restorer) insertEvents(ctx context.Context, tx Tx, read rowsRead) error {
	if err := r.insert(ctx, tx, read); err != nil {
		return err
	}
	signed, err := r.parts.signed(ctx, tx)
	if err != nil {
		return err
	}
	var ids []int64
	for _, row := range read.rows {
		id, _ := row[read.column("id")].(int64)
		ids = append(ids, id)
	}
	return logRestored(ctx, tx, r.TaskID, ids, signed, r.Log.only(ids))
}

// publish lets the task be seen, with what was left for the last transaction.
func (r *Restorer) publish(ctx context.Context, tx Tx) error {
	p := r.parts
	if err := p.End(ctx, tx); err != nil {
		return err
	}
	task := p.task
	task.rows = [][]any{slices.Clone(task.rows[0])}
	if err := keepDedupe(ctx, tx, task); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, copySQL["show restored"], TaskID(r.TaskID), r.Namespace, task.value("dedupes")); err != nil {
		return err
	}
	for _, read := range p.late {
		if err := r.insert(ctx, tx, read); err != nil {
			return err
		}
	}
	return nil
}

// NotBeingRestored refuses what needs the rows of a task that is being restored in parts.
func (c *Copy) NotBeingRestored(ctx context.Context, tx Tx) error {
	namespace, err := NamespaceOfTask(ctx, tx, c.TaskID)
	restoring := namespace == pawl.AnyNamespace
	if err == nil && namespace == "" {
		restoring, err = IsCopy(ctx, tx, c.TaskID)
	}
	if err != nil || !restoring {
		return err
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "restore", Message: "task " + c.TaskID + " is being restored; try again"}
}

// Restoring returns a task of a namespace that is being restored in parts; "" = none is.
func Restoring(ctx context.Context, tx Tx, namespace string) (string, error) {
	found, err := column[string](ctx, tx, copySQL["restoring"], []any{pawl.AnyNamespace, copyScope, namespace})
	return cmp.Or(append(found, "")...), err
}
