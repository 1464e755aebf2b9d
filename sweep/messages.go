package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// messages ends open messages whose items are out of work: with an error, and
// all that was said, where the item failed.
func (p *pass) messages(ctx context.Context) error {
	return p.mishap(ctx, "messages", EndOrphanedMessages(ctx, p.DB, nil, ""))
}

// EndOrphanedMessages ends the open messages of some items, of a task, or of all, that are
// out of work.
func EndOrphanedMessages(ctx context.Context, db store.DB, items []string, taskID string) error {
	for {
		var strays []store.OrphanedMessage
		err := db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			strays, err = store.OrphanedMessages(ctx, tx, items, taskID, batch)
			return err
		})
		if err != nil {
			return err
		}
		for _, s := range strays {
			if err := db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.EndOrphanedMessage(ctx, tx, s) }); err != nil {
				return err
			}
		}
		if len(strays) < batch {
			return nil
		}
	}
}

// chunks removes the chunks of messages that ended longer than RetainChunks ago:
// what they said is in the message.
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
			return p.mishap(ctx, "chunks", err)
		}
	}
}

// chunkBatch bounds the messages whose chunks one transaction removes.
const chunkBatch = 20
