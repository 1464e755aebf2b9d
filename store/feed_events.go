package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

// nearby is the largest distance between event numbers that are read in one statement.
const nearby = 64

// EventsAt reads the events of a page, each with its position. Events that no longer exist
// are left out.
func EventsAt(ctx context.Context, tx Tx, p FeedPage) ([]pawl.Event, error) {
	at := make(map[int64]int, len(p.IDs))
	for i, id := range p.IDs {
		at[id] = i
	}
	found := make([]pawl.Event, len(p.IDs))
	for _, s := range spansOf(p.IDs) {
		var w Where
		w.And("e.id >= ?", s.Low)
		w.And("e.id <= ?", s.High)
		err := scanEvents(ctx, tx, w.Text(readSQL["events"], "e.id", int(s.High-s.Low)+1), w.Args, func(id int64, e pawl.Event) {
			if i, ours := at[id]; ours {
				e.Position = p.First + int64(i)
				found[i] = e
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(found, func(e pawl.Event) bool { return e.Position == 0 }), nil
}

// spansOf covers the numbers with spans. Each span is read in one statement.
func spansOf(ids []int64) []Span {
	if !slices.IsSorted(ids) {
		ids = slices.Sorted(slices.Values(ids))
	}
	var out []Span
	for _, id := range ids {
		if n := len(out); n > 0 && id-out[n-1].High <= nearby {
			out[n-1].High = id
		} else {
			out = append(out, Span{id, id})
		}
	}
	return out
}

// EventsAfter reads up to limit events after a position. Here the number of an event is
// its position.
func EventsAfter(ctx context.Context, tx Tx, position int64, limit int) ([]pawl.Event, error) {
	var w Where
	w.And("e.id > ?", position)
	var out []pawl.Event
	err := scanEvents(ctx, tx, w.Text(readSQL["events"], "e.id", limit), w.Args, func(id int64, e pawl.Event) {
		e.Position = id
		out = append(out, e)
	})
	return out, err
}
