package messages

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// FinishMessages ends open messages; see pawl.Messenger.
func (ms *Messages) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	if err := ms.k.Acts(ctx, "finish"); err != nil {
		return nil, err
	}
	return kernel.Each(ctx, "finish", calls, func(ctx context.Context, c *pawl.FinishCall) (pawl.Message, error) {
		if err := checkFinish(c); err != nil {
			return pawl.Message{}, err
		}
		if c.Writer != "" {
			return ms.finishOwn(ctx, c)
		}
		var out pawl.Message
		err := ms.writes(ctx, c.MessageFence, "finish", func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) error {
			by := kernel.Actor(pawl.CallerOf(ctx), pawl.ActorWorker, c.WorkerID)
			row.Usage = c.Usage
			err := endMessage(ctx, tx, g.Now, row, pawl.MessageComplete, by, "")
			out = row.Message
			return err
		})
		if err == nil {
			ms.k.After(func() { ms.s.watcher.changed(c.MessageID) })
		}
		return out, err
	})
}

// endMessage ends a locked message: it writes the content of its chunks, and the event. A message that
// may still be resumed keeps its chunks until then.
func endMessage(
	ctx context.Context,
	tx store.Tx,
	now int64,
	m *store.MessageRow,
	to pawl.MessageState,
	by store.Actor,
	reason string,
) error {
	m.Status = to
	content, err := store.Content(ctx, tx, m)
	if err != nil {
		return err
	}
	replayable := 0
	if to.Ended() && m.Offset > 0 {
		replayable = 1
	}
	if _, err := tx.Exec(ctx, texts["end message"], m.ID, string(to), content, store.Text(m.Usage), now, replayable); err != nil {
		return err
	}
	at := store.Stamp(now)
	m.Content, m.EndedAt = json.RawMessage(content), &at
	data := map[string]any{"message_id": m.ID, "status": to, "chunks": m.Offset, "steps": m.StepNumber}
	e := store.MessageEvent("message_ended", m.Namespace, m.TaskID, store.Text(m.ItemID), by, data)
	e.Attempt, e.Message = m.Attempt, store.Text(reason)
	return store.Record(ctx, tx, now, []store.Event{e})
}

// StopMessages stops open messages; see pawl.Stopper.
func (ms *Messages) StopMessages(ctx context.Context, calls []pawl.StopCall) ([]pawl.Result[pawl.Message], error) {
	return kernel.Each(ctx, "stop", calls, func(ctx context.Context, c *pawl.StopCall) (pawl.Message, error) {
		if err := checkStop(c); err != nil {
			return pawl.Message{}, err
		}
		ns := pawl.CallerOf(ctx).Namespace
		var out pawl.Message
		err := ms.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			row, err := store.GetMessage(ctx, tx, ns, c.MessageID)
			if err != nil {
				return err
			}
			stopped, leased := "", false
			if row.ItemID == "" {
				row, err = lockOwn(ctx, tx, ns, c.MessageID)
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
			by := kernel.Actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
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
			ms.k.After(func() { ms.s.watcher.changed(c.MessageID) })
		}
		return out, err
	})
}

// End implements kernel.Messages.
func (f forWork) End(ctx context.Context, k *kernel.Kernel, items []string, taskID string) {
	if len(items) > 0 || taskID != "" {
		k.After(func() { f.endOrphans(ctx, items, taskID) })
	}
}

// EndOpen implements kernel.Messages. It removes the marks of the items only after the commit: after a rollback they still have
// work left.
func (f forWork) EndOpen(ctx context.Context, k *kernel.Kernel, items []string) {
	k.After(func() {
		if open := f.s.items.takeOpen(items); len(open) > 0 {
			f.endOrphans(ctx, open, "")
		}
	})
}

func (ms *Messages) endOrphans(ctx context.Context, items []string, taskID string) {
	ctx = context.WithoutCancel(ctx)
	if err := endOrphans(ctx, ms.k.Base, items, taskID); err != nil {
		ms.k.Log.WarnContext(ctx, "open messages are left to the sweep", "error", err)
	}
	ms.s.watcher.wake()
}

// setStopped stores in the lease which messages were stopped. The holder learns it by the
// next heartbeat.
func setStopped(ctx context.Context, tx store.Tx, itemID, stopped string) error {
	_, err := tx.Exec(ctx, texts["tell lease"], store.ItemID(itemID), stopped)
	return err
}

// Resume implements kernel.Messages.
func (forWork) Resume(ctx context.Context, tx store.Tx, now int64, taskID string, items []store.DueItem, by store.Actor) error {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ItemID
	}
	held, err := store.Strings(ctx, tx, texts["hold messages"], store.TaskID(taskID), store.ItemList(ids))
	if err != nil || len(held) == 0 {
		return err
	}
	rows, err := tx.Query(ctx, texts["resume messages"], store.TaskID(taskID), store.ItemList(ids))
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
