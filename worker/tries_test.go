package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/worker"
)

// lostAnswers loses the answers to the first calls that save a checkpoint.
type lostAnswers struct{ left atomic.Int32 }

func (l *lostAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, "checkpoint") && l.left.Add(-1) >= 0 {
		_ = res.Body.Close()
		return nil, errors.New("the connection was cut")
	}
	return res, err
}

// A checkpoint is saved once, also when the client has given the call up and the session makes it again.
func TestASaveWhoseAnswersAreLostIsOne(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(srv.Close)
		lost := &lostAnswers{}
		lost.left.Store(3)
		c := client.NewWith(srv.URL, "", client.Options{Tries: 1, HTTP: &http.Client{Transport: lost}})
		task, _ := createChat(t, p)
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			_, err := pawl.Step(ctx, "fetch", func(context.Context) (int, error) { return 7, nil })
			return err
		})
		waitForState(t, p, task, pawl.ItemCompleted)
		list, err := p.Engine.ListCheckpoints(t.Context(), pawl.CheckpointFilter{TaskID: task.ID})
		if err != nil || len(list.Items) != 1 || lost.left.Load() >= 0 {
			t.Errorf("%d checkpoints, %d answers left to lose, %v", len(list.Items), lost.left.Load(), err)
		}
	})
}
