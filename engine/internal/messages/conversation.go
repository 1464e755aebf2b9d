package messages

import (
	"cmp"
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Said implements kernel.Messages.
func (f forWork) Said(t *pawl.NewTask, of kernel.NewMessage) (all []kernel.NewMessage) {
	for _, m := range t.Messages {
		of.ID, of.Role = f.k.IDs.Next("msg"), m.Role
		of.Content, of.Metadata = store.Text(messageParts(m.Content)), store.Text(m.Metadata)
		all = append(all, of)
	}
	if t.Reply != nil {
		of.ID, of.Role, of.Content, of.Metadata = f.k.IDs.Next("msg"), pawl.RoleAssistant, "", store.Text(t.Reply.Metadata)
		of.Model, of.MaxSteps = store.Text(t.Reply.Model), cmp.Or(t.Reply.MaxSteps, pawl.DefaultMaxSteps)
		all = append(all, of)
	}
	return all
}

// Begin implements kernel.Messages.
func (forWork) Begin(ctx context.Context, tx store.Tx, now int64, taskID, thread string, all []kernel.NewMessage) error {
	if thread != "" {
		if _, err := tx.Exec(ctx, texts["set thread"], store.TaskID(taskID), thread); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return putMessages(ctx, tx, now, all)
}
