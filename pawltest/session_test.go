package pawltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

func ExampleSession() {
	s := pawltest.NewSession(pawl.Lease{Type: "greet"})
	for range 2 { // attempts: the step runs once
		out, err := pawl.Step(s.Context(context.Background()), "think", func(context.Context) (string, error) {
			fmt.Println("thinking")
			return "hello", nil
		})
		fmt.Println(out, err, len(s.Checkpoints))
		s.Next()
	}
	// Output:
	// thinking
	// hello <nil> 1
	// hello <nil> 1
}

// A handler passes a step, a wait for a signal, a sleep and a message, attempt by attempt, as
// it does with a database.
func TestSession(t *testing.T) {
	ran := 0
	handler := func(ctx context.Context) (string, error) {
		first, err := pawl.Step(ctx, "think", func(context.Context) (string, error) { ran++; return "hello", nil })
		if err != nil {
			return "", err
		}
		if err := pawl.Progress(ctx, 50, "asking"); err != nil {
			return "", err
		}
		name, err := pawl.WaitFor[string](ctx, "ask", "name", "7")
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "rest", time.Hour); err != nil {
			return "", err
		}
		m, err := pawl.StartMessage(ctx, pawl.Reply{})
		if err != nil {
			return "", err
		}
		return first + " " + name, errors.Join(m.Text("hello "), m.Text(name))
	}
	s := pawltest.NewSession(pawl.Lease{})
	began := s.Clock
	if _, err := handler(s.Context(t.Context())); !errors.Is(err, pawl.ErrSuspended) || s.Suspended == nil || s.Suspended.Signal != "name" ||
		s.Suspended.Key != "7" {
		t.Fatalf("the first attempt: %v, %+v", err, s.Suspended)
	}
	s.Signal("name", "7", json.RawMessage(`"ana"`))
	s.Next()
	if _, err := handler(s.Context(t.Context())); !errors.Is(err, pawl.ErrSuspended) || s.Suspended == nil || s.Suspended.Until == nil {
		t.Fatalf("the second attempt: %v, %+v", err, s.Suspended)
	}
	s.Next()
	out, err := handler(s.Context(t.Context()))
	if err != nil || out != "hello ana" || ran != 1 || s.Item.Attempt != 3 || s.Clock.Sub(began) != time.Hour {
		t.Errorf("the third attempt: %q, %v; the step ran %d times, %s passed", out, err, ran, s.Clock.Sub(began))
	}
	if len(s.Reports) != 3 || *s.Reports[0].Stage != "asking" || len(s.Chunks) != 1 || len(s.Chunks[0]) != 2 {
		t.Errorf("reports %+v, chunks %+v", s.Reports, s.Chunks)
	}
	s.Fail = pawl.ErrLeaseLost
	s.Next()
	if _, err := handler(s.Context(t.Context())); !errors.Is(err, pawl.ErrLeaseLost) {
		t.Errorf("with a lost lease: %v", err)
	}
}

func TestSessionResumesFromCheckpointsInItsFirstAttempt(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{})
	s.Checkpoints = []pawl.Checkpoint{{Type: pawl.ToolExecuted, Name: "fetch", Sequence: 1, Snapshot: json.RawMessage(`7`)}}
	got, err := pawl.Step(s.Context(t.Context()), "fetch", func(context.Context) (int, error) { return 0, errors.New("it ran again") })
	if got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

// The second of two waits for one signal waits for a new one, as with a database.
func TestSessionEndsOneWaitByASignal(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{})
	attempt := func() (string, error) {
		s.Next()
		ctx := s.Context(t.Context())
		first, err := pawl.WaitFor[string](ctx, "first", "paid", "k")
		if err != nil {
			return "", err
		}
		second, err := pawl.WaitFor[string](ctx, "second", "paid", "k")
		return first + second, err
	}
	_, err := attempt()
	s.Signal("paid", "k", json.RawMessage(`"a"`))
	for range 3 {
		if errors.Is(err, pawl.ErrSuspended) {
			_, err = attempt()
		}
	}
	if !errors.Is(err, pawl.ErrSuspended) {
		t.Fatalf("one signal ended both waits: %v", err)
	}
	s.Signal("paid", "k", json.RawMessage(`"b"`))
	if out, err := attempt(); out != "ab" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

func TestSessionRefusesWhatADatabaseRefuses(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{})
	ctx := s.Context(t.Context())
	m, err := pawl.StartMessage(ctx, pawl.Reply{MaxSteps: 2})
	if err != nil || m.MaxSteps() != 2 {
		t.Fatalf("%d steps, %v", m.MaxSteps(), err)
	}
	for range 2 {
		if _, err := m.Step(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Step(ctx, 1); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("a third step: %v", err)
	}
	if _, err := pawl.Save(ctx, pawl.CustomCheckpoint, "large", strings.Repeat("x", pawl.MaxPayloadBytes)); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a large snapshot: %v", err)
	}
}
