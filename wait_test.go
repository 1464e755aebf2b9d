package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

type approval struct {
	By string
	N  int64
}

// send adds a signal to the result of later calls of Resume.
func (i *item) send(step, payload string) {
	i.signals = map[string]pawl.SentSignal{step: {Name: "approved", Key: "42", Payload: json.RawMessage(payload), SentAt: i.now}}
}

func TestWaitForSuspendsUntilItsSignalAndKeepsThePayload(t *testing.T) {
	i := newItem()
	wait := func(n int) (approval, error) {
		return pawl.WaitFor[approval](i.attempt(n), "ok", "approved", "42")
	}
	for n := 1; n <= 2; n++ { // the second one comes early: an operator's
		if _, err := wait(n); !errors.Is(err, pawl.ErrSuspended) {
			t.Fatalf("attempt %d: %v", n, err)
		}
		if c := i.call; c.Signal != "approved" || c.Key != "42" || c.Until != nil {
			t.Fatalf("suspended by %+v", c)
		}
	}
	i.send("ok", `{"By":"ana","N":9007199254740993}`)
	if got, err := wait(3); err != nil || got != (approval{"ana", 9007199254740993}) {
		t.Fatalf("%+v, %v", got, err)
	}
	i.send("ok", `{"By":"bob"}`)
	if got, err := wait(4); err != nil || got.By != "ana" {
		t.Errorf("a later attempt: %+v, %v", got, err)
	}
	if len(i.saved) != 2 || string(i.saved[1].Snapshot) != `{"By":"ana","N":9007199254740993}` {
		t.Errorf("saved %+v", i.saved)
	}
}

func TestWaitForAtMostEndsOnceAndForAll(t *testing.T) {
	i := newItem()
	wait := func(n int, d time.Duration) (approval, error) {
		return pawl.WaitForAtMost[approval](i.attempt(n), "ok", "approved", "42", d)
	}
	end := i.now.Add(time.Hour)
	if _, err := wait(1, time.Hour); !errors.Is(err, pawl.ErrSuspended) || !i.call.Until.Equal(end) {
		t.Fatalf("%v, until %v", err, i.call.Until)
	}
	i.now = i.now.Add(time.Minute)
	if _, err := wait(2, 5*time.Hour); !errors.Is(err, pawl.ErrSuspended) || !i.call.Until.Equal(end) {
		t.Fatalf("early: %v, until %v", err, i.call.Until)
	}
	i.now = end
	if _, err := wait(3, time.Hour); !errors.Is(err, pawl.ErrTimeout) {
		t.Fatalf("at the end: %v", err)
	}
	i.send("ok", `{"By":"ana"}`)
	if _, err := wait(4, time.Hour); !errors.Is(err, pawl.ErrTimeout) {
		t.Errorf("a late signal: %v", err)
	}
	if len(i.saved) != 2 {
		t.Errorf("saved %d checkpoints", len(i.saved))
	}
}

func TestASignalAtTheEndOfTheWaitIsTaken(t *testing.T) {
	i := newItem()
	if _, err := pawl.WaitForAtMost[approval](i.attempt(1), "ok", "approved", "42", -time.Second); !errors.Is(err, pawl.ErrSuspended) {
		t.Fatalf("err = %v", err)
	}
	i.send("ok", `{"By":"ana"}`)
	if got, err := pawl.WaitForAtMost[approval](i.attempt(2), "ok", "approved", "42", -time.Second); err != nil || got.By != "ana" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWaitsThatCannotBeAreRefusedWithAdvice(t *testing.T) {
	i := newItem()
	ctx := i.attempt(1)
	if _, err := pawl.WaitFor[int](ctx, "ok", "", ""); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("no signal: %v", err)
	}
	if _, err := pawl.WaitForAtMost[int](ctx, "ok", "s", "", 1<<63-1); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("292 years: %v", err)
	}
	if err := pawl.Sleep(ctx, "nap", time.Hour); !errors.Is(err, pawl.ErrSuspended) {
		t.Fatal(err)
	}
	if _, err := pawl.WaitFor[int](i.attempt(2), "ok", "approved", "42"); !errors.Is(err, pawl.ErrSuspended) {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a sleep's name":   second(pawl.WaitFor[int](i.attempt(3), "nap", "approved", "42")),
		"another signal":   second(pawl.WaitFor[int](i.attempt(3), "ok", "refused", "42")),
		"another key":      second(pawl.WaitFor[int](i.attempt(3), "ok", "approved", "")),
		"a wait's name":    pawl.Sleep(i.attempt(3), "ok", time.Hour),
		"a step's, a wait": second(pawl.Step(i.attempt(3), "ok", func(context.Context) (int, error) { t.Error("ran"); return 0, nil })),
	} {
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "another name") {
			t.Errorf("%s: %v", what, err)
		}
		if again, _ := pawl.RetryOf(err); again {
			t.Errorf("%s: it is tried again", what)
		}
	}
	i.send("ok", `"ana"`)
	if _, err := pawl.WaitFor[int](i.attempt(4), "ok", "approved", "42"); !errors.Is(err, pawl.ErrInvalid) ||
		!strings.Contains(err.Error(), "approved") {
		t.Errorf("a payload of another kind: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// The children of a resume state that is read in pages are all there.
func TestResumeStateAddsChildren(t *testing.T) {
	page := func(ids ...string) pawl.ResumeState {
		s := pawl.ResumeState{Children: &pawl.ChildrenState{Total: 3}}
		for _, id := range ids {
			s.Children.Items = append(s.Children.Items, pawl.ChildResult{ID: id})
		}
		return s
	}
	var all pawl.ResumeState
	for _, p := range []pawl.ResumeState{{}, page("a"), page("b", "c"), {}} {
		all.Add(p)
	}
	if c := all.Children; c == nil || c.Total != 3 || len(c.Items) != 3 || c.Items[2].ID != "c" {
		t.Errorf("%+v", c)
	}
}
