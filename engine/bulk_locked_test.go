package engine_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// A task that another transaction locks is changed when it is free. Until then a bulk call changes all others, and does not
// hold them while it waits.
func TestABulkCallGoesOnBesideALockedTask(t *testing.T) {
	p, _ := onPostgres(t)
	ctx := t.Context()
	done := map[string]string{
		pawl.BulkCancel: "SELECT count(*) FROM pawl.task_rows WHERE type = 'cancel' AND state = 'cancelled'",
		pawl.BulkUpdate: "SELECT count(*) FROM pawl.tasks WHERE type = 'update' AND title = 'new'",
		pawl.BulkDelete: "SELECT 300 - count(*) FROM pawl.tasks WHERE type = 'delete'",
	}
	for verb, query := range done {
		t.Run(verb, func(t *testing.T) {
			o := typeFixture{t, p}
			createMany(t, p, verb, 300)
			g := newGate(t, p)
			g.close("SELECT FROM tasks WHERE id = (SELECT id FROM tasks WHERE type = $1 ORDER BY id LIMIT 1 OFFSET 30) FOR UPDATE", verb)
			call := pawl.BulkCall{Verb: verb, Filter: pawl.BulkFilter{Type: pawl.Texts{verb}}, Force: verb == pawl.BulkDelete}
			if verb == pawl.BulkUpdate {
				title := "new"
				call.Update = &pawl.BulkPatch{Title: &title}
			}
			task := need[pawl.Task](t)(p.Engine.Bulk(ctx, call))
			ended := make(chan error, 1)
			go func() { ended <- p.Engine.RunBulks(ctx) }()
			until(t, "the others to be changed", func() bool { return o.count(query) == 299 })
			g.open()
			ok(t, <-ended)
			if r := bulkResult(t, p, task.ID); r.Changed != 300 || r.Matched != 300 || r.Failed != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A call whose last task stays locked gives its place to others for a while.
func TestABulkCallOfALockedTaskMakesRoom(t *testing.T) {
	p, _ := onPostgres(t)
	ctx := t.Context()
	createMany(t, p, "t", 3)
	g := newGate(t, p)
	g.close("SELECT FROM tasks WHERE id = (SELECT id FROM tasks WHERE type = 't' ORDER BY id LIMIT 1) FOR UPDATE")
	task := need[pawl.Task](t)(p.Engine.Bulk(ctx, pawl.BulkCall{Verb: pawl.BulkCancel, Filter: pawl.BulkFilter{Type: pawl.Texts{"t"}}}))
	soon(t, "make room", p.Engine.RunBulks)
	it := p.Items(task.ID)[0]
	if it.State != pawl.ItemScheduled {
		t.Fatalf("the call is %s", it.State)
	}
	g.open()
	p.Advance(10 * time.Second)
	need[pawl.SweepStats](t)(p.Service.Sweep(ctx))
	ok(t, p.Engine.RunBulks(ctx))
	if r := bulkResult(t, p, task.ID); r.Changed != 3 || r.Matched != 3 || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
}
