package store

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var copySQL = Texts(sqlFiles, "copy.sql")

// Copy is a task that is made in several transactions, because it has many rows. Its items and
// checkpoints are written first, and its own row last: until then nothing reads or claims them. A
// mark says that the rows belong to a task that is still to come. If it is not renewed in time,
// because the process has died, a sweep removes the rows.
type Copy struct {
	TaskID string
	Token  string // of the process that makes it
}

const (
	copyScope = pawl.ReservedPrefix + "copy"
	// copyLease is how long a copy is kept whose process writes nothing.
	copyLease = 30 * time.Second
	// CopyStep is the largest number of rows that one transaction of a copy writes.
	CopyStep = 1000
	// copyStepBytes bounds the values of these rows, but for the last one.
	copyStepBytes = 4 << 20
)

// errCopyLost is the error of a copy whose rows a sweep removes.
var errCopyLost = &pawl.Error{Code: pawl.CodeUnavailable, Op: "copy", Message: "the call took a pause that was too long; try again"}

func (c *Copy) mark(more ...any) []any {
	return append([]any{pawl.AnyNamespace, copyScope, c.TaskID, c.Token}, more...)
}

// Begin writes the mark.
func (c *Copy) Begin(ctx context.Context, tx Tx) error { return c.begin(ctx, tx, "") }

func (c *Copy) begin(ctx context.Context, tx Tx, restoredIn Text) error {
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, copySQL["begin copy"], c.mark(now, now+copyLease.Microseconds(), restoredIn)...)
	}
	return err
}

// Keep renews the mark, in each transaction that writes rows.
func (c *Copy) Keep(ctx context.Context, tx Tx) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return held(tx.Exec(ctx, copySQL["keep copy"], c.mark(now+copyLease.Microseconds())...))
}

// End removes the mark, in the transaction that inserts the task.
func (c *Copy) End(ctx context.Context, tx Tx) error {
	return held(tx.Exec(ctx, copySQL["end copy"], c.mark()...))
}

// giveUp lets a sweep remove the rows at once.
func (c *Copy) GiveUp(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, copySQL["keep copy"], c.mark(0)...)
	return err
}

func held(n int64, err error) error {
	if err == nil && n == 0 {
		err = errCopyLost
	}
	return err
}

// Copies returns tasks that are being made.
func Copies(ctx context.Context, tx Tx) ([]string, error) {
	return column[string](ctx, tx, copySQL["copies"], []any{pawl.AnyNamespace, copyScope, CopyStep})
}

// ExceptCopies leaves out what belongs to tasks that are being made.
func (w *Where) ExceptCopies(ctx context.Context, tx Tx, task string) error {
	hidden, err := Copies(ctx, tx)
	if err == nil && len(hidden) > 0 {
		w.And("("+task+" @among_ids(?)) IS NOT TRUE", TaskList(hidden))
	}
	return err
}

// GivenUpCopies returns up to limit copies that are not made any more.
func GivenUpCopies(ctx context.Context, tx Tx, now int64, limit int) ([]string, error) {
	return column[string](ctx, tx, copySQL["given up copies"], []any{pawl.AnyNamespace, copyScope, now, limit})
}

// IsCopy says whether rows of a task are there because it is being made.
func IsCopy(ctx context.Context, tx Tx, taskID string) (bool, error) {
	var one int
	return Row(ctx, tx, []any{&one}, copySQL["is copy"], pawl.AnyNamespace, copyScope, taskID)
}

// RemoveCopy removes up to limit rows of a copy that is not made any more. done says that nothing
// is left.
func RemoveCopy(ctx context.Context, tx Tx, now int64, taskID string, limit int) (done bool, err error) {
	n, err := tx.Exec(ctx, copySQL["give up copy"], pawl.AnyNamespace, copyScope, taskID, now)
	if err != nil || n == 0 {
		return true, err
	}
	if done, err = rowsOf(taskID).remove(ctx, tx, false, limit); err != nil || !done {
		return false, err
	}
	gone := Copy{TaskID: taskID, Token: "none"}
	if _, err := tx.Exec(ctx, copySQL["tombstones again"], TaskID(taskID), pawl.AnyNamespace, copyScope, taskID); err != nil {
		return false, err
	}
	return true, gone.End(ctx, tx)
}

// CountCopied returns how many items, and checkpoints up to number at, a task has: at most one more
// than most. A task that is not there has none.
func CountCopied(ctx context.Context, tx Tx, namespace, taskID string, at int64, most int) (n int, err error) {
	found, err := Row(ctx, tx, []any{&n}, copySQL["size of task"], TaskID(taskID), namespace)
	if err != nil || !found || at == 0 || n > most {
		return n, err
	}
	var checkpoints, bytes int
	_, err = Row(ctx, tx, []any{&checkpoints, &bytes}, copySQL["size of checkpoints"], TaskID(taskID), upTo(at), most-n+1)
	return n + checkpoints, err
}

// upTo is the number up to which a fork at a number has checkpoints.
func upTo(at int64) int64 {
	if at == AllCheckpoints {
		return math.MaxInt64
	}
	return at
}

// ItemPlace is a place in the order in which the items of a task are copied. The zero value is
// before all of them.
type ItemPlace struct {
	position int
	id       string
}

// BeforeItems is the place before the items of a task.
func BeforeItems() ItemPlace { return ItemPlace{-1 << 31, firstItem} }

