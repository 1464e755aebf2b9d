package logs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// A checkpoint that could not be sent is sent again, with longer and longer pauses, until it
// is. A newer one takes its place.
func TestACheckpointIsSentAgain(t *testing.T) {
	var sent []string
	down := true
	o := outbox{send: func(_ context.Context, note string) error {
		sent = append(sent, note)
		if down {
			return errors.New("no answer")
		}
		return nil
	}}
	now := time.Unix(0, 0)
	var at []int
	push := func(note string) error {
		n := len(sent)
		err := o.push(t.Context(), note, now)
		if len(sent) > n {
			at = append(at, int(now.Unix()))
		}
		now = now.Add(time.Second)
		return err
	}
	if push("one") == nil {
		t.Error("an attempt that failed is no error")
	}
	for range 200 {
		if push("") == nil {
			t.Fatal("it counts as sent")
		}
	}
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183}; !slices.Equal(at, want) {
		t.Errorf("attempts at %v, not %v", at, want)
	}
	down, sent = false, nil
	for range 60 {
		_ = push("")
	}
	if err := push("two"); err != nil || !slices.Equal(sent, []string{"one", "two"}) {
		t.Errorf("%v, %v", sent, err)
	}
	if err := push(""); err != nil || len(sent) != 2 {
		t.Errorf("sent again: %v, %v", sent, err)
	}
}
