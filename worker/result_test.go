package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

func TestAResultSurvivesALostConnection(t *testing.T) {
	var lost atomic.Int32
	err := runWorker(
		t,
		Options{LeaseSeconds: 60, OnLeaseLost: func(pawl.Lease, error) { lost.Add(1) }},
		runFor(10*time.Millisecond),
		func(t *testing.T, f *fake) {
			f.set(func() { f.down = failVerbs("complete", "fail") })
			f.add("t", `1`)
			advance(40 * time.Second)
			f.set(func() { f.down = nil })
			advance(10 * time.Second)
			if f.state("itm_0") != pawl.ItemCompleted || lost.Load() != 0 {
				t.Errorf("%s, lost %d", f.state("itm_0"), lost.Load())
			}
			if n := len(f.callsOf("complete")); n < 8 || n > 25 {
				t.Errorf("%d tries in 40 s", n)
			}
		},
	)
	if err != nil {
		t.Error(err)
	}
}

func TestAResultIsGivenUpWithItsLease(t *testing.T) {
	var reported atomic.Value
	_ = runWorker(
		t,
		Options{LeaseSeconds: 60, OnLeaseLost: func(_ pawl.Lease, err error) { reported.Store(err) }},
		runFor(10*time.Millisecond),
		func(t *testing.T, f *fake) {
			f.set(func() { f.down = failVerbs("complete") })
			f.add("t", `1`)
			advance(50 * time.Second)
			if err := reported.Load(); err != nil {
				t.Errorf("too soon: %v", err)
			}
			advance(20 * time.Second)
			if err, _ := reported.Load().(error); !errors.Is(err, pawl.ErrLeaseExpired) {
				t.Errorf("reported %v", err)
			}
			n := len(f.callsOf("complete"))
			if advance(time.Minute); len(f.callsOf("complete")) != n {
				t.Error("tried on")
			}
		},
	)
}

// A call whose answer was lost may have succeeded: the second try is then refused, and
// the lease does not count as lost.
func TestASecondTryFindsTheFirstCarriedOut(t *testing.T) {
	var snoozed atomic.Bool
	for verb, do := range map[string]HandlerFunc{
		"complete": runFor(0),
		"fail":     func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("x") },
		"release": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if snoozed.Swap(true) {
				return nil, nil
			}
			return nil, pawl.Snooze(time.Hour)
		},
	} {
		t.Run(verb, func(t *testing.T) {
			var lost atomic.Int32
			synctest.Test(t, func(t *testing.T) {
				f := &loseAnswers{fake: newFake()}
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				f.add("t", `1`)
				if err := RunWith(ctx, f, Options{Logger: discardLogger(), OnLeaseLost: func(pawl.Lease, error) { lost.Add(1) }},
					Handler{"t", do}); err != nil {
					t.Error(err)
				}
				if n := len(f.callsOf(verb)); n != 2 || lost.Load() != 0 {
					t.Errorf("%d tries, lost %d", n, lost.Load())
				}
			})
		})
	}
}

// loseAnswers executes the first report of a result and loses the answer.
type loseAnswers struct {
	*fake
	answerLost bool
}

func (f *loseAnswers) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := f.fake.Complete(ctx, calls)
	return f.lose(rs, err)
}

func (f *loseAnswers) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := f.fake.Fail(ctx, calls)
	return f.lose(rs, err)
}

func (f *loseAnswers) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := f.fake.Release(ctx, calls)
	return f.lose(rs, err)
}

func (f *loseAnswers) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := f.fake.Suspend(ctx, calls)
	return f.lose(rs, err)
}

func (f *loseAnswers) lose(rs []pawl.Result[pawl.Moved], err error) ([]pawl.Result[pawl.Moved], error) {
	if !f.answerLost {
		f.answerLost = true
		return nil, &pawl.Error{Code: pawl.CodeUnavailable}
	}
	return rs, err
}

