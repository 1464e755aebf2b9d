package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// manyEffects adds n effects that are decided, of three namespaces, and 36 others.
func manyEffects(t *testing.T, p *pawltest.Pawl, n int) {
	t.Helper()
	t.Cleanup(func() { // before the rules are checked: there are no tasks
		if err := p.Exec("DELETE FROM pawl.effects"); err != nil {
			t.Error(err)
		}
	})
	add := "INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, " +
		"attempt, sendings, senders, gone, outcome, created_at)\n"
	for _, q := range []string{
		add + fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)\n", n) +
			"SELECT 'eff_x' || i, 'space-' || (i % 3), 'k' || i, 'charge', @id('00000000000000000000000000000001'), " +
			"@id('00000000000000000000000000000001'), 'h', CASE WHEN i % 2 = 0 THEN 'done' ELSE 'failed' END, " +
			"0, 'gate', 'w', 1, 1, '[]', CASE WHEN i % 4 < 3 THEN 1 ELSE 0 END, NULL, i FROM n",
		add + "SELECT 'eff_y' || id, namespace, 'y' || key, name, task_id, item_id, request_hash, CASE " +
			"WHEN created_at <= 9 THEN 'waiting' WHEN created_at <= 18 THEN 'open' ELSE 'unknown' END, 0, 'gate', 'w', 1, " +
			"CASE WHEN created_at > 30 THEN 0 ELSE 1 END, '[]', CASE WHEN created_at % 3 = 2 THEN 1 ELSE 0 END, " +
			"CASE WHEN created_at > 24 AND created_at <= 30 THEN 'give_up' END, created_at FROM pawl.effects WHERE created_at <= 36",
		"ANALYZE",
	} {
		if err := p.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// One effect of many is found by its key.
func TestAnEffectIsFoundByItsKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 10_000
		manyEffects(t, p, n)
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			r := &recorder{Tx: tx}
			list, err := store.ListEffects(ctx, r, "space-1", pawl.EffectFilter{Key: "k7", Page: pawl.Page{Limit: 2}})
			if err != nil || len(list.Items) != 1 || list.Items[0].Key != "k7" {
				t.Errorf("%+v, %v", list.Items, err)
			}
			last := len(r.queries) - 1
			plan, err := explain(ctx, tx, p.Database == pawltest.SQLite, r.queries[last], r.args[last])
			if all := strings.Join(plan, "\n"); mostRead(plan) > 1 || !strings.Contains(all, "effects_by_key") {
				t.Errorf("it reads %.0f rows of %d:\n%s", mostRead(plan), n, all)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The metrics count the effects that are not decided. Each reading finds them by their namespace and state among many others,
// also among those of which only the key is left.
func TestTheGaugeOfEffectsReadsFew(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 100_000
		manyEffects(t, p, n)
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			r := &recorder{Tx: tx}
			gauges, err := engine.Monitored(ctx, r, time.Now().UnixMicro())
			if err != nil {
				return err
			}
			var got []string
			for _, g := range gauges {
				if g.Name == "pawl_effects" {
					got = append(got, fmt.Sprint(g.Labels[1], " ", g.Labels[3], " ", g.Value))
				}
			}
			want := []string{"space-0 open 3", "space-0 unknown 2", "space-0 waiting 3", "space-1 open 3", "space-1 unknown 2", "space-1 waiting 3"}
			if !slices.Equal(got, want) {
				t.Errorf("the gauges are %q, want %q", got, want)
			}
			i := slices.IndexFunc(r.queries, func(q string) bool { return strings.Contains(q, "effects f") })
			if i < 0 {
				return errors.New("no query counts effects")
			}
			lite := p.Database == pawltest.SQLite
			plan, err := explain(ctx, tx, lite, r.queries[i], r.args[i])
			all := strings.Join(plan, "\n")
			searched := !lite || strings.Contains(all, "effects_by_state (namespace=? AND state=?)")
			if !searched || mostRead(plan) > n/100 || !strings.Contains(all, "effects_by_state") {
				t.Errorf("it reads %.0f rows of %d:\n%s", mostRead(plan), n, all)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The oldest queued item of a namespace is found by the first items of each rank, among many.
func TestTheOldestQueuedItemIsFoundByAnIndex(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		t.Cleanup(func() { // before the rules are checked: there are no items
			if err := p.Exec("DELETE FROM pawl.ready"); err != nil {
				t.Error(err)
			}
		})
		const n = 20_000
		for _, q := range []string{
			"INSERT INTO pawl.queues (id, namespace, type) SELECT 1000, 'small', 'many'",
			fmt.Sprintf("INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, max_attempts, solo)\n"+
				"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),\n", n) +
				"x (i, id) AS (SELECT i, '000000000000000000000000' || substr(CAST(100000000 + i AS TEXT), 2) FROM n)\n" +
				"SELECT 1000, 1 - 2 * (i % 5), @id(id), @id(id), 3, 1 FROM x",
			"ANALYZE",
		} {
			if err := p.Exec(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			plan, err := planOfStats(ctx, tx, p, "small", "WITH RECURSIVE g (rank)")
			if all := strings.Join(plan, "\n"); mostRead(plan) > 20 || strings.Contains(all, "SCAN r") {
				t.Errorf("it reads %.0f rows of %d:\n%s", mostRead(plan), n, all)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
