package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// runEffects runs a handler of one task until the task is in a state, with a person who decides what
// waits: with "" none does.
func runEffects(t *testing.T, p *pawltest.Pawl, outcome string, want pawl.TaskState,
	handler func(ctx context.Context) (int, error)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	task, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "pays", MaxAttempts: 5})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, p.Engine, worker.Handle("pays", func(ctx context.Context, _ any) (int, error) { return handler(ctx) }))
	}()
	defer func() { stop(); <-ended }()
	for range 1000 {
		if task, err = p.Engine.GetTask(ctx, task.ID); err != nil {
			t.Fatal(err)
		} else if task.State == want {
			return
		}
		list, err := p.Engine.ListEffects(ctx, pawl.EffectFilter{States: []pawl.EffectState{pawl.EffectUnknown, pawl.EffectWaiting}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list.Items {
			switch {
			case outcome == "approve" && f.Approval == "asked":
				_, err = p.Engine.ApproveEffect(ctx, f.ID, pawl.EffectDecision{})
			case outcome != "" && f.State == pawl.EffectUnknown && f.Outcome == "":
				_, err = p.Engine.ResolveEffect(ctx, f.ID, pawl.ResolveEffectCall{Outcome: outcome})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p.Advance(time.Second)
		if _, err := p.Engine.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the task is %s, want %s", task.State, want)
}

var errCut = errors.New("the connection was cut")

func TestAnEffectOfAHandler(t *testing.T) {
	for name, c := range map[string]struct {
		o       pawl.EffectOptions
		outcome string
		errs    []error // of the first sendings
		want    pawl.TaskState
		sent    int32
	}{
		"an answer":               {want: pawl.TaskCompleted, sent: 1},
		"known not to have":       {errs: []error{pawl.NotDone(errCut)}, want: pawl.TaskCompleted, sent: 2},
		"asks, and did not":       {errs: []error{errCut}, outcome: pawl.DidNotHappen, want: pawl.TaskCompleted, sent: 2},
		"asks, and is given up":   {errs: []error{errCut}, outcome: pawl.GiveUp, want: pawl.TaskFailed, sent: 1},
		"is repeatable":           {o: pawl.EffectOptions{Repeatable: true}, errs: []error{errCut, errCut}, want: pawl.TaskCompleted, sent: 3},
		"fails":                   {o: pawl.EffectOptions{OnUnknown: pawl.OnUnknownFail}, errs: []error{errCut}, want: pawl.TaskFailed, sent: 1},
		"is approved":             {o: pawl.EffectOptions{Approve: true}, outcome: "approve", want: pawl.TaskCompleted, sent: 1},
		"a probe that says it is": {o: probing(true, nil), errs: []error{errCut}, want: pawl.TaskCompleted, sent: 1},
		"a probe that says not":   {o: probing(false, nil), errs: []error{errCut}, want: pawl.TaskCompleted, sent: 2},
		"a probe that errs": {o: probing(false, errCut), errs: []error{errCut}, outcome: pawl.DidNotHappen,
			want: pawl.TaskCompleted, sent: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.SQLite)
			var sent atomic.Int32
			runEffects(t, p, c.outcome, c.want, func(ctx context.Context) (int, error) {
				return pawl.Effect(ctx, "charge", c.o, func(context.Context, string) (int, error) {
					if n := int(sent.Add(1)); n <= len(c.errs) {
						return 0, c.errs[n-1]
					}
					return 7, nil
				})
			})
			if n := sent.Load(); n != c.sent {
				t.Errorf("sent %d times, want %d", n, c.sent)
			}
		})
	}
}

func probing(happened bool, err error) pawl.EffectOptions {
	return pawl.EffectOptions{Probe: func(context.Context, string) (pawl.Probed, error) {
		return pawl.Probed{Happened: happened, Answer: 7}, err
	}}
}

// A probe says that an effect did not happen, and its budget was used up meanwhile: the item waits.
func TestABudgetIsExhaustedAfterAProbe(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	limit := func(n int64) {
		b := pawl.NewBudget{Unit: "eur", Limit: n, OnExhausted: pawl.ExhaustedSuspend}
		if _, err := p.Engine.PutBudget(t.Context(), "eur", b); err != nil {
			t.Error(err)
		}
	}
	limit(14)
	held := func(ctx context.Context) *pawl.Reservation {
		r, err := pawl.ReserveKey(ctx, "eur", "held", 8)
		if err != nil {
			t.Error(err)
		}
		return r
	}
	o := pawl.EffectOptions{Budget: "eur", Amount: 5, Probe: func(ctx context.Context, _ string) (pawl.Probed, error) {
		held(ctx)
		limit(10)
		return pawl.Probed{}, nil
	}}
	var errs []error
	runEffects(t, p, "", pawl.TaskCompleted, func(ctx context.Context) (int, error) {
		if len(errs) == 2 {
			if err := held(ctx).Settle(ctx, 0); err != nil {
				t.Error(err)
			}
		}
		n, err := pawl.Effect(ctx, "charge", o, func(context.Context, string) (int, error) {
			if len(errs) == 0 {
				return 0, errCut
			}
			return 7, nil
		})
		errs = append(errs, err)
		return n, err
	})
	if len(errs) != 3 || !errors.Is(errs[1], pawl.ErrSuspended) || errs[2] != nil {
		t.Errorf("%v", errs)
	}
}

// A handler returns while an effect of its attempt is open: the server refuses the result, and the
// attempt fails with what it said.
func TestAResultBesideAnOpenEffectFailsTheAttempt(t *testing.T) {
	eachService(t, func(t *testing.T, p *pawltest.Pawl, c pawl.Claimer) {
		task, _ := createChat(t, p, func(n *pawl.NewTask) { n.MaxAttempts = 1 })
		goOn, ended := make(chan bool), make(chan error, 1)
		runChatWorker(t, c, worker.Options{}, func(ctx context.Context) error {
			sends := make(chan bool)
			go func() {
				_, err := pawl.Effect(ctx, "charge", pawl.EffectOptions{}, func(context.Context, string) (int, error) {
					close(sends)
					<-goOn
					return 7, nil
				})
				ended <- err
			}()
			<-sends
			return nil
		})
		it := waitForState(t, p, task, pawl.ItemFailed)
		if it.Error == nil || !strings.Contains(it.Error.Message, "of this attempt is open") {
			t.Errorf("%+v", it.Error)
		}
		list, err := p.Engine.ListEffects(t.Context(), pawl.EffectFilter{States: []pawl.EffectState{pawl.EffectUnknown}})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%+v, %v", list.Items, err)
		}
		close(goOn)
		receive(t, ended)
	})
}
