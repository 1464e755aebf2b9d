package engine_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A namespace has queued work of a limited number of types. When some of it is completed,
// a new type is accepted again. Other namespaces are not affected.
func TestTypesOfANamespaceAreBounded(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{MaxTypes: 3})
			ctx, e := t.Context(), p.Engine
			for _, typ := range []string{"a", "b", "c", "a"} {
				need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: typ}))
			}
			var limit *pawl.Error
			_, err := pawl.Create(ctx, e, pawl.NewTask{Type: "d"})
			if !errors.As(err, &limit) || limit.Code != pawl.CodeLimit || limit.RetryAfter <= 0 {
				t.Fatalf("a fourth type: %v", err)
			}
			rs := need[[]pawl.Result[pawl.Task]](t)(
				e.CreateTasks(ctx, []pawl.NewTask{{Type: "a"}, {Type: "a", Items: []pawl.NewItem{{Type: "e"}}}, {Type: "b"}}))
			if rs[0].Err != nil || pawl.CodeOf(rs[1].Err) != pawl.CodeLimit || rs[2].Err != nil {
				t.Errorf("a batch: %v, %v, %v", rs[0].Err, rs[1].Err, rs[2].Err)
			}
			need[pawl.Task](t)(pawl.Create(pawl.As(ctx, pawl.Caller{Namespace: "other"}), e, pawl.NewTask{Type: "d"}))
			need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"c"}}))
			for until := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) { // the database is asked once a second
				if _, err = pawl.Create(ctx, e, pawl.NewTask{Type: "d"}); err == nil {
					return
				}
				if pawl.CodeOf(err) != pawl.CodeLimit || time.Now().After(until) {
					t.Fatalf("with none of c queued: %v", err)
				}
			}
		})
	}
}

// Pairs of type and priority are limited too, whichever call creates them.
func TestPrioritiesOfANamespaceAreBounded(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{MaxTypes: 2})
			ctx, e := t.Context(), p.Engine
			var task pawl.Task
			for i := range 2 * pawl.QueuesPerType { // 2 = MaxTypes
				task = need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a", Priority: i, Items: []pawl.NewItem{{}, {}}}))
			}
			last, more := task.Priority, -1
			add := func(items ...pawl.NewItem) error {
				rs, err := e.AddItems(ctx, []pawl.AddItems{{TaskID: task.ID, Items: items}})
				return cmp.Or(err, rs[0].Err)
			}
			_, created := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Priority: more})
			_, createdItem := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{}, {Priority: &more}}})
			updated := need[[]pawl.Result[pawl.Task]](t)(e.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: task.ID, Priority: &more}}))
			for name, err := range map[string]error{
				"create": created, "create, an item": createdItem, "update": updated[0].Err,
				"add": add(pawl.NewItem{Priority: &more}), "add, another type": add(pawl.NewItem{Type: "b"}),
			} {
				if pawl.CodeOf(err) != pawl.CodeLimit {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := add(pawl.NewItem{}, pawl.NewItem{Priority: &last}); err != nil {
				t.Errorf("of a priority that is queued: %v", err)
			}
		})
	}
}
