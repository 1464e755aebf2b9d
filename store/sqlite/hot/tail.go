package hot

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// Tail implements store.Hot.
func (Verbs) Tail(ctx context.Context, tx store.Tx, places []store.ChunkPosition, limit int) (map[string][]store.ChunkRow, error) {
	out := map[string][]store.ChunkRow{}
	for _, p := range places {
		rows, err := store.Chunks(ctx, tx, p.MessageID, p.From, limit)
		if err != nil {
			return nil, err
		}
		out[p.MessageID] = rows
	}
	return out, nil
}
