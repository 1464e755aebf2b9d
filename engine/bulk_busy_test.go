package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// deadlockLog keeps the log lines about deadlocks.
type deadlockLog struct {
	mu   sync.Mutex
	said []string
}

func (l *deadlockLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(b, []byte("40P01")) {
		l.said = append(l.said, string(b))
	}
	return len(b), nil
}

// A bulk delete goes on beside workers of the same tasks. All tasks are gone in the end, and
// their calls lock rows in one order: no transaction ends as a deadlock.
func TestBulkDeleteWhileWorkersWork(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var deadlocks deadlockLog
		options := engine.Options{Log: slog.New(slog.NewTextHandler(&deadlocks, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		soonDeadlocked(t, p)
		e, other := p.Another(options), p.Another(options)
		for range times(1, 4) {
			busyTasks(t, e)
			ctx, stop := context.WithCancel(t.Context())
			var workers sync.WaitGroup
			for n := range 4 {
				workers.Go(func() { workOnAll(ctx, t, []pawl.Service{e, other}[n%2], fmt.Sprint("w", n)) })
			}
			for _, force := range []bool{false, false, true} { // tasks at work are left until they are deleted by force
				call := need[pawl.Task](t)(e.Bulk(t.Context(), pawl.BulkCall{Verb: pawl.BulkDelete, Force: force, Reason: "tidy",
					Filter: pawl.BulkFilter{Type: pawl.Texts{"busy"}}}))
				var runs sync.WaitGroup
				for _, e := range []*engine.Engine{e, other} {
					runs.Go(func() {
						if err := e.RunBulks(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				runs.Wait()
				if r := bulkResult(t, p, call.ID); r.Failed != 0 {
					t.Errorf("%+v", r)
				}
			}
			stop()
			workers.Wait()
			left := need[pawl.List[pawl.Task]](t)(e.ListTasks(t.Context(), pawl.TaskFilter{Types: pawl.Texts{"busy"}}))
			if len(left.Items) != 0 {
				t.Errorf("%d tasks are left, such as %+v", len(left.Items), left.Items[0])
			}
		}
		deadlocks.mu.Lock()
		defer deadlocks.mu.Unlock()
		if len(deadlocks.said) > 0 {
			t.Errorf("%q", deadlocks.said)
		}
	})
}

// busyTasks creates tasks of several forms.
func busyTasks(t *testing.T, svc pawl.Service) {
	t.Helper()
	var calls []pawl.NewTask
	for range times(20, 60) {
		calls = append(calls, pawl.NewTask{Type: "busy"}, pawl.NewTask{Type: "busy", Items: make([]pawl.NewItem, 3)},
			pawl.NewTask{Type: "busy", Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}})
	}
	made := need[[]pawl.Result[pawl.Task]](t)(svc.CreateTasks(t.Context(), calls))
	calls = calls[:0]
	for _, r := range made[:20] {
		calls = append(calls, pawl.NewTask{Type: "busy", ParentID: r.Value.ID})
	}
	for _, r := range need[[]pawl.Result[pawl.Task]](t)(svc.CreateTasks(t.Context(), calls)) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// workOnAll claims work and completes or fails each lease, until the context ends. A lease
// may be lost and a task be gone at any time.
func workOnAll(ctx context.Context, t *testing.T, svc pawl.Service, worker string) {
	retry := true
	check := func(err error) {
		switch pawl.CodeOf(err) {
		case "", pawl.CodeLeaseLost, pawl.CodeConflict, pawl.CodeNotFound:
		default:
			if ctx.Err() == nil {
				t.Error(err)
			}
		}
	}
	for ctx.Err() == nil {
		held, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Limit: 20, Types: pawl.Texts{"busy"}})
		check(err)
		if len(held) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		var done []pawl.CompleteCall
		var fails []pawl.FailCall
		for n, l := range held {
			if n%3 == 0 {
				fails = append(fails, pawl.FailCall{Fence: l.Fence(), Error: pawl.Failure{Code: "again", Message: "again"}, Retryable: &retry})
			} else {
				done = append(done, pawl.CompleteCall{Fence: l.Fence()})
			}
		}
		if len(done) > 0 {
			rs, err := svc.Complete(ctx, done)
			check(err)
			for _, r := range rs {
				check(r.Err)
			}
		}
		if len(fails) > 0 {
			rs, err := svc.Fail(ctx, fails)
			check(err)
			for _, r := range rs {
				check(r.Err)
			}
		}
	}
}
