package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// stopAfter runs a worker over items, stops it after d and returns what Run
// returned and how long the stop took.
func stopAfter(t *testing.T, o Options, do HandlerFunc, items int, d time.Duration, look func(f *fake)) (took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var at time.Time
		err = runWorkerOn(t, f, o, []Handler{{"t", do}}, func(t *testing.T, f *fake) {
			f.add("t", slices.Repeat([]string{`1`}, items)...)
			advance(d)
			at = time.Now()
		})
		took = time.Since(at)
		n := len(f.callsOf("claim"))
		if look(f); len(f.callsOf("claim")) != n {
			t.Error("claimed after the stop")
		}
	})
	return took, err
}

func TestAStopLetsHandlersFinish(t *testing.T) {
	took, err := stopAfter(t, Options{Concurrency: 4, NoPrefetch: true}, runFor(20*time.Second), 10, 5*time.Second, func(f *fake) {
		if len(f.callsOf("heartbeat")) == 0 {
			t.Error("no heartbeats while stopping")
		}
		for i, it := range f.items {
			if want := map[bool]pawl.ItemState{true: pawl.ItemCompleted, false: pawl.ItemQueued}[i < 4]; it.state != want {
				t.Errorf("%s is %s, want %s", it.lease.ID, it.state, want)
			}
		}
	})
	if err != nil || took != 15*time.Second {
		t.Errorf("%v after %s", err, took)
	}
}

func TestAStopWaitsForTheCancelGrace(t *testing.T) {
	do := func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		time.Sleep(3 * time.Second)
		return in, nil
	}
	_, err := stopAfter(t, Options{StopGrace: -1, CancelGrace: 5 * time.Second}, do, 1, time.Second, func(f *fake) {
		if f.state("itm_0") != pawl.ItemCompleted {
			t.Errorf("the item is %s", f.state("itm_0"))
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAStopReleasesWhatIsLeftAfterTheGrace(t *testing.T) {
	var cause error
	do := func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil, ctx.Err()
	}
	took, err := stopAfter(t, Options{Concurrency: 1}, do, 1, time.Second, func(f *fake) {
		if f.state("itm_0") != pawl.ItemQueued || len(f.callsOf("release")) != 1 || len(f.callsOf("fail")) != 0 {
			t.Errorf("%s after %d releases", f.state("itm_0"), len(f.callsOf("release")))
		}
	})
	var s *Stopped
	if !errors.Is(err, ErrGivenBack) || !errors.As(err, &s) || s.Released != 1 || s.Lost != 0 || took != pawl.DefaultStopGrace {
		t.Errorf("%v after %s", err, took)
	}
	if cause == nil || errors.Is(cause, pawl.ErrLeaseLost) {
		t.Errorf("cause = %v", cause)
	}
}

func TestWhatFinishesAsItIsCutShortIsHandedIn(t *testing.T) {
	do := func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) { <-ctx.Done(); return in, nil }
	_, err := stopAfter(t, Options{StopGrace: -1}, do, 1, time.Second, func(f *fake) {
		if f.state("itm_0") != pawl.ItemCompleted {
			t.Error(f.state("itm_0"))
		}
	})
	if err != nil {
		t.Error(err)
	}
	do = func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, pawl.Permanent(errors.New("wrong for good"))
	}
	_, err = stopAfter(t, Options{StopGrace: -1}, do, 1, time.Second, func(f *fake) {
		if f.state("itm_0") != pawl.ItemFailed {
			t.Error(f.state("itm_0"))
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAHandlerThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	var finished atomic.Bool
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var at time.Time
		err := runWorkerOn(
			t,
			f,
			Options{StopGrace: 10 * time.Second},
			[]Handler{{"t", func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
				time.Sleep(time.Minute)
				if err := pawl.Progress(ctx, 1, "Late"); err == nil {
					t.Error("a late write was sent")
				}
				finished.Store(true)
				return in, nil
			}}},
			func(t *testing.T, f *fake) {
				f.add("t", `1`)
				advance(time.Second)
				at = time.Now()
			},
		)
		if took := time.Since(at); !errors.Is(err, ErrGivenBack) || took != 11*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		if f.state("itm_0") != pawl.ItemQueued || len(f.callsOf("release")) != 1 {
			t.Errorf("%s", f.state("itm_0"))
		}
		if advance(2 * time.Minute); !finished.Load() || len(f.callsOf("complete")) != 0 {
			t.Errorf("finished %v, %d completes", finished.Load(), len(f.callsOf("complete")))
		}
	})
}

