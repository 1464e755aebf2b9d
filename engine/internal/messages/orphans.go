package messages

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// orphansAtOnce bounds the messages that one read lists.
const orphansAtOnce = 1000

// endOrphans ends the open messages whose items need no more work: of the given
// items, of a task, or all. One whose row another transaction locks is left to the next pass.
func endOrphans(ctx context.Context, db store.DB, items []string, taskID string) error {
	for {
		var orphans []orphanedMessage
		err := db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			orphans, err = orphanedMessages(ctx, tx, items, taskID, orphansAtOnce)
			return err
		})
		if err != nil {
			return err
		}
		ended, err := endEach(ctx, orphans, func(ctx context.Context, s orphanedMessage) error {
			return db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return endOrphanedMessage(ctx, tx, s) })
		})
		if err != nil || len(orphans) < orphansAtOnce || ended == 0 {
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
		switch failed := end(store.WithLockWait(ctx, kernel.LockedRow), s); {
		case failed == nil:
			ended++
		case stops(ctx, failed):
			return ended, failed
		case locked(failed), pawl.CodeOf(failed) == pawl.CodeNotFound: // its task was removed meanwhile
		default:
			err = cmp.Or(err, failed)
		}
	}
	return ended, err
}

// grace is how long the writers of messages that a task has itself may go on after the end of the task. Then the messages are
// stopped.
const grace = 10 * time.Minute

// locked reports whether another transaction locks a row, or its namespace is being moved: the next pass tries again.
func locked(err error) bool {
	return errors.Is(err, store.ErrLocked) || errors.Is(err, store.ErrFenced)
}

// stops reports whether the rest of a pass is pointless: the caller gave up, or the database is unavailable.
func stops(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, pawl.ErrUnavailable) && !locked(err)
}

// endOwnOrphans stops the messages that ended tasks have themselves.
func endOwnOrphans(ctx context.Context, p store.Sweeping) error {
	for {
		var orphans []orphanedMessage
		var by int64
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by = now - grace.Microseconds()
			orphans, err = ownOrphans(ctx, tx, by, "", p.Limit)
			return err
		})
		ended := 0
		if err == nil {
			ended, err = endEach(ctx, orphans, func(ctx context.Context, s orphanedMessage) error {
				return p.In(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return endOwnOrphan(ctx, tx, now, by, s) })
			})
		}
		if err != nil || len(orphans) < p.Limit || ended == 0 {
			return err
		}
	}
}

// removeChunks removes the chunks of messages that ended longer than RetainChunks ago: their
// content is in the message.
func removeChunks(ctx context.Context, p store.Sweeping) error {
	for r := (removal{}); p.Options.RetainChunks > 0; {
		var ids []string
		var next removal
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			r.endedBy = now - p.Options.RetainChunks.Microseconds()
			ids, next, err = r.list(ctx, tx, chunkBatch)
			return err
		})
		if err == nil && len(ids) > 0 {
			err = store.Apart(ctx, ids, func(ctx context.Context, ids []string) error {
				return p.Do(ctx, func(ctx context.Context, tx store.Tx) error { return r.remove(ctx, tx, ids) })
			}, func(err error) bool { return stops(ctx, err) }, func(id string, err error) {
				if !locked(err) {
					_ = p.Failed(ctx, "chunks of message "+id, err) // counted; the others go on
				}
			})
		}
		if err != nil || len(ids) < chunkBatch {
			return err
		}
		r = next
	}
	return nil
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
	return endMessage(ctx, tx, now, &m, to, store.Actor{Type: pawl.ActorSystem}, "its item is "+s.ItemState)
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
	return store.All(ctx, tx, w.Text(texts[name], "m.id", limit), w.Args, func(rows store.Rows, s *orphanedMessage) error {
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
		endedBy, store.List(endedTasks)) // not EXISTS: PostgreSQL would plan the view's tables with the statement's own, in 25 ms
	if id != "" {
		w.And("m.id = ?", id)
	}
	return orphans(ctx, tx, &w, "own strays", limit)
}

// endOwnOrphan stops an open message that a task has itself and whose task ended by a time.
func endOwnOrphan(ctx context.Context, tx store.Tx, now, endedBy int64, s orphanedMessage) error {
	m, err := lockOwn(ctx, tx, s.Namespace, s.ID)
	if err != nil || m.Status != pawl.MessageStreaming {
		return err
	}
	still, err := ownOrphans(ctx, tx, endedBy, s.ID, 1)
	if err != nil || len(still) == 0 { // the task was retried in the meantime
		return err
	}
	return endMessage(ctx, tx, now, &m, pawl.MessageStopped, store.Actor{Type: pawl.ActorSystem}, "its task has ended")
}

// removal removes the chunks of messages that ended by a time: their content is in the message. It goes from message to
// message in the order of their ends.
type removal struct {
	endedBy int64
	ended   int64 // of the last message that was listed
	id      string
}

// list returns the next messages that have chunks, and the removal that goes on after them.
func (r removal) list(ctx context.Context, tx store.Tx, limit int) (ids []string, next removal, err error) {
	next = r
	ids, err = store.All(ctx, tx, texts["retired messages"], []any{r.endedBy, r.ended, r.id, limit}, func(rows store.Rows, id *string) error {
		err := rows.Scan(id, &next.ended)
		next.id = *id
		return err
	})
	return ids, next, err
}

// remove removes the chunks of messages, except of those that go on again meanwhile.
func (r removal) remove(ctx context.Context, tx store.Tx, ids []string) error {
	ids, err := store.Strings(ctx, tx, texts["not replayable"], store.List(ids), r.endedBy)
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, texts["remove chunks"], store.List(ids))
	return err
}
