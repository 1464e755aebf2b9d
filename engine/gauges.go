package engine

import (
	"context"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Namespaces lists the namespaces that had work, in order, at most limit. An operator of all namespaces chooses from them.
func (e *Engine) Namespaces(ctx context.Context, limit int) (out []string, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		out, err = namespaces(ctx, tx, limit)
		return err
	})
	return out, err
}

// Gauges counts the items of all namespaces that have not ended, by type and state. It
// also returns the age of the oldest item of each type and state, the live workers, the budgets,
// and how far the feed and each relay are behind. The counts are those of the totals, as for
// Stats.
func (e *Engine) Gauges(ctx context.Context) ([]pawl.Gauge, error) {
	ctx = forAll(ctx)
	e.count(ctx)
	var out []pawl.Gauge
	var at int64
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		at = now
		depths, err := store.Depths(ctx, tx, now)
		if err != nil {
			return err
		}
		out = make([]pawl.Gauge, 0, 2*len(depths))
		for _, d := range depths {
			labels := []string{"namespace", d.Namespace, "type", d.Type, "state", d.State}
			out = append(out, pawl.Gauge{Name: "pawl_items", Help: "Items that have not ended.", Labels: labels, Value: float64(d.Items)})
			_, id, _ := strings.Cut(d.OldestID, "_")
			if made, err := ulid.ParseStrict(id); err == nil {
				age := float64(now)/1e6 - float64(made.Time())/1e3
				out = append(out,
					pawl.Gauge{Name: "pawl_oldest_item_seconds", Help: "Since the oldest of the items was created.", Labels: labels, Value: max(age, 0)})
			}
		}
		more, err := store.Monitored(ctx, tx, now)
		out = append(out, more...)
		for _, r := range declared() {
			if r.Gauges == nil || err != nil {
				continue
			}
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
	relays, err := e.relayGauges(ctx, at)
	return append(out, relays...), err
}
