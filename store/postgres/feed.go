package postgres

import (
	"context"
	"embed"
	"strings"

	"github.com/pawl-work/pawl/store"
)

//go:embed feed.sql
var feedFile embed.FS

var feedSQL = store.Texts(feedFile, "feed.sql")

// commits says in which order transactions of this database become visible.
func (d *db) commits() *store.Commits {
	return &store.Commits{Drawn: lastDrawn, State: state, Among: eventsIn, Horizon: horizon, Running: running, Server: server,
		Reset: func() { d.reset() }}
}

func server(ctx context.Context, tx store.Tx) (s store.Server, err error) {
	_, err = store.Row(ctx, tx, []any{&s.System, &s.Timeline, &s.Standby}, feedSQL["server"])
	return s, err
}

func lastDrawn(ctx context.Context, tx store.Tx) (id int64, err error) {
	var timeout string
	_, err = store.Row(ctx, tx, []any{&id, &timeout}, feedSQL["drawn"])
	return id, err
}

func state(ctx context.Context, tx store.Tx) (s store.FeedState, at store.Server, drawn int64, err error) {
	var text string
	_, err = store.Row(ctx, tx, []any{&s.Position, &text, &s.MovedAt, &at.System, &at.Timeline, &at.Standby, &drawn}, feedSQL["state"])
	if err == nil && text != "" {
		err = s.Read(text)
	}
	return s, at, drawn, err
}

// unnamedState is state without the right to ask which server answers.
func unnamedState(ctx context.Context, tx store.Tx) (s store.FeedState, _ store.Server, drawn int64, err error) {
	if s, err = store.ReadFeed(ctx, tx); err == nil {
		drawn, err = lastDrawn(ctx, tx)
	}
	return s, store.Server{}, drawn, err
}

func eventsIn(ctx context.Context, tx store.Tx, spans []store.Span) ([]int64, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	low, high := make([]int64, len(spans)), make([]int64, len(spans))
	for i, s := range spans {
		low[i], high[i] = s.Low, s.High
	}
	return store.Ints(ctx, tx, feedSQL["among"], low, high)
}

func horizon(ctx context.Context, tx store.Tx) (oldest, next int64, err error) {
	_, err = store.Row(ctx, tx, []any{&oldest, &next}, feedSQL["horizon"])
	return oldest, next, err
}

func running(ctx context.Context, tx store.Tx) (store.Running, error) {
	r := store.Running{Open: map[string]string{}, Prepared: map[string]bool{}}
	// In this order, a transaction that is prepared in between is found twice, not missed.
	open, err := store.Strings(ctx, tx, feedSQL["open"])
	if err != nil {
		return r, err
	}
	prepared, err := store.Strings(ctx, tx, feedSQL["prepared"])
	for _, text := range open {
		name, number, _ := strings.Cut(text, " ")
		r.Open[name] = number
	}
	for _, number := range prepared {
		r.Prepared[number] = true
	}
	return r, err
}
