package sweep

import (
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
// items, of a task, or all.
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
		ended := 0
		for _, s := range orphans {
			err := db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.EndOrphanedMessage(ctx, tx, s) })
			if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound { // its task may have been removed meanwhile
				return err
			}
			if err == nil {
				ended++
			}
		}
		if len(orphans) < batch || ended == 0 {
			return nil
		}
	}
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
		for _, s := range orphans {
			if err != nil {
				break
			}
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
				return store.EndOwnOrphan(ctx, tx, now, by, s)
			})
			if pawl.CodeOf(err) == pawl.CodeNotFound { // its task was removed meanwhile
				err = nil
			} else {
				ended++
			}
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
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = store.RemoveChunks(ctx, tx, ago(now, p.Options.RetainChunks), chunkBatch)
			return err
		})
		if err != nil || n < chunkBatch {
			return p.logError(ctx, "chunks", err)
		}
	}
}

// chunkBatch bounds the messages whose chunks one transaction removes.
const chunkBatch = 20
