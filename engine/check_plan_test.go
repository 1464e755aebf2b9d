package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A check reads groups of rows once, also where the planner expects few rows because the
// statistics are of an almost empty database. It read them again for each task: 3,000 tasks
// took a quarter of an hour.
func TestACheckWithOldStatisticsReadsOnce(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenNew(t, pawltest.Postgres, engine.Options{})
	need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "first"}))
	for _, table := range []string{"tasks", "task_events", "ready", "task_counters", "finished_items"} {
		ok(t, p.Exec("ALTER TABLE pawl."+table+" SET (autovacuum_enabled = false)"))
		ok(t, p.Exec("ANALYZE pawl."+table))
	}
	createMany(t, p, "many", 6000)
	need[pawl.Task](t)(p.Engine.Bulk(t.Context(), bulkOf("many", pawl.BulkCancel)))
	ok(t, p.Engine.RunBulks(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if found, err := p.Engine.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}