// ItemsToCopy reads the work items of a task behind a place, in order of their positions: those that
// one transaction copies.
func ItemsToCopy(ctx context.Context, tx Tx, taskID string, after ItemPlace) (out []pawl.Item, last ItemPlace, err error) {
	var ids []string
	bytes := 0
	last = after
	err = EachRow(ctx, tx, func(rows Rows) error {
		var p ItemPlace
		var size int
		err := rows.Scan((*ItemID)(&p.id), &p.position, &size)
		if err == nil && bytes < copyStepBytes {
			ids, last = append(ids, p.id), p
			bytes += size
		}
		return err
	}, copySQL["items to copy"], TaskID(taskID), after.position, ItemID(after.id), CopyStep)
	if err != nil || len(ids) == 0 {
		return nil, last, err
	}
	rows, err := GetItems(ctx, tx, ids, 0)
	if err != nil {
		return nil, last, err
	}
	place := make(map[string]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(rows, func(a, b ItemRow) int { return place[a.ID] - place[b.ID] })
	for i := range rows {
		out = append(out, rows[i].Item)
	}
	return out, last, nil
}

// StageItems writes items of a copy. Their states come with the task: see Publish.
func (c *Copy) StageItems(ctx context.Context, tx Tx, items []NewItem) error {
	if err := c.Keep(ctx, tx); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	rows := make([][]any, len(items))
	for i := range items {
		n := &items[i]
		queue, err := QueueID(ctx, tx, n.Queue())
		if err != nil {
			return err
		}
		rows[i] = []any{ItemID(n.ID), n.Namespace, queue, TaskID(c.TaskID), n.Type, n.Position, n.Key, n.Priority, n.MaxAttempts, n.RunAt,
			n.After, n.Input, now}
	}
	return tx.ExecEach(ctx, copySQL["copy item"], rows)
}

// StageNeeds writes the dependencies of the next items of a copy. byKey has the items that have keys.
func (c *Copy) StageNeeds(ctx context.Context, tx Tx, byKey map[string]string, after ItemPlace) (last ItemPlace, more bool, err error) {
	if err := c.Keep(ctx, tx); err != nil {
		return after, false, err
	}
	var rows [][]any
	read := 0
	last = after
	args := []any{TaskID(c.TaskID), after.position, ItemID(after.id), CopyStep}
	err = EachRow(ctx, tx, func(r Rows) error {
		if len(rows) >= CopyStep {
			more = true
			return nil
		}
		var keys []string
		var list Text
		if err := r.Scan((*ItemID)(&last.id), &last.position, &list); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(list), &keys); err != nil {
			return err
		}
		read++
		for _, key := range keys {
			id, known := byKey[key]
			if !known {
				return &pawl.Error{Code: pawl.CodeUnavailable, Op: "copy", Message: "the task got items while it was copied; try again"}
			}
			rows = append(rows, []any{ItemID(id), ItemID(last.id)})
		}
		return nil
	}, copySQL["items with needs"], args...)
	if err != nil {
		return last, false, err
	}
	return last, more || read == CopyStep, tx.ExecEach(ctx, copySQL["copy dependency"], rows)
}

// BeginItems puts the items of a copy, whose task this transaction has inserted, into the tables of
// their first states, with their events. like is one of them.
func (c *Copy) BeginItems(ctx context.Context, tx Tx, now int64, like *NewItem) error {
	if err := EnsureActors(ctx, tx, like.Actor.Named()); err != nil {
		return err
	}
	carried := like.Carried()
	all := []any{TaskID(c.TaskID), carried.Acceptance, carried.StartToClose, carried.ScheduleToStart}
	if _, err := tx.Exec(ctx, copySQL["begin waiting"], all...); err != nil {
		return err
	}
	for _, state := range []string{"begin scheduled", "begin ready"} {
		if _, err := tx.Exec(ctx, copySQL[state], append(all, now)...); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, copySQL["begin records"], TaskID(c.TaskID), now, like.Actor.Type, Text(like.Actor.ID), Text(like.Actor.Key))
	return err
}

// CheckpointsToCopy reads the checkpoints of a task below a number that one transaction copies, those
// with the highest numbers, in the order of their numbers. later has the messages whose steps were
// read: see readWords. lowest is the number below which the rest is; 0 = there is none. A task of which not just pruned
// checkpoints were removed is refused: a copy has what was there when it began.
func CheckpointsToCopy(ctx context.Context, tx Tx, namespace, taskID string, below, pruned int64,
	later map[string]bool) (out []CheckpointRow, lowest int64, err error) {
	var w Where
	w.And("c.namespace = ?", namespace)
	w.And("c.task_id = ?", TaskID(taskID))
	w.And("c.seq < ?", below)
	const most = CopyStep / 4 // they may have 20 KiB each
	rows, err := ReadCheckpoints(ctx, tx, false, w.Text("", "c.seq DESC", most), w.Args...)
	if err != nil {
		return nil, 0, err
	}
	if err := StillWhole(ctx, tx, namespace, taskID); err != nil {
		return nil, 0, err
	}
	if now, err := Pruned(ctx, tx, taskID); err != nil || now != pruned {
		return nil, 0, cmp.Or(err, error(&pawl.Error{Code: pawl.CodeUnavailable, Op: "copy",
			Message: "checkpoints of the task were removed while it was copied; try again"}))
	}
	if len(rows) == most {
		lowest = rows[most-1].Sequence
	}
	slices.Reverse(rows)
	out, err = readWords(ctx, tx, rows, later)
	return out, lowest, err
}

// StageCheckpoints writes checkpoints of a copy.
func (c *Copy) StageCheckpoints(ctx context.Context, tx Tx, namespace string, rows []CheckpointRow) error {
	if err := c.Keep(ctx, tx); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return saveCopies(ctx, tx, now, namespace, c.TaskID, rows)
}
