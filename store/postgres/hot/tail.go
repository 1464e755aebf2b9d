package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed tail.sql
var tailSQL string

// Tail implements store.Hot.
func (Verbs) Tail(ctx context.Context, tx store.Tx, places []store.ChunkPosition, limit int) (map[string][]store.ChunkRow, error) {
	args := []any{
		column(places, func(p *store.ChunkPosition) string { return p.MessageID }),
		column(places, func(p *store.ChunkPosition) int64 { return p.From }),
		limit,
	}
	out := map[string][]store.ChunkRow{}
	rows, err := tx.Query(ctx, tailSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		var id string
		var c store.ChunkRow
		err := r.Scan(&id, &c.Seq, &c.Count, &c.Attempt, &c.Body)
		out[id] = append(out[id], c)
		return err
	})
	return out, err
}
