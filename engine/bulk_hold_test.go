package engine_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A bulk call over many tasks holds no transaction for long, and neither does its count:
// PAWL_TORTURE=1 does so with a million tasks, or as many as PAWL_BULK says.
func TestBulkCallsHoldNoTransactionForLong(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		n, torture := 1200, os.Getenv("PAWL_TORTURE") != ""
		if torture {
			n = 1_000_000
			if some, err := strconv.Atoi(os.Getenv("PAWL_BULK")); err == nil {
				n = some
			}
		}
		createMany(t, p, "many", n)
		createMany(t, p, "few", n/100)
		taken := p.Engine.Time()
		quantile := func(all []time.Duration, q int) time.Duration { return all[(len(all)-1)*q/100] }
		report := func(what string, tasks int, began time.Time) {
			took := time.Since(began)
			writes, reads := taken()
			all := map[string][]time.Duration{"writes": writes, "reads": reads}
			for kind, of := range all {
				if len(of) == 0 {
					delete(all, kind)
					continue
				}
				t.Logf("%s: %d tasks in %s, %.0f a second; %d transactions with %s, p50 %s, p99 %s, longest %s", what, tasks, took,
					float64(tasks)/took.Seconds(), len(of), kind, quantile(of, 50), quantile(of, 99), of[len(of)-1])
				if torture && quantile(of, 99) > 100*time.Millisecond {
					t.Errorf("%s: p99 of transactions with %s is %s", what, kind, quantile(of, 99))
				}
			}
			if what != "count" && len(all["writes"]) < tasks/pawl.BulkStep {
				t.Errorf("%s: %d transactions", what, len(all["writes"]))
			}
		}
		taken()
		many := pawl.BulkFilter{Type: pawl.Texts{"many"}}
		for _, filter := range []pawl.BulkFilter{many, {State: pawl.Texts{"queued"}, Type: many.Type}} {
			began := time.Now()
			got := need[int64](t)(p.Engine.CountBulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkCancel, Filter: filter}))
			if report("count", n, began); got != int64(n) {
				t.Errorf("%+v: %d tasks, want %d", filter, got, n)
			}
		}
		for _, call := range []pawl.BulkCall{
			{Verb: pawl.BulkUpdate, Filter: many, Update: &pawl.BulkPatch{Metadata: json.RawMessage(`{"a":1}`)}},
			{Verb: pawl.BulkCancel, Filter: many},
			{Verb: pawl.BulkDelete, Filter: pawl.BulkFilter{Type: pawl.Texts{"few"}}, Force: true},
		} {
			tasks := n
			if call.Verb == pawl.BulkDelete {
				tasks = n / 100
			}
			began := time.Now()
			task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), call))
			if err := p.Engine.RunBulks(t.Context()); err != nil {
				t.Fatal(err)
			}
			report(call.Verb, tasks, began)
			if r := bulkResult(t, p, task.ID); r.Changed != int64(tasks) || r.Matched != int64(tasks) {
				t.Errorf("%s: %+v, want %d", call.Verb, r, tasks)
			}
		}
	})
}

// An item more would carry the call out a second time.
func TestABulkCallTakesNoItems(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		createMany(t, p, "many", 1)
		task := need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
		_, err := first(p.Engine.AddItems(t.Context(), []pawl.AddItems{{TaskID: task.ID, Items: make([]pawl.NewItem, 1)}}))
		if pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("adding an item: %v", err)
		}
	})
}
