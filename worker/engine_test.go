package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// startWorker runs a worker over a test's engine; stop ends it and returns the result of Run.
// The database's clock does not move by itself; heartbeats use the real clock.
func startWorker(t *testing.T, p *pawltest.Pawl, o worker.Options, handlers ...worker.Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	go func() { done <- worker.RunWith(ctx, p.Engine, o, handlers...) }()
	stop = func() error {
		if ctx.Err() != nil {
			return nil
		}
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// A handler does not have to know whether its results are to be accepted.
func TestResultsAreSubmittedWhereTheTypeSaysSo(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "essay", Approval: pawl.Approval{Mode: pawl.ApprovalManual},
			MaxAttempts: 1, ResultSchema: json.RawMessage(`{"type":"string"}`)}}); err != nil {
			t.Fatal(err)
		}
		good := p.Create(pawl.NewTask{Type: "essay", Payload: json.RawMessage(`"on pawls"`)})
		bad := p.Create(pawl.NewTask{Type: "essay", Payload: json.RawMessage(`7`)})
		startWorker(
			t,
			p,
			worker.Options{},
			worker.Handler{Type: "essay", Do: func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }},
		)
		waitForState(t, p, good, pawl.ItemSubmitted)
		if it := waitForState(t, p, bad, pawl.ItemFailed); it.Error == nil || it.Error.Code != worker.CodeInvalidResult ||
			it.Error.Message != "the result was refused: /result: does not fit" || !strings.Contains(string(it.Error.Detail), "is a number") {
			t.Errorf("failed with %+v", it.Error)
		}
	})
}

// only returns the item of a task that has one.
func only(t *testing.T, p *pawltest.Pawl, task pawl.Task) pawl.Item {
	t.Helper()
	l, err := p.Engine.ListItems(context.Background(), pawl.ItemFilter{TaskID: task.ID})
	if err != nil || len(l.Items) != 1 {
		t.Fatalf("%d items, %v", len(l.Items), err)
	}
	return l.Items[0]
}

// waitForState waits until the task's item is in a state, and returns it.
func waitForState(t *testing.T, p *pawltest.Pawl, task pawl.Task, state pawl.ItemState) pawl.Item {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		it := only(t, p, task)
		if it.State == state {
			return it
		}
		if time.Now().After(end) {
			t.Fatalf("the item is %s, not %s: %+v", it.State, state, it)
		}
	}
}

func sweep(t *testing.T, p *pawltest.Pawl) pawl.SweepStats {
	t.Helper()
	s, err := p.Engine.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receive waits for a signal of a handler.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("the handler did not get there")
	}
	return v
}

func TestATaskOfManyItemsIsDone(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := pawl.NewTask{Type: "double"}
		const n = 500
		for i := range n {
			in, _ := json.Marshal(i)
			task.Items = append(task.Items, pawl.NewItem{Input: in})
		}
		made := p.Create(task)
		var ran atomic.Int32
		stop := startWorker(
			t,
			p,
			worker.Options{ID: "w1", Name: "doubler", Version: "v1", Concurrency: 4},
			worker.Handle("double", func(_ context.Context, n int) (int, error) {
				ran.Add(1)
				return 2 * n, nil
			}),
		)
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			got, err := p.Engine.GetTask(t.Context(), made.ID)
			if err != nil || time.Now().After(end) {
				t.Fatalf("%v; %d open", err, got.ItemsOpen)
			}
			if got.State == pawl.TaskCompleted {
				break
			}
		}
		workers, err := p.Engine.ListWorkers(t.Context(), pawl.WorkerFilter{})
		if err != nil || len(workers.Items) != 1 || workers.Items[0].Name != "doubler" || workers.Items[0].WorkerID != "w1" {
			t.Errorf("registry: %+v, %v", workers.Items, err)
		}
		if err := stop(); err != nil || ran.Load() != n {
			t.Errorf("%v; ran %d", err, ran.Load())
		}
		result, err := p.Engine.TaskResult(t.Context(), made.ID)
		var sums []int
		if err != nil || json.Unmarshal(result.Payload, &sums) != nil || len(sums) != n || sums[n-1] != 2*(n-1) {
			t.Errorf("%v; %d results", err, len(sums))
		}
	})
}

