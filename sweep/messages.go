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
		var orphans []store.OrphanedMessage
		err := db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			orphans, err = store.OrphanedMessages(ctx, tx, items, taskID, batch)
			return err
		})
		if err != nil {
			return err
		}
		ended, err := endEach(ctx, orphans, func(ctx context.Context, s store.OrphanedMessage) error {
			return db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.EndOrphanedMessage(ctx, tx, s) })
		})
		if err != nil || len(orphans) < batch || ended == 0 {
			return err
		}
	}
}

// endEach ends messages, each in a transaction of its own: one that cannot be ended keeps no other from it. It returns
// how many have ended and the first error, and ends early only if the rest is pointless.
func endEach(ctx context.Context, orphans []store.OrphanedMessage, end func(context.Context, store.OrphanedMessage) error) (
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
		var orphans []store.OrphanedMessage
		var by int64
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by = ago(now, OwnMessageGrace)
			orphans, err = store.OwnOrphans(ctx, tx, by, "", batch)
			return err
		})
		ended := 0
		if err == nil {
			ended, err = endEach(ctx, orphans, func(ctx context.Context, s store.OrphanedMessage) error {
				return p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
					return store.EndOwnOrphan(ctx, tx, now, by, s)
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
