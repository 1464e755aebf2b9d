package postgres

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed feed.sql
var feedFile embed.FS

var feedSQL = store.Texts(feedFile, "feed.sql")

// commits is how transactions of this database come to light.
func commits() *store.Commits {
	return &store.Commits{Drawn: drawn, Among: among, Running: running}
}

func drawn(ctx context.Context, tx store.Tx) (id int64, err error) {
	var timeout string
	_, err = store.Row(ctx, tx, []any{&id, &timeout}, feedSQL["drawn"])
	return id, err
}

func among(ctx context.Context, tx store.Tx, spans []store.Span) ([]int64, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	low, high := make([]int64, len(spans)), make([]int64, len(spans))
	for i, s := range spans {
		low[i], high[i] = s.Low, s.High
	}
	rows, err := tx.Query(ctx, feedSQL["among"], low, high)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

func running(ctx context.Context, tx store.Tx) ([]string, error) {
	return store.Strings(ctx, tx, feedSQL["running"])
}
