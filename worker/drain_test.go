package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// A worker that drains runs all claimable items, including those that its own work makes
// claimable, and then ends. Scheduled items stay.
func TestDrain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		later := p.Now().Add(time.Hour)
		for _, task := range []pawl.NewTask{
			{Type: "a", Items: []pawl.NewItem{{Key: "1", Input: []byte(`1`)}, {Key: "2", Input: []byte(`2`), After: []string{"1"}},
				{Key: "3", Input: []byte(`3`), After: []string{"2"}}}},
			{Type: "a", Payload: []byte(`4`)}, {Type: "a", Payload: []byte(`5`), RunAt: &later}, {Type: "b", Payload: []byte(`6`)},
		} {
			if _, err := pawl.Create(ctx, p.Engine, task); err != nil {
				t.Fatal(err)
			}
		}
		o := worker.Options{Concurrency: 2, Drain: true, Logger: slog.New(slog.DiscardHandler)}
		if err := worker.RunWith(ctx, p.Engine, o, worker.Handle("a",
			func(_ context.Context, n int) (int, error) { return n, nil })); err != nil ||
			ctx.Err() != nil {
			t.Fatalf("%v, %v", err, ctx.Err())
		}
		st, err := p.Engine.Stats(ctx)
		if err != nil || st.ItemsByState[pawl.ItemCompleted] != 4 || st.ItemsByState[pawl.ItemScheduled] != 1 ||
			st.ItemsByState[pawl.ItemQueued] != 1 {
			t.Errorf("%v, %v", st.ItemsByState, err)
		}
	})
}

func TestRunOneAndAwait(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task, err := pawl.Create(
			ctx,
			p.Engine,
			pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`), MaxAttempts: 1}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan pawl.Task, 1)
		go func() {
			got, err := pawl.Await(ctx, p.Engine, task.ID)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
		h := worker.Handle("a", func(_ context.Context, n int) (int, error) {
			if n == 2 {
				return 0, pawl.Permanent(errors.New("no"))
			}
			return n, nil
		})
		if it := pawltest.RunOne(t, p.Engine, h); it.State != pawl.ItemCompleted {
			t.Errorf("the first: %s", it.State)
		}
		select {
		case got := <-ended:
			t.Errorf("awaited only until it was %s", got.State)
		default:
		}
		if it := pawltest.RunOne(t, p.Engine, h); it.State != pawl.ItemFailed || it.Error.Message != "no" {
			t.Errorf("the second: %s, %+v", it.State, it.Error)
		}
		if got := <-ended; got.State != pawl.TaskFailed {
			t.Errorf("ended as %s", got.State)
		}

		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		open, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pawl.Await(brief, p.Engine, open.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a task that goes on: %v", err)
		}
		if _, err := pawl.Await(ctx, p.Engine, "tsk_none"); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("of none: %v", err)
		}
	})
}
