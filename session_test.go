package pawl_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// item is one item across its attempts, with the data that a database would store.
type item struct {
	pawl.BudgetSession // not called
	pawl.ChildSession  // not called

	mu        sync.Mutex
	now       time.Time
	saved     []pawl.Checkpoint
	resumes   int
	suspended *time.Time
	call      pawl.SuspendCall           // the last one
	signals   map[string]pawl.SentSignal // what Resume tells of them
	progress  []pawl.ProgressCall
	messages  []pawl.MessageRef
	said      [][]pawl.Chunk // of each
	fail      error          // what the next call answers
}

type session struct {
	*item
	lease pawl.Lease
}

func (s *session) Lease() pawl.Lease { return s.lease }

func (s *session) Now() time.Time { return s.now }

func (s *session) Resume(context.Context) (pawl.ResumeState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumes++
	if err := s.fail; err != nil {
		s.fail = nil
		return pawl.ResumeState{}, err
	}
	out := pawl.ResumeState{ItemID: s.lease.ID, Attempt: s.lease.Attempt, Steps: map[string]pawl.Checkpoint{}, Signals: s.signals,
		Messages: slices.Clone(s.messages)}
	for _, c := range s.saved {
		if c.Name != "" {
			out.Steps[c.Name] = c
		}
		out.Newest = &c
	}
	return out, nil
}

func (s *session) Save(ctx context.Context, c pawl.NewCheckpoint) (pawl.CheckpointRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return pawl.CheckpointRef{}, err
	}
	if err := s.fail; err != nil {
		s.fail = nil
		return pawl.CheckpointRef{}, err
	}
	seq := int64(len(s.saved) + 1)
	s.saved = append(s.saved, pawl.Checkpoint{Sequence: seq, Attempt: s.lease.Attempt, Type: c.Type, Name: c.Name, ArgsHash: c.ArgsHash,
		Snapshot: c.Snapshot, Metadata: c.Metadata})
	return pawl.CheckpointRef{Sequence: seq}, nil
}

func (s *session) Progress(_ context.Context, call pawl.ProgressCall) error {
	s.progress = append(s.progress, call)
	return s.fail
}

func (s *session) Suspend(_ context.Context, call pawl.SuspendCall) error {
	if s.fail != nil {
		return s.fail
	}
	s.suspended, s.call = call.Until, call
	return nil
}

// attempt is the context of the item's n-th attempt.
func (i *item) attempt(n int) context.Context {
	return pawl.WithSession(context.Background(), &session{i, pawl.Lease{ID: "itm_1", TaskID: "tsk_1", Attempt: n}})
}

func newItem() *item { return &item{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

type page struct {
	Title string
	Links []int64
}

func TestAStepRunsOncePerItem(t *testing.T) {
	i, runs := newItem(), 0
	fetch := func(context.Context) (page, error) {
		runs++
		return page{"home", []int64{1<<53 + 1}}, nil
	}
	for n := 1; n <= 3; n++ {
		ctx := i.attempt(n)
		for range 2 {
			got, err := pawl.Step(ctx, "fetch", fetch, "https://example.org", 7)
			if err != nil || got.Title != "home" || got.Links[0] != 1<<53+1 {
				t.Fatalf("attempt %d: %+v, %v", n, got, err)
			}
		}
	}
	if runs != 1 || len(i.saved) != 1 {
		t.Errorf("ran %d times, saved %d checkpoints; want one of each", runs, len(i.saved))
	}
	if i.saved[0].Type != pawl.ToolExecuted || i.saved[0].Name != "fetch" {
		t.Errorf("saved as %+v", i.saved[0])
	}
	if i.resumes != 2 {
		t.Errorf("read the resume state %d times in 3 attempts; want once in each but the first", i.resumes)
	}
}

// The checkpoint of a step says how long its function ran. Its arguments are beside it.
func TestAStepSaysHowLongItRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newItem()
		for name, d := range map[string]time.Duration{"slow": 1500 * time.Millisecond, "fast": 0} {
			if _, err := pawl.Step(i.attempt(1), name, func(context.Context) (int, error) { time.Sleep(d); return 1, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range i.saved {
			if want := map[string]string{"slow": `{"took_ms":1500}`}[c.Name]; string(c.Metadata) != want {
				t.Errorf("%s: metadata %s, want %s", c.Name, c.Metadata, want)
			}
		}
	})
}

func TestAnErrorOfAStepIsNotSaved(t *testing.T) {
	i, boom := newItem(), errors.New("boom")
	if _, err := pawl.Step(i.attempt(1), "s", func(context.Context) (int, error) { return 0, boom }); !errors.Is(err, boom) {
		t.Fatalf("err = %v", err)
	}
	got, err := pawl.Step(i.attempt(2), "s", func(context.Context) (int, error) { return 5, nil })
	if got != 5 || err != nil {
		t.Errorf("second attempt: %d, %v", got, err)
	}
}

func TestOtherArgumentsUnderTheSameNameAreRefusedWithAdvice(t *testing.T) {
	i := newItem()
	five := func(context.Context) (int, error) { return 5, nil }
	if _, err := pawl.Step(i.attempt(1), "s", five, "a"); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{"other": {"b"}, "more": {"a", "b"}, "none": nil} {
		_, err := pawl.Step(i.attempt(2), "s", func(context.Context) (int, error) { t.Error("ran"); return 0, nil }, args...)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), `"s"`) || !strings.Contains(err.Error(), "another name") {
			t.Errorf("%s arguments: %v", name, err)
		}
	}
}

