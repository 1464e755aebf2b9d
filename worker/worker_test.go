package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

func TestResultsAreHandedInAsJSON(t *testing.T) {
	type in struct{ A, B int }
	type out struct {
		Sum int `json:"sum"`
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		add := Handle("add", func(_ context.Context, v in) (out, error) { return out{v.A + v.B}, nil })
		err := runWorkerOn(t, f, Options{}, []Handler{add}, func(t *testing.T, f *fake) {
			f.add("add", `{"A":1,"B":2}`)
			synctest.Wait()
		})
		if got := f.items[0]; err != nil || got.state != pawl.ItemCompleted || got.result != `{"sum":3}` {
			t.Errorf("%v, %s, %s", err, got.state, got.result)
		}
	})
}

// failures are the ways in which a handler does not return a value.
func TestHowAHandlerFails(t *testing.T) {
	type typedNil struct{ error }
	for _, c := range []struct {
		name, input string
		do          func(context.Context, int) (any, error)
		code, says  string
		retryable   bool
		after       int64 // ms; −1 = by policy
		detail      string
	}{
		{"a plain error", `1`, func(context.Context, int) (any, error) { return nil, errors.New("boom") }, "", "boom", true, -1, ""},
		{"a permanent one", `1`, func(context.Context, int) (any, error) { return nil, pawl.Permanent(errors.New("no")) }, "", "no", false, -1,
			""},
		{"one with a delay", `1`, func(context.Context, int) (any, error) {
			return nil, pawl.RetryAfter(5*time.Second, errors.New("later"))
		}, "", "later", true, 5000, ""},
		{"a delay that lies behind", `1`, func(context.Context, int) (any, error) { return nil, pawl.RetryAfter(-1, errors.New("now")) }, "",
			"now", true, 0, ""},
		{"292 years", `1`, func(context.Context, int) (any, error) { return nil, pawl.RetryAfter(1<<63-1, errors.New("x")) }, "", "x", true,
			pawl.MaxDelay.Milliseconds(), ""},
		{"an error of ours", `1`, func(context.Context, int) (any, error) { return nil, fmt.Errorf("read: %w", pawl.ErrNotFound) }, "not_found",
			"read:", true, -1, ""},
		{"its own failure", `1`, func(context.Context, int) (any, error) {
			return nil, Failed(pawl.Failure{Code: "exit_3", Message: "m", Detail: json.RawMessage(`{"n":1}`)})
		}, "exit_3", "m", true, -1, `{"n":1}`},
		{"a panic", `1`, func(context.Context, int) (any, error) { panic("oh no") }, CodePanic, "panic: oh no", true, -1, "worker_test.go"},
		{"an exit", `1`, func(context.Context, int) (any, error) { runtime.Goexit(); return nil, nil }, CodePanic, "Goexit", true, -1, ""},
		{"an error that cannot speak", `1`, func(context.Context, int) (any, error) { var e *typedNil; return nil, e }, CodePanic,
			"nil pointer", true, -1, "stack"},
		{"an empty error", `1`, func(context.Context, int) (any, error) { return nil, errors.New("") }, "", "*errors.errorString", true, -1, ""},
		{"text that cannot be stored", `1`, func(context.Context, int) (any, error) {
			return nil, errors.New("a\x00b\xff" + strings.Repeat("é", 1<<20))
		}, "", "a\uFFFDb\uFFFDé", true, -1, ""},
		{"an input that does not fit", `"one"`, func(context.Context, int) (any, error) { return nil, nil }, CodeInvalidInput, "does not fit",
			false, -1, ""},
		{"a result that is no JSON", `1`, func(context.Context, int) (any, error) { return func() {}, nil }, CodeInvalidResult, "JSON", false,
			-1, ""},
		{"suspended without being so", `1`, func(context.Context, int) (any, error) { return nil, pawl.ErrSuspended }, "", "suspended", true,
			-1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				err := runWorkerOn(t, f, Options{}, []Handler{Handle("t", c.do)}, func(t *testing.T, f *fake) {
					f.add("t", c.input)
					synctest.Wait()
				})
				got := f.items[0].failure
				if err != nil || got == nil {
					t.Fatalf("%v; handed in %+v", err, f.items[0])
				}
				ms := int64(-1)
				if got.RetryAfterMS != nil {
					ms = *got.RetryAfterMS
				}
				if got.Error.Code != c.code || !strings.Contains(got.Error.Message, c.says) || *got.Retryable != c.retryable || ms != c.after ||
					!strings.Contains(string(got.Error.Detail), c.detail) {
					t.Errorf(
						"code %q, message %.80q, retryable %v, after %d ms, detail %s",
						got.Error.Code,
						got.Error.Message,
						*got.Retryable,
						ms,
						got.Error.Detail,
					)
				}
				if n := len(got.Error.Message) + len(got.Error.Detail); n > pawl.MaxErrorBytes {
					t.Errorf("%d bytes", n)
				}
			})
		})
	}
}

