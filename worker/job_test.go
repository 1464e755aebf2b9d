package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/worker"
)

type (
	sumArgs   struct{ Of []int }
	sumResult struct{ Total int }
	kind      string
)

var (
	adds = pawl.NewJob[sumArgs, sumResult]("sum")
	tree = pawl.NewJob[[]sumArgs, int]("tree")
)

func addUp(_ context.Context, a sumArgs) (out sumResult, err error) {
	for _, n := range a.Of {
		out.Total += n
	}
	if len(a.Of) == 0 {
		return out, pawl.Permanent(errors.New("there is nothing to add"))
	}
	return out, nil
}

func addTree(ctx context.Context, parts []sumArgs) (total int, err error) {
	ids, err := adds.SpawnAll(ctx, "part", parts)
	if err != nil {
		return 0, err
	}
	sums, err := adds.AwaitAll(ctx, "sums", ids)
	for _, s := range sums {
		total += s.Total
	}
	return total, err
}

// A job creates, spawns and schedules its tasks and reads their results in its own types. Handle
// takes it, a name and a name of another type.
func TestAJobHasItsTypes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		serving, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			done <- engine.Serve(serving, p.Engine, func(ctx context.Context) error {
				return worker.Run(ctx, p.Engine, worker.Handle(adds, addUp), worker.Handle(kind("named"), addUp),
					worker.Handle("plain", addUp), worker.Handle(tree, addTree))
			})
		}()
		one, err := adds.Create(ctx, p.Engine, sumArgs{[]int{1, 2}}, func(n *pawl.NewTask) { n.Title = "three" })
		if err != nil || one.Title != "three" || one.Type != "sum" {
			t.Fatal(one, err)
		}
		if got, err := adds.Await(ctx, p.Engine, one.ID); err != nil || got.Total != 3 {
			t.Error(got, err)
		}
		many, err := adds.CreateMany(ctx, p.Engine, []sumArgs{{[]int{4}}, {nil}})
		if err != nil || len(many) != 2 {
			t.Fatal(many, err)
		}
		if got, err := adds.Await(ctx, p.Engine, many[0].Value.ID); err != nil || got.Total != 4 {
			t.Error(got, err)
		}
		var none *pawl.TaskError
		if _, err := adds.Await(ctx, p.Engine, many[1].Value.ID); !errors.As(err, &none) || none.Task.ID != many[1].Value.ID ||
			err.Error() != "task "+none.Task.ID+" of type sum is failed: there is nothing to add" {
			t.Error(err)
		}
		whole, err := tree.Create(ctx, p.Engine, []sumArgs{{[]int{1, 2}}, {[]int{3}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tree.Await(ctx, p.Engine, whole.ID); err != nil || got != 6 {
			t.Error(got, err)
		}
		for _, typ := range []string{"named", "plain"} {
			task := p.Create(pawl.NewTask{Type: typ, Payload: []byte(`{"Of":[5]}`)})
			if got, err := adds.Await(ctx, p.Engine, task.ID); err != nil || got.Total != 5 {
				t.Error(typ, got, err)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		later, err := adds.Create(ctx, p.Engine, sumArgs{})
		if _, open := adds.Result(ctx, p.Engine, later.ID); err != nil || pawl.CodeOf(open) != pawl.CodeConflict {
			t.Error(err, open)
		}
		daily := pawl.NewSchedule{Name: "daily", Cron: "@daily", Task: pawl.NewTask{Priority: 3}}
		s, err := adds.Schedule(ctx, p.Engine, daily, sumArgs{[]int{1}})
		if err != nil || !s.Created || s.Task.Type != "sum" || s.Task.Priority != 3 || string(s.Task.Payload) != `{"Of":[1]}` {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A result that is left out of what a wait returns, because it is large or that of many items, is read from its task.
func TestAJobReadsResultsThatAreLeftOut(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		texts, lists := pawl.NewJob[int, string]("text"), pawl.NewJob[int, []int]("list")
		two := func(n *pawl.NewTask) {
			n.Payload, n.Items = nil, []pawl.NewItem{{Input: []byte("2")}, {Input: []byte("3")}}
		}
		all := func(ctx context.Context, _ int) (out []int, err error) {
			ids, err := texts.SpawnAll(ctx, "text", []int{pawl.MaxChildResult, 5})
			if err != nil {
				return nil, err
			}
			many, err := lists.Spawn(ctx, "list", 0, two)
			if err != nil {
				return nil, err
			}
			got, err := texts.AwaitAll(ctx, "texts", ids)
			if err != nil {
				return nil, err
			}
			for _, text := range got {
				out = append(out, len(text))
			}
			list, err := lists.AwaitAll(ctx, "lists", []string{many.ID})
			if err != nil {
				return nil, err
			}
			return append(out, list[0]...), nil
		}
		serving, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			done <- worker.Run(serving, p.Engine, worker.Handle("all", all),
				worker.Handle(texts, func(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }),
				worker.Handle("list", func(_ context.Context, n int) (int, error) { return 10 * n, nil }))
		}()
		task := p.Create(pawl.NewTask{Type: "all", Payload: []byte("0")})
		got, err := pawl.NewJob[int, []int]("all").Await(ctx, p.Engine, task.ID)
		if want := []int{pawl.MaxChildResult, 5, 20, 30}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, want %v: %v", got, want, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Serve ends with the error of a worker, and ends its others.
func TestServeEndsTogether(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	broken := errors.New("no disk")
	err := engine.Serve(t.Context(), p.Engine, func(context.Context) error { return broken },
		func(ctx context.Context) error { <-ctx.Done(); return nil })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := engine.Serve(ended, p.Engine); err != nil {
		t.Error(err)
	}
}

// The limits of a queue are set by their type: what is not said is removed.
func TestTypedLimits(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	two := 2
	perKey := &pawl.KeyLimits{Pointer: "/k", Concurrency: &two}
	for _, want := range []pawl.QueueLimits{{Concurrency: &two, PerKey: perKey}, {PerWorker: &two}, {}} {
		q, err := p.Service.SetQueue(t.Context(), "sum", want.Patch())
		if err != nil || string(q.QueueLimits.Patch()) != string(want.Patch()) {
			t.Errorf("%s, want %s: %v", q.QueueLimits.Patch(), want.Patch(), err)
		}
	}
}

// The schema of a Go type serves a registered type.
func TestSchemaOfAType(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	typ := pawl.Type{Name: "sum", PayloadSchema: schema.For[sumArgs](), ResultSchema: schema.For[sumResult]()}
	if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{typ}); err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	if _, err := adds.Create(t.Context(), p.Service, sumArgs{[]int{1}}); err != nil {
		t.Error(err)
	}
	wrong := pawl.NewTask{Type: "sum", Payload: []byte(`{"Of":"x"}`)}
	if _, err := pawl.Create(t.Context(), p.Service, wrong); !errors.Is(err, pawl.ErrInvalid) {
		t.Error(err)
	}
}
