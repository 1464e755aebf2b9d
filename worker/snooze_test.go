package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// A handler that snoozes gives its item back for a while, and nothing is counted.
func TestASnoozedItemIsScheduled(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		id := p.Create(pawl.NewTask{Type: "poll", MaxAttempts: 1})
		startWorker(t, p, worker.Options{}, worker.Handler{Type: "poll", Do: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, fmt.Errorf("not ready: %w", pawl.Snooze(89500*time.Millisecond))
		}})
		waitForState(t, p, id, pawl.ItemScheduled)
		items, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{Types: []string{"poll"}})
		if err != nil || len(items.Items) != 1 {
			t.Fatal(items, err)
		}
		if it := items.Items[0]; it.Failures != 0 || it.Error != nil || it.RunAt == nil || !it.RunAt.Equal(p.Now().Add(90*time.Second)) {
			t.Errorf("%+v, run_at %v at %v", it, it.RunAt, p.Now())
		}
	})
}
