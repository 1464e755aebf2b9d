package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Snapshot is the snapshot of a checkpoint to save: the text, or its blob.
type Snapshot struct {
	Text Text
	Blob *Blob // nil = the text is stored in the checkpoint
}

// SavedCheckpoint is a checkpoint that is saved one at a time, by the step of a message or with a
// snapshot that is stored as a blob, or for a task without a lease.
type SavedCheckpoint struct {
	ID, Type       string
	Name, ArgsHash Text
	Snapshot       Snapshot
	Metadata       Text
	message, said  Text // of a step
}

// Save appends a checkpoint of the locked item and returns its number.
func (g *LockedItem) Save(ctx context.Context, tx Tx, c SavedCheckpoint) (int64, error) {
	return c.save(ctx, tx, g.Now, g.event("checkpointed"))
}

// save appends the checkpoint of the item of e. A manual or approval checkpoint
// leaves the event.
func (c *SavedCheckpoint) save(ctx context.Context, tx Tx, now int64, e Event) (seq int64, err error) {
	var address []byte
	if b := c.Snapshot.Blob; b != nil {
		if c.Snapshot.Text, address, err = KeepBlob(ctx, tx, e.Namespace, now, *b); err != nil {
			return 0, err
		}
	}
	if _, err := Row(ctx, tx, []any{&seq}, addItemsSQL["next number"], TaskID(e.TaskID), e.Namespace, now); err != nil {
		return 0, err
	}
	var attempt *int
	if e.Attempt > 0 {
		attempt = &e.Attempt
	}
	if _, err := tx.Exec(ctx, addItemsSQL["save checkpoint"], c.ID, e.Namespace, TaskID(e.TaskID), ItemID(e.ItemID), attempt, seq, c.Type,
		c.Name,
		c.ArgsHash, c.message, c.Snapshot.Text, address, c.said, c.Metadata, now); err != nil {
		return 0, err
	}
	if c.Type != pawl.ManualCheckpoint && c.Type != pawl.ApprovalPoint {
		return seq, nil
	}
	var name *string
	if c.Name != "" {
		name = (*string)(&c.Name)
	}
	data, _ := json.Marshal(map[string]any{"checkpoint_id": c.ID, "type": c.Type, "name": name, "sequence": seq}) // plain values
	e.Data = Text(data)
	return seq, Record(ctx, tx, now, []Event{e})
}

// SaveCheckpoints appends checkpoints whose numbers were taken.
func SaveCheckpoints(ctx context.Context, tx Tx, rows [][]any) error {
	return tx.ExecEach(ctx, addItemsSQL["save checkpoint"], rows)
}