func TestAFailedAttemptIsRetriedAfterItsBackOff(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		startWorker(t, p, worker.Options{}, worker.Handle("t", func(ctx context.Context, _ int) (string, error) {
			switch l, err := pawl.ItemFrom(ctx); {
			case err != nil:
				return "", err
			case l.Attempt == 1:
				return "", errors.New("boom")
			case l.Attempt == 2:
				panic("oh no")
			}
			return "third time lucky", nil
		}))
		it := waitForState(t, p, task, pawl.ItemScheduled)
		if it.Failures != 1 || it.Error.Message != "boom" || it.RunAt.Sub(p.Now()) < 48*time.Second || it.RunAt.Sub(p.Now()) > 72*time.Second {
			t.Errorf("%+v", it)
		}
		p.Advance(80 * time.Second)
		sweep(t, p)
		for it.Failures != 2 {
			it = waitForState(t, p, task, pawl.ItemScheduled)
		}
		if it.Error.Code != worker.CodePanic || !strings.Contains(string(it.Error.Detail), "engine_test.go") {
			t.Errorf("%+v", it.Error)
		}
		p.Advance(time.Hour)
		sweep(t, p)
		if it := waitForState(t, p, task, pawl.ItemCompleted); it.Attempt != 3 || string(it.Result) != `"third time lucky"` {
			t.Errorf("%+v", it)
		}
	})
}

func TestWhatCannotSucceedFailsForGood(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		startWorker(t, p, worker.Options{}, worker.Handle("long", func(context.Context, any) (string, error) {
			return strings.Repeat("x", pawl.MaxPayloadBytes+1), nil
		}), worker.Handle("number", func(_ context.Context, n int) (int, error) { return n, nil }))
		for typ, code := range map[string]string{"long": worker.CodeInvalidResult, "number": worker.CodeInvalidInput} {
			task := p.Create(pawl.NewTask{Type: typ, Payload: json.RawMessage(`"text"`)})
			if it := waitForState(t, p, task, pawl.ItemFailed); it.Error.Code != code || it.Failures != 1 {
				t.Errorf("%s: %+v", typ, it.Error)
			}
		}
	})
}

func TestStepsOfALostAttemptAreReplayed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		var ran atomic.Int32
		stepped, lost, reported := make(chan bool, 1), make(chan error, 1), make(chan error, 1)
		work := func(ctx context.Context, _ int) (int, error) {
			n, err := pawl.Step(ctx, "one", func(context.Context) (int, error) { return int(ran.Add(1)), nil }, "arg")
			if err != nil {
				return 0, err
			}
			if l, _ := pawl.ItemFrom(ctx); l.Attempt == 1 {
				stepped <- true
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return -1, nil // must not be accepted
			}
			return n, nil
		}
		a := startWorker(
			t,
			p,
			worker.Options{ID: "a", LeaseSeconds: 5, Concurrency: 1, OnLeaseLost: func(_ pawl.Lease, err error) { reported <- err }},
			worker.Handle("t", work),
		)
		receive(t, stepped)
		expireLease(t, p)
		startWorker(t, p, worker.Options{ID: "b"}, worker.Handle("t", work))
		it := waitForState(t, p, task, pawl.ItemCompleted)
		if string(it.Result) != `1` || it.Attempt != 2 || ran.Load() != 1 { // by either worker: a is free again
			t.Errorf("ran %d times; %+v", ran.Load(), it)
		}
		if err := receive(t, lost); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("cause: %v", err)
		}
		if err := receive(t, reported); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("reported: %v", err)
		}
		if err := a(); err != nil {
			t.Errorf("a: %v", err)
		}
	})
}

func TestAHandlerSleepsWithoutALease(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		startWorker(t, p, worker.Options{}, worker.Handle("t", func(ctx context.Context, _ int) (string, error) {
			if err := pawl.Progress(ctx, 30, "Waiting for the morning"); err != nil {
				return "", err
			}
			if err := pawl.Sleep(ctx, "night", 8*time.Hour); err != nil {
				return "", err
			}
			return "awake", nil
		}))
		it := waitForState(t, p, task, pawl.ItemWaiting)
		if left := it.RunAt.Sub(p.Now()); left < 8*time.Hour || left > 8*time.Hour+10*time.Second || it.WorkerID != "" {
			t.Errorf("wakes in %s; %+v", left, it)
		}
		p.Advance(8*time.Hour + time.Minute)
		sweep(t, p)
		if it := waitForState(t, p, task, pawl.ItemCompleted); it.Attempt != 2 || it.Failures != 0 || string(it.Result) != `"awake"` {
			t.Errorf("%+v", it)
		}
	})
}

