package engine

import (
	"cmp"
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// hasMessages reports whether the task has a thread or messages.
func (d *draft) hasMessages() bool { return d.thread != "" || len(d.messages) > 0 }

// startConversation drafts the messages that a task is created with.
func (e *Engine) startConversation(d *draft, t *pawl.NewTask) error {
	if t.Reply != nil && !d.task.Solo {
		return pawl.Invalid("/reply", "is for a task of one item: others begin their messages themselves")
	}
	d.thread = t.Thread
	row := newMessage{
		Namespace: d.task.Namespace,
		TaskID:    d.task.ID,
		Thread:    store.Text(t.Thread),
		MaxSteps:  pawl.DefaultMaxSteps,
		Actor:     d.task.Actor,
	}
	if d.task.Solo {
		row.ItemID = store.Text(d.items[0].ID)
	}
	for _, m := range t.Messages {
		row.ID, row.Role = e.k.IDs.Next("msg"), m.Role
		row.Content, row.Metadata = store.Text(messageParts(m.Content)), store.Text(m.Metadata)
		d.messages = append(d.messages, row)
	}
	if t.Reply != nil {
		row.ID, row.Role, row.Content, row.Metadata = e.k.IDs.Next("msg"), pawl.RoleAssistant, "", store.Text(t.Reply.Metadata)
		row.Model, row.MaxSteps = store.Text(t.Reply.Model), cmp.Or(t.Reply.MaxSteps, pawl.DefaultMaxSteps)
		d.messages = append(d.messages, row)
	}
	return nil
}

// writeMessages writes the thread and the messages, in the transaction that creates the task.
func (d *draft) writeMessages(ctx context.Context, tx store.Tx, now int64) error {
	if d.thread != "" {
		if err := setThread(ctx, tx, d.task.ID, d.thread); err != nil {
			return err
		}
	}
	if len(d.messages) == 0 {
		return nil
	}
	return putMessages(ctx, tx, now, d.messages)
}

// setThread sets the thread that a task belongs to.
func setThread(ctx context.Context, tx store.Tx, taskID, thread string) error {
	_, err := tx.Exec(ctx, messageSQL["set thread"], store.TaskID(taskID), thread)
	return err
}
