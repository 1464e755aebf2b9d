package engine

import (
	"context"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// FinishMessages ends open messages; see pawl.Messenger.
func (e *Engine) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	if err := e.acts(ctx, "finish"); err != nil {
		return nil, err
	}
	return kernel.Each(ctx, "finish", calls, func(ctx context.Context, c *pawl.FinishCall) (pawl.Message, error) {
		if err := checkFinish(c); err != nil {
			return pawl.Message{}, err
		}
		if c.Writer != "" {
			return e.finishOwn(ctx, c)
		}
		var out pawl.Message
		err := e.writes(ctx, c.MessageFence, "finish", func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) error {
			by := actor(pawl.CallerOf(ctx), pawl.ActorWorker, c.WorkerID)
			row.Usage = c.Usage
			err := endMessage(ctx, tx, g.Now, row, pawl.MessageComplete, by, "")
			out = row.Message
			return err
		})
		if err == nil {
			e.after(func() { e.watcher.Changed(c.MessageID) })
		}
		return out, err
	})
}

// endMessage ends an open message and stores the content of its chunks in it.
func endMessage(
	ctx context.Context,
	tx store.Tx,
	now int64,
	row *store.MessageRow,
	to pawl.MessageState,
	by store.Actor,
	reason string,
) error {
	row.Status = to
	content, err := store.Content(ctx, tx, row)
	if err != nil {
		return err
	}
	return store.EndMessage(ctx, tx, now, row, to, content, by, reason)
}

// StopMessages stops open messages; see pawl.Stopper.
func (e *Engine) StopMessages(ctx context.Context, calls []pawl.StopCall) ([]pawl.Result[pawl.Message], error) {
	return kernel.Each(ctx, "stop", calls, func(ctx context.Context, c *pawl.StopCall) (pawl.Message, error) {
		if err := checkStop(c); err != nil {
			return pawl.Message{}, err
		}
		ns := pawl.CallerOf(ctx).Namespace
		var out pawl.Message
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			row, err := store.GetMessage(ctx, tx, ns, c.MessageID)
			if err != nil {
				return err
			}
			stopped, leased := "", false
			if row.ItemID == "" {
				row, err = store.LockOwn(ctx, tx, ns, c.MessageID)
			} else if stopped, leased, err = store.LockItem(ctx, tx, row.ItemID); err == nil { // before the message, as its writer does
				row, err = store.LockMessage(ctx, tx, ns, c.MessageID)
			}
			if err != nil {
				return err
			}
			if row.Status != pawl.MessageStreaming {
				return rules.Conflict("stop", string(row.Status), row.Status.Allowed())
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
			if err := endMessage(ctx, tx, now, &row, pawl.MessageStopped, by, c.Reason); err != nil {
				return err
			}
			out = row.Message
			if !leased {
				return nil
			}
			return setStopped(ctx, tx, row.ItemID, strings.TrimSpace(stopped+" "+row.ID))
		})
		if err == nil {
			e.after(func() { e.watcher.Changed(c.MessageID) })
		}
		return out, err
	})
}

// endMessages ends the open messages of items, or of a task, that have no work left. The
// sweep does the same, so nothing is lost if this process dies first.
func (e *Engine) endMessages(ctx context.Context, items []string, taskID string) {
	if len(items) == 0 && taskID == "" {
		return
	}
	e.after(func() { e.endOrphanedMessages(ctx, items, taskID) })
}

// endOpenMessages is endMessages for items of which few have a message. It removes their
// marks only after the commit: after a rollback the items still have work left.
func (e *Engine) endOpenMessages(ctx context.Context, items []string) {
	e.after(func() {
		if open := e.messageItems.takeOpen(items); len(open) > 0 {
			e.endOrphanedMessages(ctx, open, "")
		}
	})
}

func (e *Engine) endOrphanedMessages(ctx context.Context, items []string, taskID string) {
	ctx = context.WithoutCancel(ctx)
	if err := sweep.EndOrphanedMessages(ctx, e.root.db, items, taskID); err != nil {
		e.log.WarnContext(ctx, "open messages are left to the sweep", "error", err)
	}
	e.watcher.Wake()
}

// setStopped stores in the lease which messages were stopped. The holder learns it by the
// next heartbeat.
func setStopped(ctx context.Context, tx store.Tx, itemID, stopped string) error {
	_, err := tx.Exec(ctx, messageSQL["tell lease"], store.ItemID(itemID), stopped)
	return err
}

// resumeMessages opens messages again that ended with an error, for items of a task that
// are queued again.
func resumeMessages(ctx context.Context, tx store.Tx, now int64, taskID string, items []store.DueItem, by store.Actor) error {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ItemID
	}
	held, err := store.Strings(ctx, tx, messageSQL["hold messages"], store.TaskID(taskID), store.ItemList(ids))
	if err != nil || len(held) == 0 {
		return err
	}
	rows, err := tx.Query(ctx, messageSQL["resume messages"], store.TaskID(taskID), store.ItemList(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	var events []store.Event
	for rows.Next() {
		var id, item, namespace string
		if err := rows.Scan(&id, (*store.ItemID)(&item), &namespace); err != nil {
			return err
		}
		events = append(events, store.MessageEvent("message_started", namespace, taskID, store.Text(item), by,
			map[string]any{"message_id": id, "status": pawl.MessageStreaming}))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	return store.Record(ctx, tx, now, events)
}