func TestAHandlerWaitsForASignalWithoutALease(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		startWorker(t, p, worker.Options{}, worker.Handle("t", func(ctx context.Context, _ int) (string, error) {
			by, err := pawl.WaitFor[string](ctx, "approval", "approved", "42")
			if err != nil {
				return "", err
			}
			again, err := pawl.WaitFor[string](ctx, "second look", "approved", "42") // what was taken is not taken again
			if err != nil {
				return "", err
			}
			_, err = pawl.WaitForAtMost[string](ctx, "veto", "vetoed", "42", time.Hour)
			if !errors.Is(err, pawl.ErrTimeout) {
				return "", err
			}
			return by + ", " + again, nil
		}))
		if it := waitForState(t, p, task, pawl.ItemWaiting); it.WorkerID != "" || it.RunAt != nil {
			t.Errorf("%+v", it)
		}
		if s, err := pawl.Signal(t.Context(), p.Engine, "approved", "42", json.RawMessage(`"ana"`)); err != nil || s.Woken != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		for end := time.Now().Add(time.Minute); waitForState(t, p, task, pawl.ItemWaiting).Attempt < 2; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the second look did not begin")
			}
		}
		if s, err := pawl.Signal(t.Context(), p.Engine, "approved", "42", json.RawMessage(`"bob"`)); err != nil || s.Woken != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		// the veto's turn
		for end := time.Now().Add(time.Minute); waitForState(t, p, task, pawl.ItemWaiting).RunAt == nil; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the signal did not wake it")
			}
		}
		p.Advance(2 * time.Hour)
		sweep(t, p)
		if it := waitForState(t, p, task, pawl.ItemCompleted); it.Attempt != 4 || it.Failures != 0 || string(it.Result) != `"ana, bob"` {
			t.Errorf("%+v", it)
		}
	})
}

func TestACancelReachesTheHandler(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		running, cause := make(chan bool, 1), make(chan error, 1)
		stop := startWorker(t, p, worker.Options{LeaseSeconds: 5}, worker.Handle("t", func(ctx context.Context, _ int) (int, error) {
			running <- true
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return 1, nil
		}))
		receive(t, running)
		if _, err := pawl.Cancel(t.Context(), p.Engine, task.ID, "changed my mind"); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, cause); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("cause: %v", err)
		}
		if err := stop(); err != nil || only(t, p, task).State != pawl.ItemCancelled {
			t.Errorf("%v, %s", err, only(t, p, task).State)
		}
	})
}

func TestAStopGivesUnfinishedWorkBackUncounted(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		running := make(chan bool, 1)
		stop := startWorker(
			t,
			p,
			worker.Options{StopGrace: 50 * time.Millisecond},
			worker.Handle("t", func(ctx context.Context, _ int) (int, error) {
				running <- true
				<-ctx.Done()
				return 0, ctx.Err()
			}),
		)
		receive(t, running)
		err := stop()
		var s *worker.Stopped
		if !errors.Is(err, worker.ErrGivenBack) || !errors.As(err, &s) || s.Released != 1 {
			t.Errorf("err = %v", err)
		}
		if it := only(t, p, task); it.State != pawl.ItemQueued || it.Failures != 0 || it.Attempt != 1 {
			t.Errorf("%+v", it)
		}
	})
}

// A worker that names no lease has that of its type, and one that names a lease has it.
func TestAWorkerHasTheLeaseOfTheType(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Engine.PutTypes(t.Context(), []pawl.Type{{Name: "t", LeaseSeconds: 40}}); err != nil {
			t.Fatal(err)
		}
		for own, want := range map[int]int{0: 40, 70: 70} {
			p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
			got := make(chan int, 1)
			stop := startWorker(t, p, worker.Options{LeaseSeconds: own}, worker.Handle("t", func(ctx context.Context, _ int) (int, error) {
				l, _ := pawl.ItemFrom(ctx)
				got <- l.LeaseSeconds
				return 0, nil
			}))
			if seconds := receive(t, got); seconds != want {
				t.Errorf("LeaseSeconds %d: the lease has %d s, want %d", own, seconds, want)
			}
			stop()
		}
	})
}

func TestALeaseClaimedByHandIsKeptAlive(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`1`)})
		leases, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "by-hand", LeaseSeconds: 300})
		if err != nil || len(leases) != 1 {
			t.Fatal(leases, err)
		}
		reported := make(chan error, 1)
		k := worker.KeepAlive(
			t.Context(),
			p.Engine,
			leases[0],
			worker.KeepAliveOptions{Interval: 20 * time.Millisecond, OnLeaseLost: func(err error) { reported <- err }},
		)
		for range 3 { // each longer than half the lease
			p.Advance(200 * time.Second)
			for end := time.Now().Add(time.Minute); !only(t, p, task).LeaseExpiresAt.Equal(p.Now().Add(300 * time.Second)); time.Sleep(
				5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no heartbeat")
				}
			}
		}
		if it := only(t, p, task); it.State != pawl.ItemInProgress || !k.Running() {
			t.Errorf("%s, running %v", it.State, k.Running())
		}
		p.Advance(301 * time.Second)
		if err := receive(t, reported); !errors.Is(err, pawl.ErrLeaseExpired) {
			t.Errorf("reported: %v", err)
		}
		if <-k.Context().Done(); !errors.Is(context.Cause(k.Context()), pawl.ErrLeaseLost) || !k.Stop(true, 0) {
			t.Errorf("cause: %v", context.Cause(k.Context()))
		}
	})
}