func TestNoMoreHandlersRunThanAllowed(t *testing.T) {
	var now, most atomic.Int32
	err := runWorker(t, Options{Concurrency: 3}, func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return runFor(200*time.Millisecond)(ctx, in)
	}, func(t *testing.T, f *fake) {
		f.add("t", slices.Repeat([]string{`1`}, 30)...)
		advance(2*time.Second + time.Millisecond)
		synctest.Wait()
		for _, it := range f.items {
			if it.state != pawl.ItemCompleted {
				t.Errorf("%s is %s after 10 rounds of 3", it.lease.ID, it.state)
			}
		}
	})
	if err != nil || most.Load() != 3 {
		t.Errorf("%v; %d at a time", err, most.Load())
	}
}

func TestAnIdleWorkerAsksSeldom(t *testing.T) {
	_ = runWorker(t, Options{Concurrency: 4}, runFor(0), func(t *testing.T, f *fake) {
		advance(5*time.Minute + time.Millisecond)
		if n := len(f.callsOf("claim")); n != 11 { // every 30 s, and the one that waits
			t.Errorf("%d claims in 5 minutes without work", n)
		}
		if c := f.callsOf("claim")[0].claim; c.Limit != 4 || c.WaitSeconds != 30 || c.LeaseSeconds != 0 || c.Prefetch ||
			!slices.Equal(c.Types, []string{"t"}) {
			t.Errorf("%+v", c)
		}
		if n := len(f.callsOf("register")); n != 11 {
			t.Errorf("registered %d times in 5 minutes", n)
		}
	})
}

func TestAServiceThatDoesNotWaitIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &noWait{newFake()}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := RunWith(ctx, f, Options{Logger: discardLogger()}, Handler{"t", runFor(0)}); err != nil {
			t.Fatal(err)
		}
		if n := len(f.callsOf("claim")); n > 100 {
			t.Errorf("%d claims in a minute", n)
		}
	})
}

// noWait answers claims at once.
type noWait struct{ *fake }

func (f *noWait) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	req.WaitSeconds = 0
	return f.fake.Claim(ctx, req)
}

