package messages

import (
	"cmp"
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// StartMessages begins messages under leases; see pawl.Messenger.
func (ms *Messages) StartMessages(ctx context.Context, calls []pawl.StartCall) ([]pawl.Result[pawl.Message], error) {
	calls = idform.Calls(calls)
	if err := ms.k.Acts(ctx, "start"); err != nil {
		return nil, err
	}
	return kernel.EachIn(ctx, &kernel.Answers{Op: "message", Unbounded: true}, calls, ms.startMessage)
}

func (ms *Messages) startMessage(ctx context.Context, c *pawl.StartCall) (pawl.Message, error) {
	content, err := checkStart(c)
	if err != nil {
		return pawl.Message{}, err
	}
	caller := pawl.CallerOf(ctx)
	by := kernel.Actor(caller, pawl.ActorWorker, c.WorkerID)
	m := kernel.NewMessage{ID: ms.k.IDs.Next("msg"), Namespace: caller.Namespace, ItemID: store.Text(c.ItemID), Attempt: &c.Attempt,
		Role: c.Role, Content: store.Text(content), Model: store.Text(c.Model), MaxSteps: cmp.Or(c.MaxSteps, pawl.DefaultMaxSteps),
		Metadata: store.Text(c.Metadata), Thread: store.Text(c.Thread), Actor: by}
	if err := ms.ours(ctx, c.Fence); err != nil {
		return pawl.Message{}, err
	}
	if err := ms.k.KeepOfItem(ctx, "message", c.ItemID, rules.BlobsInText(content)); err != nil {
		return pawl.Message{}, err
	}
	var out pawl.Message
	err = ms.k.Held(ctx, c.Fence, "message", func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		m.TaskID = g.TaskID
		if content == "" {
			open, err := openMessageOf(ctx, tx, c.ItemID)
			if err != nil {
				return err
			}
			if open != "" {
				return &pawl.Error{Code: pawl.CodeConflict, Op: "message", State: string(pawl.MessageStreaming),
					Allowed: pawl.MessageStreaming.Allowed(), Message: "the item has an open message, " + open + ": go on with that"}
			}
		}
		if m.Thread == "" {
			thread, err := threadOf(ctx, tx, g.TaskID)
			if err != nil {
				return err
			}
			m.Thread = store.Text(thread)
		}
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		if err := putMessages(ctx, tx, g.Now, []kernel.NewMessage{m}); err != nil {
			return err
		}
		row, err := store.GetMessage(ctx, tx, m.Namespace, m.ID)
		if err == nil {
			out, err = inFull(ctx, tx, row)
		}
		return err
	})
	if err == nil {
		ms.k.After(func() { ms.s.items.put(m.Namespace, m.ID, c.ItemID) })
	}
	return out, err
}

// ours refuses a lease that belongs to another API key.
func (ms *Messages) ours(ctx context.Context, f pawl.Fence) error {
	return ms.k.Tasks(kernel.Origin{}).Ours(ctx, f)
}

// writes runs fn on an open message, with the item and the message locked. The caller
// must hold the item's lease and becomes the message's writer.
func (ms *Messages) writes(
	ctx context.Context,
	m pawl.MessageFence,
	op string,
	fn func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) error,
) error {
	var refusal error
	todo := []appendCall{{call: &pawl.AppendCall{MessageFence: m}}}
	if err := ms.findMessageItems(ctx, todo, func(_ int, err error) { refusal = err }); err != nil || refusal != nil {
		return cmp.Or(err, refusal)
	}
	if err := ms.ours(ctx, todo[0].fence); err != nil {
		return err
	}
	return ms.k.Held(ctx, todo[0].fence, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		row, err := store.LockMessage(ctx, tx, g.Namespace, m.MessageID)
		if err != nil {
			return err
		}
		if row.Status != pawl.MessageStreaming {
			return rules.Conflict(op, string(row.Status), row.Status.Allowed())
		}
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		if err := g.TakeOver(ctx, tx, &row); err != nil {
			return err
		}
		return fn(ctx, tx, g, &row)
	})
}

// messageItem is the item that a message belongs to, which never changes. ItemID is empty
// for a message that was never open.
type messageItem struct{ ID, ItemID, State string }

// itemsOfMessages reads the items of messages. Messages that the namespace does not have
// are left out.
func itemsOfMessages(ctx context.Context, tx store.Tx, namespace string, ids []string) ([]messageItem, error) {
	return store.All(ctx, tx, texts["homes"], []any{namespace, store.List(ids)}, func(rows store.Rows, h *messageItem) error {
		return rows.Scan(&h.ID, (*store.ItemID)(&h.ItemID), &h.State)
	})
}
