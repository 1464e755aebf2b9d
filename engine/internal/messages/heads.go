package messages

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// messageHead is the current state of a message without its content.
type messageHead struct {
	Epoch  int64 // of the feed
	ID     string
	State  string
	Chunks int64
	Step   int
	Cuts   []pawl.Cut
}

// messageHeads reads the heads of messages.
func messageHeads(ctx context.Context, tx store.Tx, ids []string) ([]messageHead, error) {
	return store.All(ctx, tx, texts["heads"], []any{store.List(ids)}, func(rows store.Rows, h *messageHead) error {
		var cuts store.Text
		if err := rows.Scan(&h.ID, &h.State, &h.Chunks, &h.Step, &cuts); err != nil {
			return err
		}
		h.Cuts = store.CutsOf(cuts)
		return nil
	})
}
