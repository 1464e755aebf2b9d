package pawl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// The statuses of docs/errors.md and the exit codes of docs/contract.md §9, copied.
func TestErrorsAreTheContracts(t *testing.T) {
	http := map[pawl.Code]int{
		"invalid": 400, "unauthenticated": 401, "forbidden": 403, "not_found": 404, "method": 405, "conflict": 409, "lease_lost": 409,
		"key_in_flight": 409, "precondition": 412, "moved": 410, "too_large": 413, "media_type": 415, "key_reused": 422, "key_required": 428,
		"limit": 429, "budget_exhausted": 429, "effect_unknown": 409, "internal": 500, "unavailable": 503, "quarantined": 503,
	}
	exit := map[pawl.Code]int{
		"invalid": 2, "not_found": 3, "conflict": 4, "lease_lost": 4, "key_in_flight": 4, "key_reused": 4, "key_required": 4,
		"precondition": 4, "moved": 4,
		"unauthenticated": 5, "forbidden": 5, "limit": 6, "budget_exhausted": 6, "unavailable": 6, "quarantined": 6,
		"effect_unknown": 4, "internal": 70,
		"method": 2, "too_large": 2, "media_type": 2, // usage
	}
	for _, e := range pawl.Errors {
		if e.HTTP != http[e.Code] || e.Exit != exit[e.Code] {
			t.Errorf("%s: HTTP %d, exit %d; want %d, %d", e.Code, e.HTTP, e.Exit, http[e.Code], exit[e.Code])
		}
		if !strings.HasSuffix(e.Means, ".") {
			t.Errorf("%s: %q is no sentence", e.Code, e.Means)
		}
		delete(http, e.Code)
	}
	if len(http) > 0 {
		t.Errorf("no row for %v", http)
	}
	if !slices.IsSortedFunc(pawl.Errors, func(a, b pawl.ErrorInfo) int { return a.HTTP - b.HTTP }) {
		t.Error("not in order of HTTP status")
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	taken := fmt.Errorf("worker w1: %w", &pawl.Error{Code: pawl.CodeLeaseLost, Op: "complete", Reason: pawl.ReasonTaken, Holder: "w2"})
	for _, c := range []struct {
		target error
		want   bool
	}{
		{pawl.ErrLeaseLost, true},
		{pawl.ErrLeaseTaken, true},
		{pawl.ErrLeaseExpired, false},
		{pawl.ErrConflict, false},
		{errors.New("other"), false},
	} {
		if got := errors.Is(taken, c.target); got != c.want {
			t.Errorf("Is(%v) = %t", c.target, got)
		}
	}
	if errors.Is(pawl.ErrLeaseLost, pawl.ErrLeaseTaken) {
		t.Error("a lease lost for no known reason is not one that was taken")
	}
	released := &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonReleased}
	if !errors.Is(released, pawl.ErrLeaseLost) || errors.Is(released, pawl.ErrLeaseTaken) || errors.Is(released, pawl.ErrLeaseExpired) {
		t.Error("a released lease is lost, neither taken nor expired")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want pawl.Code
	}{
		{nil, ""},
		{errors.New("disk on fire"), pawl.CodeInternal},
		{fmt.Errorf("x: %w", pawl.NotFound("task", "tsk_1")), pawl.CodeNotFound},
		{pawl.Invalid("/type", "is empty"), pawl.CodeInvalid},
	} {
		if got := pawl.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	if pawl.Code("nonsense").Info().Code != pawl.CodeInternal {
		t.Error("an unknown code does not read as internal")
	}
}

// Callers get the message of an error, never its cause.
func TestErrorTextHidesTheCause(t *testing.T) {
	cause := errors.New("FATAL: password authentication failed for user alice")
	for _, e := range pawl.Errors {
		err := &pawl.Error{Code: e.Code, Op: "create", Err: cause}
		if strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: %s", e.Code, err)
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s: the cause is lost for logs", e.Code)
		}
		if want := fmt.Sprintf("create: %s (%s)", strings.TrimSuffix(e.Means, "."), e.Code); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	for pointer, want := range map[string]string{
		"/priority": "The request is not well-formed (invalid); /priority: is over 7",
		"":          "The request is not well-formed (invalid); is over 7",
	} {
		if got := pawl.Invalid(pointer, "is over %d", 7).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHandlersSteerTheirRetry(t *testing.T) {
	plain := errors.New("boom")
	minute := time.Minute
	for _, c := range []struct {
		name      string
		err       error
		retryable bool
		after     *time.Duration
	}{
		{"a plain error is retried by policy", plain, true, nil},
		{"permanent", pawl.Permanent(plain), false, nil},
		{"after a delay", pawl.RetryAfter(minute, plain), true, &minute},
		{"wrapped", fmt.Errorf("handler: %w", pawl.Permanent(plain)), false, nil},
		{"permanent wins", pawl.RetryAfter(minute, pawl.Permanent(plain)), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			retryable, after := pawl.RetryOf(c.err)
			if retryable != c.retryable || (after == nil) != (c.after == nil) || (after != nil && *after != *c.after) {
				t.Errorf("retryable %t after %v", retryable, after)
			}
			if !errors.Is(c.err, plain) {
				t.Error("the handler's own error is lost")
			}
		})
	}
}