func TestWhatIsReadyAtOnceIsOneCall(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 50}, func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		out, _ := runFor(time.Second)(ctx, in)
		if string(in) == "0" {
			return nil, errors.New("zero")
		}
		return out, nil
	}, func(t *testing.T, f *fake) {
		gate := make(chan struct{})
		f.set(func() {
			f.down = func(verb string) error { // the first call takes its time, the rest gathers
				if verb == "complete" || verb == "fail" {
					<-gate
				}
				return nil
			}
		})
		for i := range 50 {
			f.add("t", strconv.Itoa(i%10))
		}
		advance(2 * time.Second)
		close(gate)
		synctest.Wait()
		n := len(f.callsOf("complete")) + len(f.callsOf("fail"))
		if n > 4 {
			t.Errorf("%d calls for 50 results", n)
		}
		for _, it := range f.items {
			if it.state != pawl.ItemCompleted && it.state != pawl.ItemFailed {
				t.Errorf("%s is %s", it.lease.ID, it.state)
			}
		}
	})
}

func TestARefusedResultFailsItsItemAndNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		answer, second error // to complete, and to submit
		says           string
	}{
		"invalid":   {pawl.Invalid("/result", "holds NUL"), nil, "/result: does not fit"},
		"too large": {pawl.ErrTooLarge, nil, pawl.CodeTooLarge.Info().Means},
		"submitted": {toSubmit, &pawl.Error{Code: pawl.CodeInvalid, Op: "submit",
			Fields: []pawl.Field{{Pointer: "/result/title", Message: "is required"}, {Pointer: "/result/n", Message: "is missing"}}},
			"/result: does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			_ = runWorker(
				t,
				Options{Concurrency: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))},
				runFor(time.Second),
				func(t *testing.T, f *fake) {
					f.set(func() {
						f.refuse = func(verb, id string) error {
							switch {
							case verb == "complete" && id == "itm_0":
								return c.answer
							case verb == "submit":
								return c.second
							}
							return nil
						}
					})
					f.add("t", `1`, `2`)
					advance(2 * time.Second)
					if got := f.items[0].failure; got == nil || *got.Retryable || got.Error.Code != CodeInvalidResult ||
						got.Error.Message != "the result was refused: "+c.says {
						t.Errorf("%+v", got)
					}
					if said := log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, c.says) ||
						!strings.Contains(said, "item_id=itm_0") {
						t.Errorf("the log says %s", said)
					}
					if f.state("itm_1") != pawl.ItemCompleted {
						t.Error("the other was not completed")
					}
				},
			)
		})
	}
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// toSubmit is the answer to complete when results must be accepted.
var toSubmit = &pawl.Error{Code: pawl.CodeConflict, State: "in_progress", Allowed: []string{"submit"}}

func TestAResultThatIsToBeAcceptedIsSubmitted(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 2}, runFor(time.Second), func(t *testing.T, f *fake) {
		f.set(func() {
			f.refuse = func(verb, _ string) error {
				if verb == "complete" {
					return toSubmit
				}
				return nil
			}
		})
		f.add("t", `1`, `2`)
		advance(2 * time.Second)
		for _, it := range f.items {
			if it.state != pawl.ItemSubmitted {
				t.Errorf("%s is %s", it.lease.ID, it.state)
			}
		}
	})
}

func TestABatchRefusedAsAWholeIsSentOneByOne(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 3}, runFor(time.Second), func(t *testing.T, f *fake) {
		f.set(func() {
			f.down = func(verb string) error {
				if calls := f.callsOf(verb); verb == "complete" && len(calls[len(calls)-1].ids) > 1 {
					return pawl.ErrTooLarge
				}
				return nil
			}
		})
		f.add("t", `1`, `2`, `3`)
		advance(2 * time.Second)
		for _, it := range f.items {
			if it.state != pawl.ItemCompleted {
				t.Errorf("%s is %s", it.lease.ID, it.state)
			}
		}
	})
}

