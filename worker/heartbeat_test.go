package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

func beatsAt(f *fake) []time.Duration {
	var at []time.Duration
	for _, c := range f.callsOf("heartbeat") {
		at = append(at, c.at)
	}
	return at
}

func TestHeartbeatsFallWhenTheyShould(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		lease int
		runs  time.Duration
		want  []time.Duration
	}{
		{"a short handler has none", 300, 900 * ms, nil},
		{"the first after a second", 300, 30 * time.Second, []time.Duration{1000 * ms}},
		{"then every tenth of the lease", 300, 62 * time.Second, []time.Duration{1000 * ms, 31000 * ms, 61000 * ms}},
		{"the first after a tenth where that is sooner", 5, 1900 * ms, []time.Duration{500 * ms, 1000 * ms, 1500 * ms}},
		{"a lease of a second", 1, 350 * ms, []time.Duration{100 * ms, 200 * ms, 300 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = runWorker(t, Options{LeaseSeconds: c.lease}, runFor(c.runs), func(t *testing.T, f *fake) {
				f.add("t", `1`)
				advance(c.runs + time.Second)
				if got := beatsAt(f); !slices.Equal(got, c.want) {
					t.Errorf("heartbeats at %v, want %v", got, c.want)
				}
				if f.state("itm_0") != pawl.ItemCompleted {
					t.Error("not completed")
				}
			})
		})
	}
}

func TestHeartbeatsThatFallTogetherAreOneCall(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 20}, runFor(100*time.Second), func(t *testing.T, f *fake) {
		for range 10 { // started over nine tenths of a second
			f.add("t", `1`)
			advance(100 * time.Millisecond)
		}
		advance(94 * time.Second)
		calls := f.callsOf("heartbeat")
		// Each its own first one, on time; from then on all at once.
		if len(calls) != 13 {
			t.Errorf("%d calls", len(calls))
		}
		for i, c := range calls {
			if want := map[bool]int{true: 1, false: 10}[i < 10]; len(c.ids) != want {
				t.Errorf("call %d at %s has %d items, want %d", i, c.at, len(c.ids), want)
			}
		}
	})
}

// runUntilLost runs one item whose handler ends with its context. It returns when and why the
// context ended, and the error that OnLeaseLost got.
func runUntilLost(t *testing.T, o Options, change func(f *fake)) (f *fake, after time.Duration, cause, reported error) {
	var mu sync.Mutex
	o.OnLeaseLost = func(_ pawl.Lease, err error) { mu.Lock(); reported = err; mu.Unlock() }
	err := runWorker(t, o, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		start := time.Now()
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		after, cause = time.Since(start), context.Cause(ctx)
		return json.RawMessage(`"too late"`), nil
	}, func(t *testing.T, fk *fake) {
		f = fk
		f.set(func() { change(f) })
		f.add("t", `1`)
		advance(10 * time.Minute)
	})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := len(f.callsOf("complete")) + len(f.callsOf("fail")) + len(f.callsOf("release")); n != 0 {
		t.Errorf("%d hand-ins for a lost lease", n)
	}
	return f, after, cause, reported
}

func failVerbs(verbs ...string) func(string) error {
	return func(verb string) error {
		if slices.Contains(verbs, verb) {
			return &pawl.Error{Code: pawl.CodeUnavailable}
		}
		return nil
	}
}

func TestThreeFailuresInARowLoseTheLease(t *testing.T) {
	_, after, cause, reported := runUntilLost(t, Options{}, func(f *fake) { f.down = failVerbs("heartbeat") })
	if after != 61*time.Second || !errors.Is(cause, pawl.ErrLeaseLost) || !errors.Is(cause, pawl.ErrUnavailable) ||
		!errors.Is(reported, pawl.ErrLeaseLost) {
		t.Errorf("after %s: %v; reported %v", after, cause, reported)
	}
}

