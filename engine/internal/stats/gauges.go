package stats

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// gauges count the items of all namespaces that have not ended, by type and state, with the age of the oldest one, and the live
// workers.
func gauges(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error) {
	depths, err := depthsOfAll(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	out := make([]pawl.Gauge, 0, 2*len(depths))
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
	workers, err := workerGauges(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	queued, err := queuedGauges(ctx, tx, now)
	return slices.Concat(out, workers, queued), err
}

// depth is how many items of a type are in a state, and the id of the oldest one.
type depth struct {
	store.QueueName
	State    string // a lease that has run out is expired
	OldestID string
	Items    int64
}

// depthsOfAll counts the items of all namespaces that have not ended. A lease that has run out
// counts as expired.
func depthsOfAll(ctx context.Context, tx store.Tx, now int64) ([]depth, error) {
	counted, known, _, err := readTotals(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	if !known {
		return depths(ctx, tx, texts["depths"], now)
	}
	out, err := depths(ctx, tx, texts["leases"], now)
	if err != nil {
		return nil, err
	}
	oldest, err := readOldest(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	for name, states := range counted.queues {
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
	}, texts["queued since"])
	return out, err
}

func workerGauges(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error) {
	counts := map[store.QueueName]int{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var namespace string
		var types store.Text
		err := rows.Scan(&namespace, &types)
		all := types.List()
		if len(all) == 0 {
			all = []string{"*"}
		}
		for _, typ := range all {
			counts[store.QueueName{Namespace: namespace, Type: typ}]++
		}
		return err
	}, texts["live types"], now-pawl.WorkerLive.Microseconds(), pawl.MaxWorkers)
	var out []pawl.Gauge
	for _, of := range slices.SortedFunc(maps.Keys(counts), store.QueueName.Compare) {
		out = append(out, pawl.Gauge{Name: "pawl_workers", Help: "Live workers that take the type; * = of those that take any.",
			Labels: []string{"namespace", of.Namespace, "type", of.Type}, Value: float64(counts[of])})
	}
	return out, err
}