func TestASavedResultOfAnotherKindIsRefusedWithAdvice(t *testing.T) {
	i := newItem()
	if _, err := pawl.Save(i.attempt(1), pawl.LLMResponse, "answer", page{Title: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.Step(i.attempt(2), "answer", func(context.Context) (page, error) { return page{}, nil }); !errors.Is(err,
		pawl.ErrInvalid) {
		t.Errorf("a name taken by another checkpoint: %v", err)
	}
	if _, err := pawl.Step(i.attempt(2), "n", func(context.Context) (string, error) { return "x", nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.Step(i.attempt(3), "n", func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, pawl.ErrInvalid) ||
		!strings.Contains(err.Error(), "type changes") {
		t.Errorf("a result of another type: %v", err)
	}
}

// No later attempt can mend a step that does not fit what was saved: the error is permanent.
func TestAStepThatChangedIsAPermanentError(t *testing.T) {
	i := newItem()
	same := func(context.Context) (string, error) { return "x", nil }
	if _, err := pawl.Step(i.attempt(1), "n", same, 1); err != nil {
		t.Fatal(err)
	}
	_, args := pawl.Step(i.attempt(2), "n", same, 2)
	_, kind := pawl.Step(i.attempt(2), "n", func(context.Context) (int, error) { return 0, nil }, 1)
	for _, err := range []error{args, kind} {
		if retryable, _ := pawl.RetryOf(err); err == nil || retryable || !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%v is retried", err)
		}
	}
}

func TestBadStepsAreRefusedBeforeTheyRun(t *testing.T) {
	ran := func(context.Context) (int, error) { t.Error("ran"); return 0, nil }
	for _, name := range []string{"", strings.Repeat("x", pawl.MaxStepNameLen+1), "a\x00b", "a\xff"} {
		if _, err := pawl.Step(newItem().attempt(1), name, ran); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := pawl.Step(newItem().attempt(1), "s", ran, make(chan int)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("arguments that are no JSON: %v", err)
	}
	if _, err := pawl.Step(newItem().attempt(1), "s", func(context.Context) (chan int, error) { return nil, nil }); err == nil ||
		!strings.Contains(err.Error(), "JSON") {
		t.Errorf("a result that is no JSON: %v", err)
	}
}

func TestAStepInsideItselfIsAnErrorAndNotADeadlock(t *testing.T) {
	_, err := pawl.Step(newItem().attempt(1), "s", func(ctx context.Context) (int, error) {
		if _, err := pawl.Step(ctx, "inner", func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Error(err)
		}
		return pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	})
	if !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("err = %v", err)
	}
}

func TestConcurrentStepsOfOneNameRunOnce(t *testing.T) {
	i, runs := newItem(), atomic.Int32{}
	ctx := i.attempt(2)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := pawl.Step(ctx, "s", func(context.Context) (int, error) {
				time.Sleep(time.Millisecond)
				return int(runs.Add(1)), nil
			})
			if got != 1 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 || i.resumes != 1 {
		t.Errorf("ran %d times, read %d times", runs.Load(), i.resumes)
	}
}

func TestAStepThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := newItem().attempt(1)
		gone, cancel := context.WithCancel(ctx)
		first := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = pawl.Step(ctx, "s", func(context.Context) (int, error) { <-first; return 1, nil })
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := pawl.Step(gone, "s", func(context.Context) (int, error) { return 2, nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(first)
		wg.Wait()
	})
}

func TestAFinishedStepIsSavedThoughItsContextEnded(t *testing.T) {
	i := newItem()
	ctx, cancel := context.WithCancel(i.attempt(1))
	if _, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { cancel(); return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if len(i.saved) != 1 {
		t.Error("the work was done and not saved")
	}
}

func TestAStepWhoseSaveIsRefusedReturnsTheRefusal(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	i.fail = pawl.ErrLeaseTaken
	if _, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, pawl.ErrLeaseLost) {
		t.Errorf("err = %v", err)
	}
}

// fn is not run again for a result that no attempt can save.
func TestAStepThatCannotBeSavedIsAPermanentError(t *testing.T) {
	large := &pawl.Error{Code: pawl.CodeTooLarge}
	for name, refusal := range map[string]error{"not JSON": nil, "invalid": pawl.ErrInvalid, "too large": large} {
		i := newItem()
		ctx := i.attempt(1)
		_, err := pawl.Step(ctx, "s", func(context.Context) (any, error) {
			if i.fail = refusal; refusal == nil {
				return math.NaN(), nil
			}
			return 1, nil
		})
		if retryable, _ := pawl.RetryOf(err); err == nil || retryable {
			t.Errorf("%s: %v is retried", name, err)
		}
	}
}

func TestAFailedReadOfTheResumeStateIsTriedAgain(t *testing.T) {
	i := newItem()
	ctx := i.attempt(2)
	i.fail = pawl.ErrUnavailable
	if _, err := pawl.ResumeFrom(ctx); !errors.Is(err, pawl.ErrUnavailable) {
		t.Fatalf("err = %v", err)
	}
	if _, err := pawl.ResumeFrom(ctx); err != nil || i.resumes != 2 {
		t.Errorf("%v after %d reads", err, i.resumes)
	}
}

func TestSaveAndProgressGoThroughTheSession(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	ref, err := pawl.Save(ctx, pawl.IterationStart, "", map[string]int{"n": 3})
	if err != nil || ref.Sequence != 1 || string(i.saved[0].Snapshot) != `{"n":3}` {
		t.Errorf("%+v, %v, %+v", ref, err, i.saved)
	}
	if _, err := pawl.Save(ctx, pawl.CustomCheckpoint, "", func() {}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a snapshot that is no JSON: %v", err)
	}
	if err := errors.Join(pawl.Progress(ctx, 40, "Reading"), pawl.Progress(ctx, -1, "Writing"), pawl.Progress(ctx, 0, "")); err != nil {
		t.Fatal(err)
	}
	if p := i.progress; *p[0].Progress != 40 || *p[0].Stage != "Reading" || p[1].Progress != nil || *p[2].Progress != 0 || p[2].Stage != nil {
		t.Errorf("%+v", p)
	}
	if lease, err := pawl.ItemFrom(ctx); err != nil || lease.ID != "itm_1" {
		t.Errorf("%+v, %v", lease, err)
	}
	if state, err := pawl.ResumeFrom(ctx); err != nil || state.ItemID != "itm_1" || i.resumes != 0 {
		t.Errorf("%+v, %v, %d reads", state, err, i.resumes)
	}
}

func TestSleepSuspendsUntilItsTimeAndReturnsNilAfterIt(t *testing.T) {
	i := newItem()
	if err := pawl.Sleep(i.attempt(1), "nap", time.Hour); !errors.Is(err, pawl.ErrSuspended) {
		t.Fatalf("err = %v", err)
	}
	wake := i.now.Add(time.Hour)
	if !i.suspended.Equal(wake) {
		t.Fatalf("suspended until %s, want %s", i.suspended, wake)
	}
	i.now, i.suspended = i.now.Add(20*time.Minute), nil // an operator was early, and d has changed
	if err := pawl.Sleep(i.attempt(2), "nap", 5*time.Hour); !errors.Is(err, pawl.ErrSuspended) || !i.suspended.Equal(wake) {
		t.Fatalf("early: %v, until %v", err, i.suspended)
	}
	i.now, i.suspended = wake, nil
	if err := pawl.Sleep(i.attempt(3), "nap", time.Hour); err != nil || i.suspended != nil {
		t.Errorf("awake: %v, until %v", err, i.suspended)
	}
	if len(i.saved) != 1 {
		t.Errorf("saved %d checkpoints", len(i.saved))
	}
}

func TestSleepsOfOddLengths(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	for _, d := range []time.Duration{0, -time.Hour} {
		if err := pawl.Sleep(ctx, "s", d); err != nil || len(i.saved) != 0 {
			t.Errorf("%s: %v", d, err)
		}
	}
	if err := pawl.Sleep(ctx, "s", 1<<63-1); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("292 years: %v", err)
	}
	if _, err := pawl.Step(ctx, "taken", func(context.Context) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if err := pawl.Sleep(ctx, "taken", time.Hour); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a step's name: %v", err)
	}
	i.fail = pawl.ErrUnavailable
	if err := pawl.Sleep(ctx, "gone", time.Hour); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("no database: %v", err)
	}
}

func TestWithoutAWorkerThereIsNoSession(t *testing.T) {
	ctx := context.Background()
	_, item := pawl.ItemFrom(ctx)
	_, resume := pawl.ResumeFrom(ctx)
	_, save := pawl.Save(ctx, pawl.CustomCheckpoint, "", 1)
	_, step := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	_, wait := pawl.WaitFor[int](ctx, "s", "go", "")
	for _, err := range []error{item, resume, save, step, wait, pawl.Progress(ctx, 1, ""), pawl.Sleep(ctx, "s", time.Second)} {
		if !errors.Is(err, pawl.ErrNoSession) {
			t.Errorf("err = %v", err)
		}
	}
}