func TestAHungHeartbeatIsAFailedOne(t *testing.T) {
	_, after, cause, _ := runUntilLost(t, Options{LeaseSeconds: 50}, func(f *fake) {
		f.stuck = func(v string) bool { return v == "heartbeat" }
	})
	// At 1 s, 6 s and 11 s, each hung for 5 s.
	if after != 16*time.Second || !errors.Is(cause, pawl.ErrLeaseLost) {
		t.Errorf("after %s: %v", after, cause)
	}
}

func TestOneAnswerInTimeForgivesTheFailuresBefore(t *testing.T) {
	n := 0
	f, after, _, _ := runUntilLost(t, Options{}, func(f *fake) {
		f.down = func(verb string) error {
			if verb != "heartbeat" {
				return nil
			}
			if n++; n%3 != 0 || n > 9 {
				return pawl.ErrUnavailable
			}
			return nil
		}
	})
	if after != (1+30*11)*time.Second || len(f.callsOf("heartbeat")) != 12 {
		t.Errorf("after %s, %d heartbeats", after, len(f.callsOf("heartbeat")))
	}
}

func TestKeepTryingLastsToTheLeasesEnd(t *testing.T) {
	_, after, cause, reported := runUntilLost(t, Options{KeepTrying: true}, func(f *fake) { f.down = failVerbs("heartbeat") })
	if after != 300*time.Second || !errors.Is(cause, pawl.ErrLeaseExpired) || reported == nil {
		t.Errorf("after %s: %v", after, cause)
	}
}

func TestALostLeaseIsLostAtOnce(t *testing.T) {
	for name, answer := range map[string]error{
		"taken":   &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonTaken, Holder: "w2"},
		"expired": &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonExpired},
		"gone":    pawl.NotFound("item", "itm_0"),
		"ended":   &pawl.Error{Code: pawl.CodeConflict, State: "completed", Allowed: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, after, cause, reported := runUntilLost(t, Options{}, func(f *fake) {
				f.refuse = func(string, string) error { return answer }
			})
			if after != time.Second || !errors.Is(cause, pawl.ErrLeaseLost) || !errors.Is(cause, answer) || !errors.Is(reported, pawl.ErrLeaseLost) {
				t.Errorf("after %s: %v; reported %v", after, cause, reported)
			}
		})
	}
}

func TestACancelledItemEndsItsHandler(t *testing.T) {
	_, after, cause, reported := runUntilLost(t, Options{}, func(f *fake) {
		time.AfterFunc(5*time.Second, func() { f.set(func() { f.items[0].state = pawl.ItemCancelled }) })
	})
	if after != 31*time.Second || !errors.Is(cause, pawl.ErrCancelled) || reported != nil {
		t.Errorf("after %s: %v; reported %v", after, cause, reported)
	}
}

func TestARefusedWriteOfTheHandlerEndsItToo(t *testing.T) {
	for name, c := range map[string]struct{ answer, cause error }{
		"lost":      {pawl.ErrLeaseTaken, pawl.ErrLeaseTaken},
		"cancelled": {&pawl.Error{Code: pawl.CodeConflict, State: "cancelled", Allowed: []string{}}, pawl.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			var cause error
			_ = runWorker(t, Options{}, func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				if err := pawl.Progress(ctx, 10, "Reading"); !errors.Is(err, c.answer) {
					t.Errorf("Progress: %v", err)
				}
				cause = context.Cause(ctx)
				return nil, nil
			}, func(t *testing.T, f *fake) {
				f.set(func() {
					f.refuse = func(string, string) error { return c.answer }
				})
				f.add("t", `1`)
				advance(time.Second)
				if len(f.callsOf("complete")) != 0 {
					t.Error("handed in")
				}
			})
			if !errors.Is(cause, c.cause) {
				t.Errorf("cause = %v", cause)
			}
		})
	}
}

func TestAPanickingCallbackDoesNotEndTheWorker(t *testing.T) {
	err := runWorker(t, Options{OnLeaseLost: func(pawl.Lease, error) { panic("x") }}, runFor(time.Hour), func(t *testing.T, f *fake) {
		f.set(func() { f.down = failVerbs("heartbeat") })
		f.add("t", `1`)
		advance(2 * time.Minute)
		f.set(func() { f.down = nil })
	})
	if err != nil {
		t.Error(err)
	}
}

