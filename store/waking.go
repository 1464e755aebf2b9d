package store

import (
	"context"
	"encoding/json"
)

// Waking is what a signal that was sent has left to do: items that wait for it are queued later.
type Waking struct {
	By    Actor `json:"by"`
	Until int64 `json:"until"` // the newest of the items has waited since then
	After int64 `json:"after"` // the events of the sending have greater numbers
}

// Begin notes which event is the newest before those of the sending.
func (w *Waking) Begin(ctx context.Context, tx Tx) error {
	_, err := Row(ctx, tx, []any{&w.After}, archiveSQL["newest event"])
	return err
}

// Text is what the row of the signal stores.
func (w *Waking) Text() Text {
	text, _ := json.Marshal(w) // plain values
	return Text(text)
}
