package access_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// fakeKeys knows one key, and counts the lookups.
type fakeKeys struct{ looks int }

func (s *fakeKeys) FindAPIKey(_ context.Context, token string) (pawl.APIKey, error) {
	s.looks++
	if token != "good" {
		return pawl.APIKey{}, &pawl.Error{Code: pawl.CodeUnauthenticated}
	}
	return pawl.APIKey{ID: "key_1"}, nil
}

func (s *fakeKeys) UseAPIKeys(context.Context, []pawl.APIKeyUse) error { return nil }

// Calls with wrong keys are slowed down and are not all logged. Calls with a valid key
// are not slowed down, from the same address or another.
func TestWrongKeysAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakeKeys{}
		var log strings.Builder
		gate := access.New(access.Options{Keys: keys, Required: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		here := access.From(t.Context(), "192.0.2.1:4711")
		if _, err := gate.Enter(here, "good"); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			_, err := gate.Enter(access.From(t.Context(), "192.0.2.1:1"), "wrong")
			if want := map[bool]error{true: pawl.ErrUnauthenticated, false: pawl.ErrLimit}[i < 20]; !errors.Is(err, want) {
				t.Fatalf("wrong key %d: %v, not %v", i, err, want)
			}
			gate.Refused(here, "claim", err)
		}
		if keys.looks != 21 {
			t.Errorf("%d looks into the database", keys.looks)
		}
		if n := strings.Count(log.String(), `msg="call refused"`); n != 100 {
			t.Errorf("%d lines in the log", n)
		}
		if n := gate.Refusals()[access.Refusal{Route: "claim", Code: pawl.CodeLimit}]; n != 980 {
			t.Errorf("%d refusals are counted", n)
		}
		time.Sleep(1500 * time.Millisecond) // the good key is looked up again
		if _, err := gate.Enter(here, "good"); err != nil {
			t.Errorf("a good key from there: %v", err)
		}
		for _, want := range []error{pawl.ErrUnauthenticated, pawl.ErrLimit} {
			if _, err := gate.Enter(here, "wrong"); !errors.Is(err, want) {
				t.Errorf("a second later: %v, not %v", err, want)
			}
		}
		if _, err := gate.Enter(access.From(t.Context(), "192.0.2.2:1"), "wrong"); !errors.Is(err, pawl.ErrUnauthenticated) {
			t.Errorf("from elsewhere: %v", err)
		}
		gate.Refused(here, "claim", pawl.ErrUnauthenticated)
		if !strings.Contains(log.String(), "left_out=900") {
			t.Errorf("the log does not say how many lines it lacks: %s", log.String()[log.Len()-200:])
		}
	})
}