func TestAStopWithoutADatabaseEndsAndSaysWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var at time.Time
		err := runWorkerOn(t, f, Options{StopGrace: 10 * time.Second}, []Handler{{"t", runFor(time.Second)}}, func(t *testing.T, f *fake) {
			f.add("t", `1`)
			advance(500 * time.Millisecond)
			f.set(func() { f.stuck = func(string) bool { return true } })
			at = time.Now()
		})
		var s *Stopped
		if took := time.Since(at); !errors.As(err, &s) || s.Lost != 1 || took > 11*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestAnIdleWorkerStopsAtOnce(t *testing.T) {
	took, err := stopAfter(t, Options{}, runFor(0), 0, 10*time.Second, func(*fake) {})
	if err != nil || took != 0 {
		t.Errorf("%v after %s", err, took)
	}
}

// prefetched returns how many items were prefetched, and by how many claims.

func prefetched(f *fake) (asked int, calls int) {
	for _, c := range f.callsOf("claim") {
		if c.claim.Prefetch {
			asked, calls = max(asked, c.claim.Limit), calls+1
		}
	}
	return asked, calls
}

func TestNoMoreIsTakenAheadThanIsDoneIn50Milliseconds(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		at    int // a time
		most  int
	}{{time.Millisecond, 4, 200}, {10 * time.Millisecond, 4, 20}, {100 * time.Millisecond, 4, 2}, {time.Second, 4, 0}} {
		t.Run(c.takes.String(), func(t *testing.T) {
			_ = runWorker(t, Options{Concurrency: c.at}, runFor(c.takes), func(t *testing.T, f *fake) {
				n := max(c.most, 10) * 10
				f.add("t", slices.Repeat([]string{`1`}, n)...)
				advance(c.takes * time.Duration(n/c.at+10))
				asked, calls := prefetched(f)
				if asked > c.most || (c.most > 0 && asked < c.most/2) || len(f.callsOf("claim")) > 30+n/max(c.most/2, 1) {
					t.Errorf("asked for up to %d ahead in %d of %d claims", asked, calls, len(f.callsOf("claim")))
				}
				for _, it := range f.items {
					if it.state != pawl.ItemCompleted || it.lease.Attempt != 1 {
						t.Fatalf("%s is %s in attempt %d", it.lease.ID, it.state, it.lease.Attempt)
					}
				}
			})
		})
	}
}

// Handlers that finish before the next claim is answered always leave slots free. Items are
// prefetched for them all the same.
func TestFastHandlersAreFedByFewClaims(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Millisecond} {
		t.Run(lag.String(), func(t *testing.T) {
			_ = runWorker(t, Options{Concurrency: 2}, runFor(100*time.Microsecond), func(t *testing.T, f *fake) {
				f.set(func() {
					f.down = func(verb string) error {
						if verb == "claim" {
							time.Sleep(lag)
						}
						return nil
					}
				})
				f.add("t", slices.Repeat([]string{`1`}, 4000)...)
				advance(300 * time.Millisecond)
				if n := len(f.callsOf("claim")); n > 40 {
					t.Errorf("%d claims for 4000 items", n)
				}
				if f.state("itm_3999") != pawl.ItemCompleted {
					t.Errorf("the last is %s", f.state("itm_3999"))
				}
			})
		})
	}
}

func TestWhatWaitedTooLongIsGivenBack(t *testing.T) {
	var slow atomic.Bool
	_ = runWorker(t, Options{Concurrency: 1}, func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		if slow.Load() {
			return runFor(time.Minute)(ctx, in)
		}
		return runFor(time.Millisecond)(ctx, in)
	}, func(t *testing.T, f *fake) {
		f.add("t", slices.Repeat([]string{`1`}, 200)...)
		advance(100 * time.Millisecond)
		slow.Store(true)
		advance(950 * time.Millisecond)
		if n := len(f.callsOf("release")); n != 0 {
			t.Errorf("gave back after less than a second")
		}
		advance(100 * time.Millisecond)
		held := 0
		for _, it := range f.items {
			if it.state.Leased() {
				held++
			}
		}
		if held != 1 || len(f.callsOf("release")) > 2 {
			t.Errorf("holds %d after %d releases", held, len(f.callsOf("release")))
		}
	})
}

func TestAStopGivesBackWhatWasTakenAheadUncounted(t *testing.T) {
	took, err := stopAfter(
		t,
		Options{Concurrency: 1},
		runFor(time.Millisecond),
		1000,
		100*time.Millisecond+100*time.Microsecond,
		func(f *fake) {
			back := 0
			for _, it := range f.items {
				if it.state.Leased() {
					t.Errorf("%s is %s", it.lease.ID, it.state)
				}
				if it.leftBy == pawl.ReasonReleased {
					back++
				}
			}
			if back == 0 {
				t.Error("nothing was taken ahead")
			}
		},
	)
	if err != nil || took > time.Millisecond {
		t.Errorf("%v after %s", err, took)
	}
}
