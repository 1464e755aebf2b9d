package messages

import (
	"context"
	"crypto/hmac"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// OpenMessages opens messages that tasks have themselves; see pawl.Messenger.
func (ms *Messages) OpenMessages(ctx context.Context, calls []pawl.OpenCall) ([]pawl.Result[pawl.OpenedMessage], error) {
	calls = idform.Calls(calls)
	if err := ms.k.Acts(ctx, "open"); err != nil {
		return nil, err
	}
	return kernel.Each(ctx, "open", calls, func(ctx context.Context, c *pawl.OpenCall) (out pawl.OpenedMessage, err error) {
		if err := checkOpen(c); err != nil {
			return out, err
		}
		caller := pawl.CallerOf(ctx)
		m := kernel.NewMessage{ID: ms.k.IDs.Next("msg"), Namespace: caller.Namespace, TaskID: c.TaskID, Role: c.Role,
			Thread: store.Text(c.Thread), Model: store.Text(c.Model), MaxSteps: pawl.DefaultMaxSteps, Metadata: store.Text(c.Metadata),
			Actor: kernel.Actor(caller, pawl.ActorUser, "")}
		writer := 0
		err = ms.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			row, n, err := openOwn(ctx, tx, m, c.OnConflict == pawl.OnConflictReturn)
			if err == nil {
				writer = n
				out.Message, err = inFull(ctx, tx, row)
			}
			return err
		})
		if err == nil && writer > 0 {
			out.Writer = ms.writer(caller.Namespace, out.ID, writer)
		}
		return out, err
	})
}

// appendToOwn adds chunks to a message that a task has itself. A writer counts as an attempt.
func (ms *Messages) appendToOwn(ctx context.Context, c *pawl.AppendCall, body string) (out pawl.Appended, err error) {
	by := *c
	if by.Attempt, err = ms.writerOf(ctx, c.MessageFence); err != nil {
		return out, err
	}
	a := store.Append{Fence: store.Fence{Namespace: pawl.CallerOf(ctx).Namespace}, MessageID: c.MessageID, Offset: c.Offset,
		Count: len(c.Chunks), Body: body}
	var done store.Appended
	err = ms.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		done, err = appendOwn(ctx, tx, &a, by.Attempt, pawl.MaxMessageBytes)
		return err
	})
	if err != nil {
		return out, err
	}
	return ms.appended(ctx, &by, body, done)
}

// finishOwn completes a message that a task has itself.
func (ms *Messages) finishOwn(ctx context.Context, c *pawl.FinishCall) (out pawl.Message, err error) {
	if _, err := ms.writerOf(ctx, c.MessageFence); err != nil {
		return out, err
	}
	caller := pawl.CallerOf(ctx)
	err = ms.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		row, err := lockOwn(ctx, tx, caller.Namespace, c.MessageID)
		if err != nil {
			return err
		}
		if row.Status != pawl.MessageStreaming {
			return rules.Conflict("finish", string(row.Status), row.Status.Allowed())
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		row.Usage = c.Usage
		err = endMessage(ctx, tx, now, &row, pawl.MessageComplete, kernel.Actor(caller, pawl.ActorUser, ""), "")
		out = row.Message
		return err
	})
	if err == nil {
		ms.k.After(func() { ms.s.watcher.changed(c.MessageID) })
	}
	return out, err
}

const writerPrefix = "writer_"

// writer returns the token of a writer of a message that a task has itself: its number in clear
// text, and a MAC of it, the message and the namespace.
func (ms *Messages) writer(namespace, message string, n int) string {
	text := writerPrefix + strconv.Itoa(n)
	return text + "_" + ms.k.MAC(text+"\x00"+message+"\x00"+namespace)
}

// writerOf returns the number of the writer that a token proves.
func (ms *Messages) writerOf(ctx context.Context, m pawl.MessageFence) (int, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(m.Writer, writerPrefix), "_")
	n, err := strconv.Atoi(text)
	if err != nil || !hmac.Equal([]byte(m.Writer), []byte(ms.writer(pawl.CallerOf(ctx).Namespace, m.MessageID, n))) {
		return 0, pawl.Invalid("/writer", "is no token of a writer of this message")
	}
	return n, nil
}

// openOwn opens a message of a task itself for the next writer, whose number it returns. With
// once, that is the message of the thread that the task has, if it has one: writer is 0 if that
// has ended. The task's row is locked, so that two callers open one message.
func openOwn(ctx context.Context, tx store.Tx, m kernel.NewMessage, once bool) (row store.MessageRow, writer int, err error) {
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
		found, err := store.Row(ctx, tx, []any{&id}, texts["own message of thread"], store.TaskID(m.TaskID), m.Thread)
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
	if err := putMessages(ctx, tx, now, []kernel.NewMessage{m}); err != nil {
		return row, 0, err
	}
	row, err = store.GetMessage(ctx, tx, m.Namespace, m.ID)
	return row, writer, err
}

func nextWriter(ctx context.Context, tx store.Tx, namespace, id string) (row store.MessageRow, writer int, err error) {
	if row, err = store.LockMessage(ctx, tx, namespace, id); err != nil || row.Status != pawl.MessageStreaming {
		return row, 0, err
	}
	_, err = store.Row(ctx, tx, []any{&writer}, texts["next writer"], id)
	row.Attempt = writer
	return row, writer, err
}

// putMessages inserts messages, each with its event.
func putMessages(ctx context.Context, tx store.Tx, now int64, all []kernel.NewMessage) error {
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
	if err := tx.ExecEach(ctx, texts["start message"], rows); err != nil {
		return err
	}
	return store.Record(ctx, tx, now, events)
}

// threadOf returns a task's thread.
func threadOf(ctx context.Context, tx store.Tx, taskID string) (string, error) {
	var thread string
	_, err := store.Row(ctx, tx, []any{&thread}, texts["thread of task"], store.TaskID(taskID))
	return thread, err
}

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