func TestKeepAlive(t *testing.T) {
	run := func(name string, fn func(t *testing.T, f *fake, lease pawl.Lease)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.add("t", `1`)
				leases, err := f.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", Limit: 1, LeaseSeconds: 300})
				if err != nil || len(leases) != 1 {
					t.Fatal(leases, err)
				}
				fn(t, f, leases[0])
			})
		})
	}
	run("beats until it is stopped", func(t *testing.T, f *fake, l pawl.Lease) {
		k := KeepAlive(t.Context(), f, l, KeepAliveOptions{})
		advance(62 * time.Second)
		if got, want := beatsAt(f), []time.Duration{time.Second, 31 * time.Second, 61 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("at %v, want %v", got, want)
		}
		if !k.Running() || k.Context().Err() != nil {
			t.Error("not running")
		}
		if !k.Stop(true, 0) || k.Running() || k.Context().Err() == nil || !k.Stop(true, 0) {
			t.Error("not stopped")
		}
		advance(time.Hour)
		if n := len(f.callsOf("heartbeat")); n != 3 {
			t.Errorf("%d heartbeats", n)
		}
	})
	run("with an interval and a length of its own", func(t *testing.T, f *fake, l pawl.Lease) {
		k := KeepAlive(t.Context(), f, l, KeepAliveOptions{Interval: 200 * time.Millisecond, LeaseSeconds: 900})
		advance(time.Second + time.Millisecond)
		k.Stop(true, 0)
		if n := len(f.callsOf("heartbeat")); n != 5 {
			t.Errorf("%d heartbeats", n)
		}
		if left := time.Until(f.items[0].lease.LeaseExpiresAt); left < 899*time.Second {
			t.Errorf("lease ends in %s", left)
		}
	})
	run("ends with a lost lease", func(t *testing.T, f *fake, l pawl.Lease) {
		f.set(func() { f.down = failVerbs("heartbeat") })
		var reported []error
		k := KeepAlive(
			t.Context(),
			f,
			l,
			KeepAliveOptions{Interval: time.Second, MaxFailures: 4, OnLeaseLost: func(err error) { reported = append(reported, err) }},
		)
		<-k.Context().Done()
		if at := time.Since(f.start); at != 4*time.Second || !errors.Is(context.Cause(k.Context()), pawl.ErrLeaseLost) {
			t.Errorf("after %s: %v", at, context.Cause(k.Context()))
		}
		if !k.Stop(true, 0) || len(reported) != 1 {
			t.Errorf("reported %v", reported)
		}
	})
	run("ends with a cancelled item", func(t *testing.T, f *fake, l pawl.Lease) {
		f.set(func() { f.items[0].state = pawl.ItemCancelled })
		k := KeepAlive(t.Context(), f, l, KeepAliveOptions{})
		<-k.Context().Done()
		if k.Stop(true, 0); !errors.Is(context.Cause(k.Context()), pawl.ErrCancelled) {
			t.Error(context.Cause(k.Context()))
		}
	})
	run("does not wait longer than asked", func(t *testing.T, f *fake, l pawl.Lease) {
		f.set(func() { f.stuck = func(string) bool { return true } })
		k := KeepAlive(t.Context(), f, l, KeepAliveOptions{})
		advance(2 * time.Second)
		start := time.Now()
		if k.Stop(false, 0) || k.Stop(true, 0) || time.Since(start) != 5*time.Second {
			t.Errorf("after %s", time.Since(start))
		}
		if !k.Stop(true, time.Minute) {
			t.Error("the call never ended")
		}
	})
	run("ends with its context", func(t *testing.T, f *fake, l pawl.Lease) {
		ctx, cancel := context.WithCancel(t.Context())
		lost := false
		k := KeepAlive(ctx, f, l, KeepAliveOptions{OnLeaseLost: func(error) { lost = true }})
		cancel()
		if synctest.Wait(); k.Running() || lost {
			t.Errorf("running %v, lost %v", k.Running(), lost)
		}
	})
}
