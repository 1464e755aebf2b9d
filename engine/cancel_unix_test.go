//go:build unix

package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// cancelOnce cancels a task under a key that is the task's id. The answer is the task's
// state.
func cancelOnce(ctx context.Context, e *engine.Engine, task string) (answer string, replayed bool, err error) {
	a, replayed, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: task, RequestHash: "h"},
		func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
			t, err := pawl.Cancel(ctx, svc, task, "enough")
			return &pawl.Answer{Code: 200, Type: "text/plain", Body: []byte(t.State)}, err
		})
	return string(a.Body), replayed, err
}

// A process that cancels a large task under a key is killed between two batches.
// The call with the same key cancels the rest, once, and has one answer.
func TestAKeyedCancelIsKilledBetweenItsBatches(t *testing.T) {
	const size = 3000
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			cut, task := false, pawl.Task{}
			for try := 0; try < 10 && !cut; try++ { // the cancel may have ended before the kill
				task = need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, size)}))
				v := start(t, p, "canceller", "PAWL_TEST_TASK="+task.ID)
				for now := task; now.ItemsOpen == size; {
					now = need[pawl.Task](t)(p.Service.GetTask(t.Context(), task.ID))
				}
				_ = v.Process.Kill()
				_ = v.Wait()
				now := need[pawl.Task](t)(p.Service.GetTask(t.Context(), task.ID))
				cut = now.ItemsOpen > 0 && !now.State.Ended()
			}
			if !cut {
				t.Fatal("no cancel was killed between its batches")
			}
			answer, replayed, err := cancelOnce(t.Context(), p.Engine, task.ID)
			for errors.Is(err, pawl.ErrKeyInFlight) { // the server has not yet noticed that the process is dead
				time.Sleep(10 * time.Millisecond)
				answer, replayed, err = cancelOnce(t.Context(), p.Engine, task.ID)
			}
			if err != nil || replayed || answer != "cancelled" {
				t.Errorf("%q, replayed %v, %v", answer, replayed, err)
			}
			if _, _, n := span(t, p.Service, task.ID, "cancelled"); n != size+1 {
				t.Errorf("%d events cancelled, want one for each item and one for the task", n)
			}
			if answer, replayed, err = cancelOnce(t.Context(), p.Engine, task.ID); err != nil || !replayed || answer != "cancelled" {
				t.Errorf("again: %q, replayed %v, %v", answer, replayed, err)
			}
		})
	}
}

// A key that has its answer, or that belongs to another request, cancels nothing ahead.
func TestAKeyThatIsNotFreeCancelsNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 600)}))
		for _, hash := range []string{"h", "other"} {
			key := pawl.KeyBegin{Scope: "test", Key: "of " + hash, RequestHash: hash}
			if _, _, err := p.Engine.Idempotent(t.Context(), key, func(context.Context, pawl.Service) (*pawl.Answer, error) {
				return &pawl.Answer{Code: 204}, nil
			}); err != nil {
				t.Fatal(err)
			}
			key.RequestHash = "h"
			_, replayed, err := p.Engine.Idempotent(t.Context(), key, func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
				_, err := pawl.Cancel(ctx, svc, task.ID, "")
				return &pawl.Answer{Code: 200}, err
			})
			if replayed != (hash == "h") || hash == "other" && !errors.Is(err, pawl.ErrKeyReused) {
				t.Errorf("%s: replayed %v, %v", hash, replayed, err)
			}
		}
		if now := need[pawl.Task](t)(p.Service.GetTask(t.Context(), task.ID)); now.ItemsOpen != 600 {
			t.Errorf("%d items are open", now.ItemsOpen)
		}
	})
}

// cancelUnder cancels a task under a key.
func cancelUnder(ctx context.Context, e *engine.Engine, key, taskID string) error {
	_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: key, RequestHash: "h"},
		func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
			_, err := pawl.Cancel(ctx, svc, taskID, "")
			return &pawl.Answer{Code: 200}, err
		})
	return err
}

// A key that is taken while a cancel waits for the task cancels nothing ahead.
func TestAKeyThatIsTakenMeanwhileCancelsNothing(t *testing.T) {
	p, svc := onPostgres(t)
	task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 600)}))
	g := newGate(t, p)
	g.close("SELECT FROM tasks WHERE id = id($1) FOR UPDATE", task.ID)
	refused := started(func() error { return cancelUnder(context.Background(), p.Engine, "k", task.ID) })
	g.waiting(1)
	other := pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "other"}
	if _, _, err := svc[1].(pawl.Idempotent).Idempotent(t.Context(), other, func(context.Context, pawl.Service) (*pawl.Answer, error) {
		return &pawl.Answer{Code: 204}, nil
	}); err != nil {
		t.Fatal(err)
	}
	g.open()
	if err := <-refused; !errors.Is(err, pawl.ErrKeyReused) {
		t.Errorf("under the key of another request: %v", err)
	}
	if now := need[pawl.Task](t)(p.Service.GetTask(t.Context(), task.ID)); now.ItemsOpen != 600 {
		t.Errorf("%d items are open", now.ItemsOpen)
	}
}
