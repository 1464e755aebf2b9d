package dashboard

import (
	"slices"
	"testing"
)

// The events that end an attempt follow from the lifecycle of items.
func TestAttemptEnds(t *testing.T) {
	want := []string{"cancelled", "completed", "failed", "lease_expired", "lease_revoked", "released", "submitted", "suspended"}
	if got := slices.Compact(slices.Sorted(slices.Values(attemptEnds()))); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