func TestOneItemThatCannotBeHandedInHoldsUpNoOther(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 2}, runFor(10*time.Millisecond), func(t *testing.T, f *fake) {
		f.set(func() {
			f.refuse = func(verb, id string) error {
				if verb == "complete" && id == "itm_0" {
					return pawl.ErrInternal
				}
				return nil
			}
		})
		f.add("t", `0`)
		advance(time.Minute)
		f.add("t", `1`)
		advance(50 * time.Millisecond)
		if f.state("itm_1") != pawl.ItemCompleted {
			t.Error("the other waits")
		}
		f.set(func() { f.refuse = nil })
	})
}

func TestStepsAndSleepInAHandler(t *testing.T) {
	var runs, resumes int
	var f *fake
	_ = runWorker(t, Options{}, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		n, err := pawl.Step(ctx, "count", func(context.Context) (int, error) { runs++; return runs, nil })
		if err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Second)
		if err := pawl.Sleep(ctx, "nap", time.Hour); err != nil {
			return nil, err
		}
		l, _ := pawl.ItemFrom(ctx)
		return json.Marshal(map[string]int{"n": n, "attempt": l.Attempt})
	}, func(t *testing.T, fk *fake) {
		f = fk
		f.add("t", `1`)
		advance(30 * time.Minute)
		f.set(func() {
			if it := f.items[0]; it.state != pawl.ItemWaiting || it.until.Sub(f.start) != time.Hour+20*time.Second {
				t.Errorf("%s until %s", it.state, it.until.Sub(f.start))
			}
		})
		advance(31 * time.Minute)
		resumes = len(f.callsOf("resume"))
	})
	if it := f.items[0]; it.result != `{"attempt":2,"n":1}` || runs != 1 || resumes != 1 {
		t.Errorf("%s %s, ran %d times, %d resumes", it.state, it.result, runs, resumes)
	}
	if n := len(f.callsOf("complete")) + len(f.callsOf("fail")) + len(f.callsOf("release")); n != 1 {
		t.Errorf("%d hand-ins", n)
	}
}

func TestAHandlerThatSwallowsItsSleepHandsNothingIn(t *testing.T) {
	_ = runWorker(
		t,
		Options{OnLeaseLost: func(pawl.Lease, error) { t.Error("lease lost") }},
		func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			_ = pawl.Sleep(ctx, "nap", time.Hour)
			time.Sleep(2 * time.Minute) // and heartbeats have stopped
			return json.RawMessage(`1`), nil
		},
		func(t *testing.T, f *fake) {
			f.add("t", `1`)
			advance(10 * time.Minute)
			n := len(f.callsOf("complete")) + len(f.callsOf("fail")) + len(f.callsOf("heartbeat"))
			if n != 0 || f.state("itm_0") != pawl.ItemWaiting {
				t.Errorf("%d calls after the suspend; %s", n, f.state("itm_0"))
			}
		},
	)
}

func TestAHandlersWritesWaitForTheDatabase(t *testing.T) {
	_ = runWorker(t, Options{}, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		if err := pawl.Progress(ctx, 1, "Reading"); err != nil {
			return nil, err
		}
		_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		return json.RawMessage(`1`), err
	}, func(t *testing.T, f *fake) {
		f.set(func() { f.down = failVerbs("checkpoint", "progress") })
		f.add("t", `1`)
		advance(40 * time.Second)
		f.set(func() { f.down = nil })
		advance(10 * time.Second)
		if f.state("itm_0") != pawl.ItemCompleted {
			t.Error(f.state("itm_0"))
		}
	})
}

func TestASuspendWhoseAnswerWasLostIsASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &loseAnswers{fake: newFake()}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		f.add("t", `1`)
		h := Handle("t", func(ctx context.Context, _ any) (any, error) { return nil, pawl.Sleep(ctx, "nap", time.Hour) })
		err := RunWith(ctx, f, Options{Logger: discardLogger()}, h)
		if err != nil || f.state("itm_0") != pawl.ItemWaiting || len(f.callsOf("fail")) != 0 {
			t.Errorf("%v, %s, %d fails", err, f.state("itm_0"), len(f.callsOf("fail")))
		}
	})
}
