package messages

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A message that a task has itself has no item. Its writers are numbered from 1; the column
// attempt of the message has the number of the last one, and that of a chunk the number of its
// writer.

// lockOwn locks a message that a task has itself, and keeps the task from being removed. The
// message may have any status.
func lockOwn(ctx context.Context, tx store.Tx, namespace, id string) (store.MessageRow, error) {
	if _, err := store.TaskIDs(ctx, tx, texts["keep task of message"], id, namespace); err != nil {
		return store.MessageRow{}, err
	}
	row, err := store.LockMessage(ctx, tx, namespace, id)
	if err == nil && row.ItemID != "" {
		err = pawl.NotFound("message", id)
	}
	return row, err
}

// appendOwn adds chunks to a message that a task has itself, at its end, if they belong there.
func appendOwn(ctx context.Context, tx store.Tx, a *store.Append, writer int, limit int64) (store.Appended, error) {
	if _, err := store.TaskIDs(ctx, tx, texts["keep task of message"], a.MessageID, a.Namespace); err != nil {
		return store.Appended{}, err
	}
	var out store.Appended
	var bytes int64
	found, err := store.Row(ctx, tx, []any{&out.State, &out.Chunks, &bytes}, texts["look at own message"], a.MessageID, a.Namespace)
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
	if _, err := tx.Exec(ctx, texts["put chunks"], a.MessageID, a.Offset, a.Count, writer, a.Body, now); err != nil {
		return out, err
	}
	_, err = tx.Exec(ctx, texts["grow own message"], a.MessageID, a.Offset+int64(a.Count), bytes)
	out.Done = err == nil
	return out, err
}
