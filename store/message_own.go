package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

// A message that a task has itself has no item. Its writers are numbered from 1; the column
// attempt of the message has the number of the last one, and that of a chunk the number of its
// writer.

// OpenOwn opens a message of a task itself for the next writer, whose number it returns. With
// once, that is the message of the thread that the task has, if it has one: writer is 0 if that
// has ended. The task's row is locked, so that two callers open one message.
func OpenOwn(ctx context.Context, tx Tx, m NewMessage, once bool) (row MessageRow, writer int, err error) {
	if err := LockTaskRow(ctx, tx, m.Namespace, m.TaskID); err != nil {
		return row, 0, err
	}
	state, err := TaskState(ctx, tx, m.Namespace, m.TaskID)
	if err != nil {
		return row, 0, err
	}
	if m.Thread == "" {
		thread, err := ThreadOf(ctx, tx, m.TaskID)
		if err != nil {
			return row, 0, err
		}
		m.Thread = Text(thread)
	}
	if once {
		var id string
		found, err := Row(ctx, tx, []any{&id}, messageSQL["own message of thread"], TaskID(m.TaskID), m.Thread)
		if err != nil {
			return row, 0, err
		}
		if found {
			return nextWriter(ctx, tx, m.Namespace, id)
		}
	}
	if err := stillOpen("open", state); err != nil {
		return row, 0, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return row, 0, err
	}
	writer = 1
	m.Attempt = &writer
	if err := PutMessages(ctx, tx, now, []NewMessage{m}); err != nil {
		return row, 0, err
	}
	row, err = GetMessage(ctx, tx, m.Namespace, m.ID)
	return row, writer, err
}

func nextWriter(ctx context.Context, tx Tx, namespace, id string) (row MessageRow, writer int, err error) {
	if row, err = LockMessage(ctx, tx, namespace, id); err != nil || row.Status != pawl.MessageStreaming {
		return row, 0, err
	}
	_, err = Row(ctx, tx, []any{&writer}, messageSQL["next writer"], id)
	row.Attempt = writer
	return row, writer, err
}

// LockOwn locks a message that a task has itself, and keeps the task from being removed. The
// message may have any status.
func LockOwn(ctx context.Context, tx Tx, namespace, id string) (MessageRow, error) {
	if _, err := TaskIDs(ctx, tx, messageSQL["keep task of message"], id, namespace); err != nil {
		return MessageRow{}, err
	}
	row, err := LockMessage(ctx, tx, namespace, id)
	if err == nil && row.ItemID != "" {
		err = pawl.NotFound("message", id)
	}
	return row, err
}

// AppendOwn adds chunks to a message that a task has itself, at its end, if they belong there.
func AppendOwn(ctx context.Context, tx Tx, a *Append, writer int, limit int64) (Appended, error) {
	if _, err := TaskIDs(ctx, tx, messageSQL["keep task of message"], a.MessageID, a.Namespace); err != nil {
		return Appended{}, err
	}
	var out Appended
	var bytes int64
	found, err := Row(ctx, tx, []any{&out.State, &out.Chunks, &bytes}, messageSQL["look at own message"], a.MessageID, a.Namespace)
	switch {
	case err != nil:
		return out, err
	case !found:
		return out, pawl.NotFound("message", a.MessageID)
	}
	bytes += int64(len(a.Body))
	if out.Full = bytes > limit; out.Full || out.Chunks != a.Offset || out.State != string(pawl.MessageStreaming) {
		return out, nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	if _, err := tx.Exec(ctx, messageSQL["put chunks"], a.MessageID, a.Offset, a.Count, writer, a.Body, now); err != nil {
		return out, err
	}
	_, err = tx.Exec(ctx, messageSQL["grow own message"], a.MessageID, a.Offset+int64(a.Count), bytes)
	out.Done = err == nil
	return out, err
}

var endedTasks = taskStates(func(s pawl.StateInfo) bool { return s.Terminal })

// OwnOrphans lists up to limit open messages of tasks that ended by a time: messages that the
// tasks have themselves. With id, that one only.
func OwnOrphans(ctx context.Context, tx Tx, endedBy int64, id string, limit int) ([]OrphanedMessage, error) {
	var w where
	w.and("m.state = 'streaming' AND m.item_id IS NULL")
	w.and("EXISTS (SELECT 1 FROM pawl.task_rows t WHERE t.id = m.task_id AND t.state @among(?) AND COALESCE(t.completed_at, 0) <= ?)",
		List(endedTasks), endedBy)
	if id != "" {
		w.and("m.id = ?", id)
	}
	return orphans(ctx, tx, &w, "own strays", limit)
}

// EndOwnOrphan stops an open message that a task has itself and whose task ended by a time.
func EndOwnOrphan(ctx context.Context, tx Tx, now, endedBy int64, s OrphanedMessage) error {
	m, err := LockOwn(ctx, tx, s.Namespace, s.ID)
	if err != nil || m.Status != pawl.MessageStreaming {
		return err
	}
	still, err := OwnOrphans(ctx, tx, endedBy, s.ID, 1)
	if err != nil || len(still) == 0 { // the task was retried in the meantime
		return err
	}
	m.Status = pawl.MessageStopped
	content, err := Content(ctx, tx, &m)
	if err != nil {
		return err
	}
	return EndMessage(ctx, tx, now, &m, m.Status, content, Actor{Type: pawl.ActorSystem}, "its task has ended")
}
