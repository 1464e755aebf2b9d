package children_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A delete by force deletes at most 1,000 children in the call, of all generations. The others, and the
// task, follow in the background.
func TestADeleteByForceOfManyChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		parent := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		children := func(of string, n int) (ids []string) {
			calls := make([]pawl.NewTask, n)
			for i := range calls {
				calls[i] = pawl.NewTask{Type: "a", ParentID: of}
			}
			for _, r := range need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(ctx, calls)) {
				ok(t, r.Err)
				ids = append(ids, r.Value.ID)
			}
			return ids
		}
		const many, more = 900, 250
		children(children(parent.ID, many)[0], more)
		need[string](t)(first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: parent.ID, Force: true, Reason: "why"}})))
		o := fixture{t, p}
		if n := o.count("SELECT COUNT(*) FROM pawl.tasks"); n < many+more+1-1000 {
			t.Errorf("%d tasks are left by the call", n)
		}
		if got := need[pawl.Task](t)(p.Engine.GetTask(ctx, parent.ID)); got.State != pawl.TaskCancelled {
			t.Errorf("the parent is %s", got.State)
		}
		for range 2 {
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
		if n := o.count("SELECT COUNT(*) FROM pawl.tasks"); n != 0 {
			t.Errorf("%d tasks are left by the background", n)
		}
		deleted := need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(ctx, pawl.EventFilter{TaskID: parent.ID, Event: "deleted"}))
		if len(deleted.Items) != 1 || deleted.Items[0].Message != "why" {
			t.Errorf("the parent's end: %+v", deleted.Items)
		}
	})
}

// Children of one item are cancelled and deleted together: the statements of a delete, and of a
// cancel, do not grow with each of them.
func TestManyChildrenEndTogether(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			var statements atomic.Int64
			p := pawltest.OpenWith(t, which, engine.Options{Statement: func(string) { statements.Add(1) }})
			ctx := t.Context()
			const many = 300
			for verb, end := range map[string]func(id string) error{
				"cancel": func(id string) error {
					_, err := pawl.Cancel(ctx, p.Engine, id, "")
					return err
				},
				"delete": func(id string) error {
					_, err := first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: id, Force: true}}))
					return err
				},
			} {
				parent := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "p"}))
				calls := make([]pawl.NewTask, many)
				for i := range calls {
					calls[i] = pawl.NewTask{Type: verb, ParentID: parent.ID}
				}
				need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(ctx, calls))
				leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{verb}, Limit: 10}, 10)
				statements.Store(0)
				ok(t, end(parent.ID))
				if n := statements.Load(); n > many {
					t.Errorf("%s of %d children took %d statements", verb, many, n)
				}
				o := fixture{t, p}
				if n := o.count("SELECT COUNT(*) FROM pawl.ready r JOIN pawl.queues q ON q.id = r.queue_id WHERE q.type = '" + verb + "'"); n > 0 {
					t.Errorf("%s: %d children are queued", verb, n)
				}
			}
			o := fixture{t, p}
			if n := o.count("SELECT COUNT(*) FROM pawl.tasks"); n != many+1 {
				t.Errorf("%d tasks are left", n)
			}
		})
	}
}

// A pass that began during the call, before the call had left the task to the background, deletes the
// rest of the children. The task follows them all the same.
func TestADeleteByForceIsNotForgottenByAPassBesideIt(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		parent := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		calls := make([]pawl.NewTask, 1010)
		for i := range calls {
			calls[i] = pawl.NewTask{Type: "a", ParentID: parent.ID}
		}
		for len(calls) > 0 {
			n := min(len(calls), 1000)
			need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(ctx, calls[:n]))
			calls = calls[n:]
		}
		ok(t, p.Exec("UPDATE pawl.parents SET todo = 2")) // the call's first step
		var called atomic.Bool
		beside := p.Another(engine.Options{Statement: func(query string) {
			if strings.Contains(query, "l.doomed = 1") && called.CompareAndSwap(false, true) { // the pass has listed the parent
				need[string](t)(first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: parent.ID, Force: true, Reason: "why"}})))
			}
		}})
		need[pawl.SweepStats](t)(beside.Sweep(ctx))
		if !called.Load() {
			t.Error("the pass deleted no children")
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if n := (fixture{t, p}).count("SELECT COUNT(*) FROM pawl.tasks"); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}
