package sweep

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// messages ends open messages whose items need no more work. If the item failed, the
// message ends as an error and keeps its content.
func (p *pass) messages(ctx context.Context) error {
	return p.logError(ctx, "messages", EndOrphanedMessages(ctx, p.DB, nil, ""))
}

// EndOrphanedMessages ends the open messages whose items need no more work: of the given
// items, of a task, or all. One whose row another transaction locks is left to the next pass.
func EndOrphanedMessages(ctx context.Context, db store.DB, items []string, taskID string) error {
	for {
		var orphans []orphanedMessage
		err := db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			orphans, err = orphanedMessages(ctx, tx, items, taskID, batch)
			return err
		})
		if err != nil {
			return err
		}
		ended, err := endEach(ctx, orphans, func(ctx context.Context, s orphanedMessage) error {
			return db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return endOrphanedMessage(ctx, tx, s) })
		})
		if err != nil || len(orphans) < batch || ended == 0 {
			return err
		}
	}
}

// endEach ends messages, each in a transaction of its own: one that cannot be ended keeps no other from it. It returns
// how many have ended and the first error, and ends early only if the rest is pointless.
func endEach(ctx context.Context, orphans []orphanedMessage, end func(context.Context, orphanedMessage) error) (
	ended int, err error,
) {
	for _, s := range orphans {
		switch failed := end(store.WithLockWait(ctx, lockWait), s); {
		case failed == nil:
			ended++
		case mustStop(ctx, failed):
			return ended, failed
		case locked(failed), pawl.CodeOf(failed) == pawl.CodeNotFound: // its task was removed meanwhile
		default:
			err = cmp.Or(err, failed)
		}
	}
	return ended, err
}

// OwnMessageGrace is how long the writers of messages that a task has itself may go on after
// the end of the task. Then the messages are stopped.
const OwnMessageGrace = 10 * time.Minute

// ownMessages stops the messages that ended tasks have themselves.
func (p *pass) ownMessages(ctx context.Context) error {
	for {
		var orphans []orphanedMessage
		var by int64
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by = ago(now, OwnMessageGrace)
			orphans, err = ownOrphans(ctx, tx, by, "", batch)
			return err
		})
		ended := 0
		if err == nil {
			ended, err = endEach(ctx, orphans, func(ctx context.Context, s orphanedMessage) error {
				return p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
					return endOwnOrphan(ctx, tx, now, by, s)
				})
			})
		}
		if err != nil || len(orphans) < batch || ended == 0 {
			return p.logError(ctx, "messages of tasks", err)
		}
	}
}

// chunks removes the chunks of messages that ended longer than RetainChunks ago: their
// content is in the message.
func (p *pass) chunks(ctx context.Context) error {
	if p.Options.RetainChunks <= 0 {
		return nil
	}
	for r := (store.ChunkRemoval{}); ; {
		var ids []string
		var next store.ChunkRemoval
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			r.EndedBy = ago(now, p.Options.RetainChunks)
			ids, next, err = r.List(ctx, tx, chunkBatch)
			return err
		})
		if err == nil && len(ids) > 0 {
			err = halve(ctx, p, ids, func(ctx context.Context, ids []string) error {
				return p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return r.Remove(ctx, tx, ids) })
			}, func(id string, err error) {
				p.Log.ErrorContext(ctx, "the chunks of a message could not be removed and stay", "message_id", id, "error", err)
			})
		}
		if err != nil || len(ids) < chunkBatch {
			return p.logError(ctx, "chunks", err)
		}
		r = next
	}
}

// chunkBatch bounds the messages whose chunks one transaction removes.
const chunkBatch = 20

// endOrphanedMessage ends an open message whose item has no work left. The message of a
// failed item ends in error, that of a cancelled item is stopped, and any other is
// complete.
func endOrphanedMessage(ctx context.Context, tx store.Tx, s orphanedMessage) error {
	to := pawl.MessageComplete
	switch s.ItemState {
	case "failed", "dead_lettered":
		to = pawl.MessageError
	case "cancelled":
		to = pawl.MessageStopped
	}
	m, err := store.LockMessage(ctx, tx, s.Namespace, s.ID)
	if err != nil || m.Status != pawl.MessageStreaming {
		return err
	}
	still, err := orphanedMessages(ctx, tx, []string{m.ItemID}, "", 1)
	if err != nil || len(still) == 0 || still[0].ItemState != s.ItemState { // the item was retried in the meantime
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	m.Status = to
	content, err := store.Content(ctx, tx, &m)
	if err != nil {
		return err
	}
	return store.EndMessage(ctx, tx, now, &m, to, content, store.Actor{Type: pawl.ActorSystem}, "its item is "+s.ItemState)
}

// orphanedMessage is an open message whose item has no work left; ItemState is "" of one that a
// task has itself.
type orphanedMessage struct{ ID, Namespace, ItemState string }

// orphanedMessages lists up to limit open messages whose items have no work left: of the
// given items, of a task, or of all.
func orphanedMessages(ctx context.Context, tx store.Tx, items []string, taskID string, limit int) ([]orphanedMessage, error) {
	var w store.Where
	w.And("m.state = 'streaming' AND m.item_id IS NOT NULL AND (r.item_id IS NOT NULL OR e.item_id IS NOT NULL)")
	if items != nil {
		w.And("m.item_id IN @ids(?)", store.ItemList(items))
	}
	if taskID != "" {
		w.And("m.task_id = ?", store.TaskID(taskID))
	}
	return orphans(ctx, tx, &w, "strays", limit)
}

func orphans(ctx context.Context, tx store.Tx, w *store.Where, name string, limit int) ([]orphanedMessage, error) {
	return store.All(ctx, tx, w.Text(messageSQL[name], "m.id", limit), w.Args, func(rows store.Rows, s *orphanedMessage) error {
		return rows.Scan(&s.ID, &s.Namespace, &s.ItemState)
	})
}

var endedTasks = store.TaskStates(func(s pawl.StateInfo) bool { return s.Terminal })

// ownOrphans lists up to limit open messages of tasks that ended by a time: messages that the
// tasks have themselves. With id, that one only.
func ownOrphans(ctx context.Context, tx store.Tx, endedBy int64, id string, limit int) ([]orphanedMessage, error) {
	var w store.Where
	w.And("m.state = 'streaming' AND m.item_id IS NULL")
	w.And("(SELECT t.state FROM pawl.task_rows t WHERE t.id = m.task_id AND COALESCE(t.completed_at, 0) <= ?) @among(?)",
		endedBy, store.List(endedTasks)) // not EXISTS: PostgreSQL would plan the view's tables with the statement's own, in 40 ms
	if id != "" {
		w.And("m.id = ?", id)
	}
	return orphans(ctx, tx, &w, "own strays", limit)
}

// endOwnOrphan stops an open message that a task has itself and whose task ended by a time.
func endOwnOrphan(ctx context.Context, tx store.Tx, now, endedBy int64, s orphanedMessage) error {
	m, err := store.LockOwn(ctx, tx, s.Namespace, s.ID)
	if err != nil || m.Status != pawl.MessageStreaming {
		return err
	}
	still, err := ownOrphans(ctx, tx, endedBy, s.ID, 1)
	if err != nil || len(still) == 0 { // the task was retried in the meantime
		return err
	}
	m.Status = pawl.MessageStopped
	content, err := store.Content(ctx, tx, &m)
	if err != nil {
		return err
	}
	return store.EndMessage(ctx, tx, now, &m, m.Status, content, store.Actor{Type: pawl.ActorSystem}, "its task has ended")
}
