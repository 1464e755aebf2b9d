package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/relays"
	"github.com/pawl-work/pawl/store"
)

// Gauges counts the items of all namespaces that have not ended, by type and state. It
// also returns the age of the oldest item of each type and state, the live workers, the budgets,
// and how far the feed and each relay are behind. The counts are those of the totals, as for
// Stats.
func (e *Engine) Gauges(ctx context.Context) ([]pawl.Gauge, error) {
	ctx = forAll(ctx)
	e.k.CountEvents(ctx)
	var out []pawl.Gauge
	var at int64
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		at = now
		out, err = monitored(ctx, tx, now)
		for _, r := range declared() {
			if r.Gauges == nil || err != nil {
				continue
			}
			var more []pawl.Gauge
			more, err = r.Gauges(ctx, tx, now)
			out = append(out, more...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	still := 0.0
	if e.Quarantined() {
		still = 1
	}
	out = append(out, pawl.Gauge{Name: "pawl_quarantined", Help: "1 while nothing acts: the database is a copy or was moved.", Value: still})
	more, err := relays.Gauges(ctx, e.relayed, at)
	out = append(out, more...)
	for _, of := range e.k.Gauges {
		if err == nil {
			more, err = of(ctx)
			out = append(out, more...)
		}
	}
	return out, err
}

// effectGauges counts the effects that are not decided.
func effectGauges(ctx context.Context, tx store.Tx) (out []pawl.Gauge, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var namespace, state string
		var n int64
		err := rows.Scan(&namespace, &state, &n)
		out = append(out, pawl.Gauge{Name: "pawl_effects", Help: "Effects that are not decided, and that are not given up.",
			Labels: []string{"namespace", namespace, "state", state}, Value: float64(n)})
		return err
	}, effectSQL["count states"], pawl.MaxPage)
	return out, err
}

// monitored returns metrics of effects, messages and the feed.
func monitored(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error) {
	feed, err := store.ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	stalled, err := store.CountStalled(ctx, tx, "", now)
	if err != nil {
		return nil, err
	}
	newest, err := store.NewestNumber(ctx, tx)
	if err != nil {
		return nil, err
	}
	out, err := effectGauges(ctx, tx)
	return append(out, pawl.Gauge{Name: "pawl_feed_lag_events", Help: "Event numbers without a position in the feed.",
		Value: float64(max(0, newest-feed.Top))},
		pawl.Gauge{Name: "pawl_messages_stalled", Help: "Open messages without a chunk for a minute and without a live lease.",
			Value: float64(stalled)}), err
}
