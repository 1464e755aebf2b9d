package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

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
	e.count(ctx)
	var out []pawl.Gauge
	var at int64
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		at = now
		depths, err := depthsOfAll(ctx, tx, now)
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
		more, err := monitored(ctx, tx, now)
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

// depthsOfAll counts the items of all namespaces that have not ended. A lease that has run out
// counts as expired.
func depthsOfAll(ctx context.Context, tx store.Tx, now int64) ([]depth, error) {
	counted, known, _, err := store.ReadTotals(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	if !known {
		return depths(ctx, tx, statsSQL["depths"], now)
	}
	out, err := depths(ctx, tx, totalsSQL["leases"], now)
	if err != nil {
		return nil, err
	}
	oldest, err := store.Oldest(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	for name, states := range counted.OfQueues() {
		for state, n := range states {
			if id := oldest[name][state]; n > 0 && id != "" {
				out = append(out, depth{name, state, string(id), n})
			}
		}
	}
	slices.SortFunc(out, func(a, b depth) int { return cmp.Or(a.Compare(b.QueueName), strings.Compare(a.State, b.State)) })
	return out, nil
}

func depths(ctx context.Context, tx store.Tx, query string, args ...any) ([]depth, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, d *depth) error {
		return rows.Scan(&d.Namespace, &d.Type, &d.State, &d.Items, (*store.ItemID)(&d.OldestID))
	})
}

// monitored returns metrics of workers, effects, messages and the feed.
func monitored(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error) {
	workers, err := workerGauges(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	feed, err := store.ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	stalled, err := store.CountStalled(ctx, tx, "", now)
	if err != nil {
		return nil, err
	}
	newest, err := store.NewestNumber(ctx, tx)
	lag := pawl.Gauge{Name: "pawl_feed_lag_events", Help: "Event numbers without a position in the feed.",
		Value: float64(max(0, newest-feed.Top))}
	silent := pawl.Gauge{Name: "pawl_messages_stalled", Help: "Open messages without a chunk for a minute and without a live lease.",
		Value: float64(stalled)}
	if err != nil {
		return nil, err
	}
	effects, err := effectGauges(ctx, tx)
	if err != nil {
		return nil, err
	}
	queued, err := queuedGauges(ctx, tx, now)
	return append(slices.Concat(workers, queued, effects), lag, silent), err
}

// queuedGauges say how long the items of each queue are queued. That of the oldest item may have waited for something else.
func queuedGauges(ctx context.Context, tx store.Tx, now int64) (out []pawl.Gauge, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var namespace, typ string
		var since *int64
		if err := rows.Scan(&namespace, &typ, &since); err != nil || since == nil {
			return err
		}
		out = append(out, pawl.Gauge{Name: "pawl_oldest_queued_seconds", Help: "Since the item that is queued longest is queued.",
			Labels: []string{"namespace", namespace, "type", typ}, Value: float64(max(0, now-*since)) / 1e6})
		return nil
	}, totalsSQL["queued since"])
	return out, err
}

func workerGauges(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error) {
	counts := map[store.QueueName]int{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var namespace string
		var types store.Text
		err := rows.Scan(&namespace, &types)
		all := store.TypesOf(types)
		if len(all) == 0 {
			all = []string{"*"}
		}
		for _, typ := range all {
			counts[store.QueueName{Namespace: namespace, Type: typ}]++
		}
		return err
	}, statsSQL["live types"], now-pawl.WorkerLive.Microseconds(), pawl.MaxWorkers)
	var out []pawl.Gauge
	for _, of := range slices.SortedFunc(maps.Keys(counts), store.QueueName.Compare) {
		out = append(out, pawl.Gauge{Name: "pawl_workers", Help: "Live workers that take the type; * = of those that take any.",
			Labels: []string{"namespace", of.Namespace, "type", of.Type}, Value: float64(counts[of])})
	}
	return out, err
}

// depth is how many items of a type are in a state, and the id of the oldest one.
type depth struct {
	store.QueueName
	State    string // a lease that has run out is expired
	OldestID string
	Items    int64
}
