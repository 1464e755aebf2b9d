package hot

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	appends     = read("append.sql")
	appendLook  = appends.get("Look")
	appendGrow  = appends.get("Grow")
	appendSaved = appends.get("Chunks")
)

// Append implements store.Hot.
func (Verbs) Append(ctx context.Context, tx store.Tx, calls []store.Append) ([]store.Appended, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.Appended, 0, len(calls))
	for i := range calls {
		a, found, err := grow(ctx, tx, &calls[i], now)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, a)
		}
	}
	return out, nil
}

func grow(ctx context.Context, tx store.Tx, c *store.Append, now int64) (a store.Appended, found bool, err error) {
	var h held
	if found, err = h.look(ctx, tx, &c.Fence, now); err != nil || !found {
		return a, false, err
	}
	a.Ord = c.Ord
	var writer *int64
	var step, bytes int64
	var cuts store.Text
	if found, err = store.Row(ctx, tx, []any{&a.State, &a.Chunks, &writer, &step, &cuts, &bytes}, appendLook, c.MessageID,
		store.ItemID(c.ItemID)); err != nil || !found {
		return a, false, err
	}
	a.TakenOver = writer == nil || *writer != int64(c.Attempt)
	bytes += int64(len(c.Body))
	a.Full = bytes > pawl.MaxMessageBytes
	if a.Done = a.State == "streaming" && a.Chunks == c.Offset && !a.Full; !a.Done {
		return a, true, nil
	}
	if h.state == "leased" {
		if _, err := tx.Exec(ctx, touchStart, store.ItemID(c.ItemID)); err != nil {
			return a, true, err
		}
		if err := h.started(ctx, tx, &c.Fence, now); err != nil {
			return a, true, err
		}
	}
	if a.TakenOver {
		if writer != nil {
			cuts = store.CutOff(cuts, step, a.Chunks, *writer)
		}
		step = a.Chunks
	}
	if _, err := tx.Exec(ctx, appendGrow, c.MessageID, c.Offset+int64(c.Count), int64(c.Attempt), step, cuts, bytes); err != nil {
		return a, true, err
	}
	_, err = tx.Exec(ctx, appendSaved, c.MessageID, c.Offset, int64(c.Count), int64(c.Attempt), c.Body, now)
	return a, true, err
}
