package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// EndMessage ends a locked message: it writes the content and the event. A message that
// may still be resumed keeps its chunks until then.
func EndMessage(ctx context.Context, tx Tx, now int64, m *MessageRow, to pawl.MessageState, content string, by Actor, reason string) error {
	replayable := 0
	if to.Ended() && m.Offset > 0 {
		replayable = 1
	}
	if _, err := tx.Exec(ctx, messageSQL["end message"], m.ID, string(to), content, Text(m.Usage), now, replayable); err != nil {
		return err
	}
	at := Stamp(now)
	m.Status, m.Content, m.EndedAt = to, json.RawMessage(content), &at
	data := map[string]any{"message_id": m.ID, "status": to, "chunks": m.Offset, "steps": m.StepNumber}
	e := MessageEvent("message_ended", m.Namespace, m.TaskID, Text(m.ItemID), by, data)
	e.Attempt, e.Message = m.Attempt, Text(reason)
	return Record(ctx, tx, now, []Event{e})
}

// LockItem locks the lease of an item, if there is one. Call it before locking the item's
// message.
func LockItem(ctx context.Context, tx Tx, itemID string) (stopped string, leased bool, err error) {
	for try := 0; try < 100; try++ { // another transaction may be moving the row
		if leased, err = Row(ctx, tx, []any{&stopped}, messageSQL["hold lease of item"], ItemID(itemID)); err != nil || leased {
			break
		}
		held, err := ItemIDs(ctx, tx, stateTableSQL["still in"], ItemList([]string{itemID}), List(leasedStates))
		if err != nil || len(held) == 0 {
			return "", false, err
		}
	}
	return stopped, leased, err
}

// ChunkRemoval removes the chunks of messages that ended by a time: their content is in the message. It goes from message to
// message in the order of their ends.
type ChunkRemoval struct {
	EndedBy int64
	ended   int64 // of the last message that was listed
	id      string
}

// List returns the next messages that have chunks, and the removal that goes on after them.
func (r ChunkRemoval) List(ctx context.Context, tx Tx, limit int) (ids []string, next ChunkRemoval, err error) {
	next = r
	ids, err = All(ctx, tx, messageSQL["retired messages"], []any{r.EndedBy, r.ended, r.id, limit}, func(rows Rows, id *string) error {
		err := rows.Scan(id, &next.ended)
		next.id = *id
		return err
	})
	return ids, next, err
}

// Remove removes the chunks of messages, except of those that go on again meanwhile.
func (r ChunkRemoval) Remove(ctx context.Context, tx Tx, ids []string) error {
	ids, err := Strings(ctx, tx, messageSQL["not replayable"], List(ids), r.EndedBy)
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, messageSQL["remove chunks"], List(ids))
	return err
}
