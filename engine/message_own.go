package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// openOwn opens a message of a task itself for the next writer, whose number it returns. With
// once, that is the message of the thread that the task has, if it has one: writer is 0 if that
// has ended. The task's row is locked, so that two callers open one message.
func openOwn(ctx context.Context, tx store.Tx, m newMessage, once bool) (row store.MessageRow, writer int, err error) {
	if err := store.LockTaskRow(ctx, tx, m.Namespace, m.TaskID); err != nil {
		return row, 0, err
	}
	state, err := store.TaskState(ctx, tx, m.Namespace, m.TaskID)
	if err != nil {
		return row, 0, err
	}
	if m.Thread == "" {
		thread, err := threadOf(ctx, tx, m.TaskID)
		if err != nil {
			return row, 0, err
		}
		m.Thread = store.Text(thread)
	}
	if once {
		var id string
		found, err := store.Row(ctx, tx, []any{&id}, messageSQL["own message of thread"], store.TaskID(m.TaskID), m.Thread)
		if err != nil {
			return row, 0, err
		}
		if found {
			return nextWriter(ctx, tx, m.Namespace, id)
		}
	}
	if err := store.StillOpen("open", state); err != nil {
		return row, 0, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return row, 0, err
	}
	writer = 1
	m.Attempt = &writer
	if err := putMessages(ctx, tx, now, []newMessage{m}); err != nil {
		return row, 0, err
	}
	row, err = store.GetMessage(ctx, tx, m.Namespace, m.ID)
	return row, writer, err
}

func nextWriter(ctx context.Context, tx store.Tx, namespace, id string) (row store.MessageRow, writer int, err error) {
	if row, err = store.LockMessage(ctx, tx, namespace, id); err != nil || row.Status != pawl.MessageStreaming {
		return row, 0, err
	}
	_, err = store.Row(ctx, tx, []any{&writer}, messageSQL["next writer"], id)
	row.Attempt = writer
	return row, writer, err
}

// newMessage is a message to insert. It is open when it has no content.
type newMessage struct {
	ID, Namespace, TaskID string
	Thread, ItemID        store.Text
	Attempt               *int
	Role                  string
	Content               store.Text
	Model                 store.Text
	MaxSteps              int
	Metadata              store.Text
	Actor                 store.Actor
}

// putMessages inserts messages, each with its event.
func putMessages(ctx context.Context, tx store.Tx, now int64, all []newMessage) error {
	rows := make([][]any, len(all))
	events := make([]store.Event, len(all))
	for i, m := range all {
		state, ended := string(pawl.MessageStreaming), (*int64)(nil)
		if m.Content != "" {
			state, ended = string(pawl.MessageComplete), &now
		}
		rows[i] = []any{m.ID, m.Namespace, m.Thread, store.TaskID(m.TaskID), store.ItemID(m.ItemID), m.Attempt, m.Role, m.Content, state, m.Model,
			m.MaxSteps, m.Metadata,
			now, ended}
		events[i] = store.MessageEvent("message_started", m.Namespace, m.TaskID, m.ItemID, m.Actor,
			map[string]any{"message_id": m.ID, "role": m.Role, "status": state})
		if m.Attempt != nil {
			events[i].Attempt = *m.Attempt
		}
	}
	if err := tx.ExecEach(ctx, messageSQL["start message"], rows); err != nil {
		return err
	}
	return store.Record(ctx, tx, now, events)
}

// threadOf returns a task's thread.
func threadOf(ctx context.Context, tx store.Tx, taskID string) (string, error) {
	var thread string
	_, err := store.Row(ctx, tx, []any{&thread}, messageSQL["thread of task"], store.TaskID(taskID))
	return thread, err
}
