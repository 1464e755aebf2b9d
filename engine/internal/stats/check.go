package stats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/store"
)

// fewEnough is how many events a database has at most of which the states of tasks are compared
// with the totals too.
const fewEnough = 100_000

// namespaceState is a state of items or tasks in a namespace, or "events".
type namespaceState struct{ namespace, state string }

// wrongTotals compares the totals with the rows. While a task is being deleted, and while many events are not
// counted yet, they differ.
func wrongTotals(ctx context.Context, tx store.Tx, report func(store.Breach)) error {
	c, _, exact, err := readTotals(ctx, tx, "")
	if err != nil || !exact {
		return err
	}
	wrong, err := differing(ctx, tx, &c)
	if err != nil || len(wrong) == 0 {
		return err
	}
	var id int64
	if deleting, err := store.Row(ctx, tx, []any{&id}, texts["deletion"]); err != nil || deleting {
		return err
	}
	moves, some := tx.(interface{ Hides(namespace string) bool })
	for _, b := range wrong {
		if some && moves.Hides(b.Subject) {
			continue
		}
		report(b)
	}
	return nil
}

// differing returns where the totals differ from the rows.
func differing(ctx context.Context, tx store.Tx, c *counted) (out []store.Breach, err error) {
	said, events := map[namespaceState]int64{}, int64(0)
	for ns, n := range c.events {
		for state, n := range c.items[ns] {
			said[namespaceState{ns, state}] = n
		}
		said[namespaceState{ns, "events"}] = n
		events += n
	}
	there, err := countedStates(ctx, tx, "counted rows")
	if err != nil {
		return nil, err
	}
	out = compareStates("items that are ", said, there)
	if events > fewEnough {
		return out, nil
	}
	clear(said)
	for ns := range c.events {
		s := noStats()
		if err := c.states(ctx, tx, ns, &s); err != nil {
			return nil, err
		}
		for state, n := range s.TasksByState {
			said[namespaceState{ns, string(state)}] = n
		}
	}
	if there, err = countedStates(ctx, tx, "states of tasks"); err != nil {
		return nil, err
	}
	return append(out, compareStates("tasks that are ", said, there)...), nil
}

func countedStates(ctx context.Context, tx store.Tx, query string) (map[namespaceState]int64, error) {
	out := map[namespaceState]int64{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var k namespaceState
		var n int64
		err := rows.Scan(&k.namespace, (*store.Text)(&k.state), &n)
		out[k] += n
		return err
	}, texts[query])
	return out, err
}

// compareStates returns the differences between what the totals say and what is there.
func compareStates(of string, said, there map[namespaceState]int64) (out []store.Breach) {
	for k := range there {
		if _, known := said[k]; !known {
			said[k] = 0
		}
	}
	for k, n := range said {
		if n == there[k] || k.state == "" {
			continue
		}
		what := of + k.state
		if k.state == "events" {
			what = k.state
		}
		out = append(out, store.Breach{Subject: k.namespace, Found: fmt.Sprintf("%s: %d by the totals, %d rows", what, n, there[k])})
	}
	slices.SortFunc(out, func(a, b store.Breach) int { return strings.Compare(a.Subject+a.Found, b.Subject+b.Found) })
	return out
}