func discardLogger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestClaimsGoOnWhenTheDatabaseComesBack(t *testing.T) {
	err := runWorker(t, Options{}, runFor(0), func(t *testing.T, f *fake) {
		f.set(func() {
			f.down = func(string) error {
				if time.Since(f.start) < time.Minute {
					return pawl.ErrUnavailable
				}
				return nil
			}
		})
		f.add("t", `1`)
		advance(70 * time.Second)
		if f.state("itm_0") != pawl.ItemCompleted {
			t.Error("not done")
		}
		if n := len(f.callsOf("claim")); n < 10 || n > 30 {
			t.Errorf("%d claims in a minute without a database", n)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A worker of a database that is quarantined waits until it is adopted, and says so once a minute.
func TestAWorkerWaitsForAnAdoption(t *testing.T) {
	var log strings.Builder
	err := runWorker(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, runFor(0), func(t *testing.T, f *fake) {
		f.set(func() {
			f.down = func(string) error {
				if time.Since(f.start) < 150*time.Second {
					return pawl.ErrQuarantined
				}
				return nil
			}
		})
		f.add("t", `1`)
		advance(160 * time.Second)
		if f.state("itm_0") != pawl.ItemCompleted {
			t.Error("not done")
		}
	})
	if n := strings.Count(log.String(), "is quarantined"); err != nil || n != 3 {
		t.Errorf("%d lines, %v:\n%s", n, err, log.String())
	}
}

func TestRefusedClaimsEndTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.down = func(verb string) error {
			if verb == "claim" {
				return &pawl.Error{Code: pawl.CodeForbidden}
			}
			return nil
		}
		err := RunWith(context.Background(), f, Options{Logger: discardLogger()}, Handler{"t", runFor(0)})
		if pawl.CodeOf(err) != pawl.CodeForbidden {
			t.Errorf("err = %v", err)
		}
	})
}

func TestWrongOptionsAreNamed(t *testing.T) {
	do := runFor(0)
	for name, run := range map[string]func() error{
		"/handlers":   func() error { return Run(context.Background(), newFake()) },
		"exactly one": func() error { return Run(context.Background(), newFake(), Handler{"t", do}, Handler{"t", do}) },
		`"nil"`:       func() error { return Run(context.Background(), newFake(), Handler{Type: "nil"}) },
		"/lease_seconds": func() error {
			return RunWith(context.Background(), newFake(), Options{LeaseSeconds: 86401}, Handler{"t", do})
		},
		"/concurrency": func() error {
			return RunWith(context.Background(), newFake(), Options{Concurrency: -1}, Handler{"t", do})
		},
		"/wait_seconds": func() error {
			return RunWith(context.Background(), newFake(), Options{WaitSeconds: 61}, Handler{"t", do})
		},
		"/max_misses": func() error {
			return RunWith(context.Background(), newFake(), Options{MaxMisses: -1}, Handler{"t", do})
		},
	} {
		if err := run(); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHandlerOfEveryTypeTakesWhatNobodyElseDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		say := func(s string) HandlerFunc {
			return func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`"` + s + `"`), nil
			}
		}
		_ = runWorkerOn(t, f, Options{}, []Handler{{"", say("any")}, {"b", say("b")}}, func(t *testing.T, f *fake) {
			f.add("a", `1`)
			f.add("b", `1`)
			synctest.Wait()
		})
		if f.items[0].result != `"any"` || f.items[1].result != `"b"` || f.callsOf("claim")[0].claim.Types != nil {
			t.Errorf("%s, %s, %v", f.items[0].result, f.items[1].result, f.callsOf("claim")[0].claim.Types)
		}
	})
}

func TestMiddlewareWrapsFromTheOutsideIn(t *testing.T) {
	var seen []string
	mark := func(name string) Middleware {
		return func(next HandlerFunc) HandlerFunc {
			return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
				seen = append(seen, name)
				out, err := next(ctx, in)
				seen = append(seen, fmt.Sprint(name, " ", err))
				return out, err
			}
		}
	}
	var took time.Duration
	timing := Timing(func(_ context.Context, l pawl.Lease, d time.Duration, err error) { took = d; seen = append(seen, l.ID) })
	var log lines
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := Handle("t", func(context.Context, any) (any, error) { time.Sleep(time.Second); panic("x") }, mark("third"))
		_ = runWorkerOn(
			t,
			f,
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Middleware: []Middleware{mark("first"), timing, mark("second")}},
			[]Handler{h},
			func(t *testing.T, f *fake) {
				f.add("t", `"secret"`)
				advance(2 * time.Second)
			},
		)
	})
	if want := "first second third third panic: x second panic: x itm_0 first panic: x"; strings.Join(seen, " ") != want {
		t.Errorf("%q", seen)
	}
	if took != time.Second || !strings.Contains(log.String(), "item failed") || strings.Contains(log.String(), "secret") {
		t.Errorf("%s, %s", took, log.String())
	}
}
