package worker_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

func TestAForkDoesNotRunItsSavedStepsAgain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var mu sync.Mutex
		var ran []string
		of := p.Create(pawl.NewTask{Type: "import", Payload: json.RawMessage(`1`)})
		startWorker(t, p, worker.Options{}, worker.Handler{Type: "import",
			Do: func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
				for _, name := range []string{"fetch", "charge", "send"} {
					if _, err := pawl.Step(ctx, name, func(context.Context) (int, error) {
						mu.Lock()
						defer mu.Unlock()
						ran = append(ran, name)
						return 1, nil
					}); err != nil {
						return nil, err
					}
				}
				return in, nil
			}})
		waitForState(t, p, of, pawl.ItemCompleted)
		forks, err := p.Engine.ForkTasks(t.Context(), []pawl.TaskFork{{TaskID: of.ID, Checkpoint: 2}})
		if err != nil || forks[0].Err != nil {
			t.Fatal(err, forks)
		}
		waitForState(t, p, forks[0].Value, pawl.ItemCompleted)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"fetch", "charge", "send", "send"}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}

// A fork does not have the messages of its source: a named step of one writes it anew.
func TestAForkWritesItsMessagesAnew(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var ran atomic.Int32
		of := p.Create(pawl.NewTask{Type: "chat"})
		startWorker(t, p, worker.Options{}, worker.Handler{Type: "chat",
			Do: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				m, err := pawl.StartMessage(ctx, pawl.Reply{})
				if err != nil {
					return nil, err
				}
				_, err = pawl.MessageStep(ctx, m, "draft", func(context.Context) (int, error) {
					ran.Add(1)
					return 1, m.Text("words")
				})
				return nil, err
			}})
		waitForState(t, p, of, pawl.ItemCompleted)
		forks, err := p.Engine.ForkTasks(t.Context(), []pawl.TaskFork{{TaskID: of.ID, Checkpoint: 1}})
		if err != nil || forks[0].Err != nil {
			t.Fatal(err, forks)
		}
		waitForState(t, p, forks[0].Value, pawl.ItemCompleted)
		if ran.Load() != 2 {
			t.Errorf("the step ran %d times", ran.Load())
		}
	})
}
