package hot

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

type checkpointData struct {
	ID       string  `json:"checkpoint_id"`
	Type     string  `json:"type"`
	Name     *string `json:"name"`
	Sequence int64   `json:"sequence"`
}

// Checkpoint implements store.Hot.
func (Verbs) Checkpoint(ctx context.Context, tx store.Tx, calls []store.Checkpoint) ([]store.Checkpointed, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.Checkpointed, 0, len(calls))
	for i := range calls {
		c := &calls[i]
		var h held
		found, err := h.look(ctx, tx, &c.Fence, now)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		seq, err := h.save(ctx, tx, c, now)
		if err != nil {
			return nil, err
		}
		out = append(out, store.Checkpointed{Ord: c.Ord, ID: c.ID, Seq: seq})
	}
	return out, nil
}

func (h *held) save(ctx context.Context, tx store.Tx, c *store.Checkpoint, now int64) (int64, error) {
	if h.state == "leased" {
		if _, err := tx.Exec(ctx, touchStart, store.ItemID(c.ItemID)); err != nil {
			return 0, err
		}
		if err := h.started(ctx, tx, &c.Fence, now); err != nil {
			return 0, err
		}
	}
	row := checkpoint{id: c.ID, namespace: c.Namespace, taskID: h.taskID, itemID: store.ItemID(c.ItemID), attempt: int64(c.Attempt),
		kind: c.Type, name: c.Name, argsHash: c.ArgsHash, snapshot: c.Snapshot, metadata: c.Metadata}
	seq, err := row.write(ctx, tx, now)
	if err != nil || c.Type != pawl.ManualCheckpoint && c.Type != pawl.ApprovalPoint {
		return seq, err
	}
	data := checkpointData{ID: c.ID, Type: c.Type, Sequence: seq}
	if c.Name != "" {
		data.Name = (*string)(&c.Name)
	}
	e := h.event("checkpointed", &c.Fence)
	if e.data, err = encode(data); err != nil {
		return 0, err
	}
	return seq, e.write(ctx, tx, now)
}
