package worker_test

import (
	"context"
	"errors"
	"io"
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

// busyFor answers each report of an effect that was sent with a time to wait for.
type busyFor string

func (b busyFor) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, ":done") {
		return http.DefaultTransport.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {string(b)}}, Body: http.NoBody}, nil
}

func TestAReportDoesNotWaitForAsLongAsAServerLikes(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)
	c := client.NewWith(srv.URL, "", client.Options{Tries: 1, HTTP: &http.Client{Transport: busyFor("121")}})
	task, _ := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
	runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
		_, err := pawl.Effect(ctx, "charge", pawl.EffectOptions{}, func(context.Context, string) (int, error) { return 7, nil })
		return err
	})
	waitForState(t, p, task, pawl.ItemFailed)
}

// lateTry keeps the first report of an effect that failed back until it arrives.
type lateTry struct{ kept *http.Request }

func (l *lateTry) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, ":failed") || l.kept != nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	l.kept = r.Clone(context.WithoutCancel(r.Context()))
	body, err := r.GetBody()
	l.kept.Body = body
	return nil, errors.Join(err, errCut)
}

func (l *lateTry) arrive() error {
	res, err := http.DefaultTransport.RoundTrip(l.kept)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return err
}

// A report of a probe names no sending. A try of it that arrives when the effect is sent again is not about that.
func TestALateTryOfAProbesReportDecidesNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(srv.Close)
		late := &lateTry{}
		c := client.NewWith(srv.URL, "", client.Options{Tries: 1, HTTP: &http.Client{Transport: late}})
		task, _ := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			o := probing(false, nil)
			_, err := pawl.Effect(ctx, "charge", o, func(context.Context, string) (int, error) { return 0, errCut })
			if !errors.Is(err, errCut) {
				return err
			}
			_, err = pawl.Effect(ctx, "charge", o, func(ctx context.Context, _ string) (int, error) {
				if err := late.arrive(); err != nil {
					return 0, err
				}
				open, err := p.Engine.ListEffects(ctx, pawl.EffectFilter{States: []pawl.EffectState{pawl.EffectOpen}})
				return len(open.Items), err
			})
			return err
		})
		waitForState(t, p, task, pawl.ItemCompleted)
		list, err := p.Engine.ListEffects(t.Context(), pawl.EffectFilter{})
		if err != nil || len(list.Items) != 1 || string(list.Items[0].Answer) != "1" || list.Items[0].Sendings != 2 {
			t.Errorf("%+v, %v", list.Items, err)
		}
	})
}
