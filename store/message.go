package store

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
)

var messageSQL = Texts(sqlFiles, "message.sql")

// MessageRow is a message as it is stored. An ended message has its content; an open one
// has its chunks.
type MessageRow struct {
	pawl.Message
	StepOffset int64 // the offset at which the current step began
	Cuts       []pawl.Cut
	Kept       Text // the content
	cuts       Text
}

func scanMessages(ctx context.Context, tx Tx, query string, args ...any) ([]MessageRow, error) {
	return All(ctx, tx, query, args, func(rows Rows, m *MessageRow) error {
		var thread, task, item, model, usage, metadata, checkpoint Text
		var attempt *int
		var created int64
		var ended, chunk *int64
		if err := rows.Scan(&m.ID, &m.Namespace, &thread, (*TaskID)(&task), (*ItemID)(&item), &attempt, &m.Role, &m.Kept, &m.Status, &model,
			&m.StepNumber, &m.MaxSteps,
			&m.Offset,
			&m.StepOffset, &m.cuts, &usage, &metadata, &created, &ended, &checkpoint, &chunk); err != nil {
			return err
		}
		m.Thread, m.TaskID, m.ItemID, m.Model = string(thread), string(task), string(item), string(model)
		m.Usage, m.Metadata, m.CheckpointID = Raw(usage), Raw(metadata), string(checkpoint)
		m.UpdatedAt = Stamp(*cmp.Or(ended, chunk, &created))
		m.Cuts, m.CreatedAt, m.EndedAt = CutsOf(m.cuts), Stamp(created), StampOf(ended)
		if attempt != nil {
			m.Attempt = *attempt
		}
		return nil
	})
}

// GetMessage reads a message. A message of another namespace is not_found.
func GetMessage(ctx context.Context, tx Tx, namespace, id string) (MessageRow, error) {
	return oneMessage(ctx, tx, messageSQL["message"]+"\nWHERE m.id = $1 AND m.namespace = $2", namespace, id)
}

// LockMessage is GetMessage with the row locked. Lock leases before it.
func LockMessage(ctx context.Context, tx Tx, namespace, id string) (MessageRow, error) {
	return oneMessage(ctx, tx, messageSQL["message"]+"\nWHERE m.id = $1 AND m.namespace = $2\n@lock", namespace, id)
}

func oneMessage(ctx context.Context, tx Tx, query, namespace, id string) (MessageRow, error) {
	rows, err := scanMessages(ctx, tx, query, id, namespace)
	if err != nil {
		return MessageRow{}, err
	}
	if len(rows) == 0 {
		return MessageRow{}, pawl.NotFound("message", id)
	}
	return rows[0], nil
}

// ListMessages lists a namespace's messages, oldest first, or with Desc newest first.
func ListMessages(ctx context.Context, tx Tx, namespace string, q pawl.MessageFilter) ([]MessageRow, error) {
	var w Where
	w.And("m.namespace = ?", namespace)
	if err := w.ExceptCopies(ctx, tx, "m.task_id"); err != nil {
		return nil, err
	}
	if q.Thread != "" {
		w.And("m.thread = ?", q.Thread)
	}
	if q.TaskID != "" {
		w.And("m.task_id = ?", TaskID(q.TaskID))
	}
	if q.ItemID != "" { // through the task: item_id alone has no index
		w.And("m.task_id = (SELECT x.task_id FROM pawl.all_items x WHERE x.id = ?)", ItemID(q.ItemID))
		w.And("m.item_id = ?", ItemID(q.ItemID))
	}
	if len(q.Statuses) > 0 {
		w.And("m.state @among(?)", List(texts(q.Statuses)))
	}
	if q.Stalled {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		w.And(messageSQL["stalled"], now-pawl.MessageStalls.Microseconds(), now)
	}
	behind, order := "m.id >", "m.id"
	if q.Desc {
		behind, order = "m.id <", "m.id DESC"
	}
	if err := w.After(behind, "msg_", q.Cursor); err != nil {
		return nil, err
	}
	return scanMessages(ctx, tx, w.Text(messageSQL["message"], order, q.Limit+1), w.Args...)
}

// CountStalled counts the stalled messages of a namespace; "" = of all.
func CountStalled(ctx context.Context, tx Tx, namespace string, now int64) (n int64, err error) {
	var w Where
	w.And(messageSQL["stalled"], now-pawl.MessageStalls.Microseconds(), now)
	if namespace != "" {
		w.And("m.namespace || '' = ?", namespace) // by the index of open messages, not through all of the namespace
	}
	_, err = Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.messages m\nWHERE "+strings.Join(w.conds, " AND "), w.Args...)
	return n, err
}

// ChunkRow has the chunks of one append.
type ChunkRow struct {
	Seq     int64
	Count   int
	Attempt int
	Body    string
}

// ChunkPosition is a reader's position in a message: the next chunk's number.
type ChunkPosition struct {
	MessageID string
	From      int64
}

// Chunks reads up to limit rows of a message's chunks: the row with the chunk number from,
// and the rows after it.
func Chunks(ctx context.Context, tx Tx, id string, from int64, limit int) ([]ChunkRow, error) {
	return All(ctx, tx, messageSQL["chunks"], []any{id, from, limit}, func(rows Rows, c *ChunkRow) error {
		return rows.Scan(&c.Seq, &c.Count, &c.Attempt, &c.Body)
	})
}

// LockItem locks the lease of an item, if there is one. Call it before locking the item's
// message.
func LockItem(ctx context.Context, tx Tx, itemID string) (stopped string, leased bool, err error) {
	for try := 0; try < 100; try++ { // another transaction may be moving the row
		if leased, err = Row(ctx, tx, []any{&stopped}, messageSQL["hold lease of item"], ItemID(itemID)); err != nil || leased {
			break
		}
		held, err := ItemIDs(ctx, tx, stateTableSQL["still in"], ItemList([]string{itemID}), List(leasedStates))
		if err != nil || len(held) == 0 {
			return "", false, err
		}
	}
	return stopped, leased, err
}

// MessageEvent returns the event of a message.
func MessageEvent(name, namespace, taskID string, itemID Text, by Actor, data map[string]any) Event {
	text, _ := json.Marshal(data) // plain values
	return Event{Namespace: namespace, TaskID: taskID, ItemID: itemID, Solo: unknownSolo, Event: name, Actor: by, Data: Text(text)}
}
