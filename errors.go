package pawl

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Code is the kind of an error. Programs match on it; it is the same in process, over
// HTTP and over MCP.
type Code string

// The codes.
const (
	CodeInvalid         Code = "invalid"
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeNotFound        Code = "not_found"
	CodeMethod          Code = "method"
	CodeConflict        Code = "conflict"
	CodeLeaseLost       Code = "lease_lost"
	CodeEffectUnknown   Code = "effect_unknown"
	CodeKeyInFlight     Code = "key_in_flight"
	CodeMoved           Code = "moved"
	CodePrecondition    Code = "precondition"
	CodeTooLarge        Code = "too_large"
	CodeMediaType       Code = "media_type"
	CodeKeyReused       Code = "key_reused"
	CodeKeyRequired     Code = "key_required"
	CodeLimit           Code = "limit"
	CodeBudgetExhausted Code = "budget_exhausted"
	CodeInternal        Code = "internal"
	CodeUnavailable     Code = "unavailable"
	CodeQuarantined     Code = "quarantined"
)

// ErrorInfo is one row of Errors.
type ErrorInfo struct {
	Code      Code
	HTTP      int
	Exit      int  // exit code of the command line
	Retryable bool // the same call may succeed later
	Means     string
}

// Errors lists all errors, in order of HTTP status.
var Errors = []ErrorInfo{
	{CodeInvalid, 400, 2, false, "The request is not well-formed; `errors` names each field by JSON Pointer."},
	{CodeUnauthenticated, 401, 5, false, "No key, or one that is unknown, expired or revoked."},
	{CodeForbidden, 403, 5, false,
		"This caller may not do this; `detail` says why: the key lacks the role that the call needs, or the host or origin is not this " +
			"server's."},
	{CodeNotFound, 404, 3, false, "It does not exist in this namespace."},
	{CodeMethod, 405, 2, false, "The path exists, the method or verb does not."},
	{CodeConflict, 409, 4, false, "The state forbids it; `state` and `allowed` say what is possible."},
	{CodeLeaseLost, 409, 4, false, "This claim is not the current one; stop working and claim again. `reason` is taken, expired or released."},
	{CodeEffectUnknown, 409, 4, false,
		"It is not known whether the effect happened, and it may not be repeated; a person decides with `pawl effect resolve`. " +
			"`effect_id` names it."},
	{CodeKeyInFlight, 409, 4, true, "Another call with this idempotency key is in flight."},
	{CodeMoved, 410, 4, false,
		"The database, or the namespace, was moved to another one by `pawl move`; `url` says where, if the operator has said it."},
	{CodePrecondition, 412, 4, false, "If-Match names an old version."},
	{CodeTooLarge, 413, 2, false, "The body is over its limit."},
	{CodeMediaType, 415, 2, false, "The body is not application/json."},
	{CodeKeyReused, 422, 4, false, "This idempotency key was used with another request."},
	{CodeKeyRequired, 428, 4, false, "This call needs an Idempotency-Key."},
	{CodeLimit, 429, 6, true, "Over a limit; wait as long as Retry-After says."},
	{CodeBudgetExhausted, 429, 6, false,
		"The budget has less left than was asked for; `on_exhausted` says what the worker does then: fail, suspend or ask."},
	{CodeInternal, 500, 70, false, "An error in Pawl; the detail is in the server's log."},
	{CodeUnavailable, 503, 6, true,
		"The database or a needed service does not answer; nothing was done, or the outcome is unknown and the call is safe to repeat with " +
			"its idempotency key."},
	{CodeQuarantined, 503, 6, false,
		"The database is a copy or was moved, and nothing acts until `pawl adopt` or `pawl adopt --as-copy` is run; reads, creates and " +
			"cancels work."},
}

// Info returns the code's row in Errors; the row of internal for an unknown code.
func (c Code) Info() ErrorInfo {
	for _, e := range Errors {
		if e.Code == c {
			return e
		}
	}
	return CodeInternal.Info()
}

// The reasons of refusals, and the codes of failures that Pawl itself reports.
const (
	// Reasons of lease_lost.
	ReasonTaken    = "taken"    // a later claim exists, or another worker made this one
	ReasonExpired  = "expired"  // the lease ran out by the database's clock, swept or not
	ReasonReleased = "released" // the item was released or suspended

	// Reasons of the conflict of an append of checkpoints.
	ReasonSequence = "sequence" // the task's newest checkpoint is another than the call expects
	ReasonName     = "name"     // the task itself has a checkpoint of the name

	// ReasonEffectOpen is the reason of the conflict of a result that is handed in while an effect of the
	// attempt is open: report it first.
	ReasonEffectOpen = "effect_open"

	// ReasonPruned is the reason of the conflict of a fork whose checkpoint retention has removed.
	ReasonPruned = "pruned"

	// ReasonEpoch is the reason of the conflict for a cursor of an older epoch.
	// Error.Restart is the position to restart from.
	ReasonEpoch = "epoch"

	// The codes of failures that no worker reports.
	FailedByDeadline        = "deadline"          // its deadline passed
	FailedByStartToClose    = "start_to_close"    // an attempt took longer than start_to_close_seconds
	FailedByScheduleToStart = "schedule_to_start" // no worker claimed it within schedule_to_start_seconds
	FailedByChild           = "child_failed"      // it waited for children, and too many of them failed

	// FailedByEffect is the code of the error of an item whose effect stays unknown.
	FailedByEffect = string(CodeEffectUnknown)

	// RejectedEffect is the code of the error of an effect that an approver rejected.
	RejectedEffect = "rejected"
)

// Field is one invalid field: a JSON Pointer into the request, and what is wrong there.
type Field struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Error is the error type of all packages. Match it with errors.Is and the variables
// below, which compare codes; read its members with errors.As.
type Error struct {
	Code    Code
	Op      string   // the operation that failed, e.g. "complete"
	Message string   // one sentence for people; never the text of a driver
	Fields  []Field  // invalid: the invalid fields
	State   string   // conflict, lease_lost: the state found
	Allowed []string // conflict about a state: the verbs that it allows, never nil
	Holder  string   // lease_lost: the worker of the latest claim
	Attempt int      // lease_lost: the latest attempt
	Reason  string   // lease_lost: taken, expired, released; conflict of a feed's cursor: epoch; of a fork: pruned;
	// of an append of checkpoints: sequence or name
	Expected   *int64        // conflict of an append: the offset of the next chunk, or the number of the newest checkpoint
	Restart    *FeedPosition // conflict with reason epoch: the position to restart from
	RetryAfter time.Duration // limit, unavailable, key_in_flight: when to try again; 0 = unknown
	Exhausted  *Exhausted    // budget_exhausted: what is left of the budget
	TaskID     string        // conflict of a create with unique: the older task
	URL        string        // moved: where callers are to go, "" = not known
	EffectID   string        // effect_unknown: the effect
	Kept       []int64       // of a fork: the numbers of the checkpoints that are left, at most the newest 100; of an append: that of the name
	Err        error         // the cause, for logs; never sent
}

// Errors to match with errors.Is.
var (
	// ErrLeaseTaken and ErrLeaseExpired match ErrLeaseLost too.
	ErrInvalid         = &Error{Code: CodeInvalid}
	ErrUnauthenticated = &Error{Code: CodeUnauthenticated}
	ErrForbidden       = &Error{Code: CodeForbidden}
	ErrNotFound        = &Error{Code: CodeNotFound}
	ErrConflict        = &Error{Code: CodeConflict}
	ErrLeaseLost       = &Error{Code: CodeLeaseLost}
	ErrLeaseTaken      = &Error{Code: CodeLeaseLost, Reason: ReasonTaken}
	ErrLeaseExpired    = &Error{Code: CodeLeaseLost, Reason: ReasonExpired}
	ErrEffectUnknown   = &Error{Code: CodeEffectUnknown}
	ErrKeyInFlight     = &Error{Code: CodeKeyInFlight}
	ErrKeyReused       = &Error{Code: CodeKeyReused}
	ErrMoved           = &Error{Code: CodeMoved}
	ErrPrecondition    = &Error{Code: CodePrecondition}
	ErrTooLarge        = &Error{Code: CodeTooLarge}
	ErrLimit           = &Error{Code: CodeLimit}
	ErrBudgetExhausted = &Error{Code: CodeBudgetExhausted}
	ErrUnavailable     = &Error{Code: CodeUnavailable}
	ErrQuarantined     = &Error{Code: CodeQuarantined}
	ErrInternal        = &Error{Code: CodeInternal}

	// ErrNoSession is returned by Step, Progress and the like if the context is not that of
	// a worker's handler.
	ErrNoSession = errors.New(
		"pawl: this context is not that of a worker's handler; in a test, pawltest.RunOne or pawltest.NewSession makes one")

	// ErrTimeout is returned by WaitForAtMost if the signal did not arrive in time.
	ErrTimeout = errors.New("pawl: the signal did not come in time")

	// ErrSuspended is returned by Sleep and WaitFor when the item was suspended. The handler
	// returns it unchanged, and a later attempt continues.
	ErrSuspended = errors.New("pawl: suspended; the item goes on later")

	// ErrCancelled is the cause of a handler's context when its item was cancelled: stop; a
	// result would be refused.
	ErrCancelled = errors.New("pawl: the item was cancelled")

	// ErrStopped means that the message was stopped. Its writer returns it from then on, and
	// it is the cause of its context. If a handler returns it, the item completes without a
	// result.
	ErrStopped = errors.New("pawl: the message was stopped")
)

// Error returns "op: message (code)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	if e.Message != "" {
		b.WriteString(e.Message)
	} else {
		means, more, _ := strings.Cut(strings.TrimSuffix(e.Code.Info().Means, "."), ";")
		if more != "" && len(e.Fields) == 0 {
			means += ";" + more // it says where the fields are, which follow here
		}
		b.WriteString(means)
	}
	fmt.Fprintf(&b, " (%s)", e.Code)
	for _, f := range e.Fields {
		b.WriteString("; " + f.text())
	}
	return b.String()
}

func (f Field) text() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}

// LogValue implements slog.LogValuer: the error with its causes, which Error leaves out because
// callers see it. A log must have them.
func (e *Error) LogValue() slog.Value {
	text := e.Error()
	for cause := e.Err; cause != nil; cause = errors.Unwrap(cause) {
		if s := cause.Error(); !strings.Contains(text, s) {
			text += ": " + s
		}
	}
	return slog.StringValue(text)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is compares the code, and the reason if the target has one.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Reason == "" || t.Reason == e.Reason)
}

// CodeOf returns the code of an error: "" for nil, internal for other types of errors.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// Invalid returns an invalid error for one field.
func Invalid(pointer, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Fields: []Field{{pointer, fmt.Sprintf(format, args...)}}}
}

// FieldsOf returns the invalid fields of an error; nil if it names none.
func FieldsOf(err error) []Field {
	var e *Error
	if errors.As(err, &e) {
		return e.Fields
	}
	return nil
}

// NotFound returns a not_found error for a noun and its id.
func NotFound(noun, id string) *Error {
	return &Error{Code: CodeNotFound, Message: "no " + noun + " " + id}
}

// permanentError and retryAfterError mark how an error of a handler is retried.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// Permanent marks a handler's error as final: the item fails at once, whatever is left
// of its failure budget.
func Permanent(err error) error { return permanentError{err} }

// RetryAfter marks a handler's error with the delay before the next attempt, instead of
// the back-off. The failure is counted.
func RetryAfter(d time.Duration, err error) error { return retryAfterError{err, d} }

// snoozeError asks to give the item back for a time.
type snoozeError struct{ delay time.Duration }

func (e snoozeError) Error() string { return "snoozed for " + e.delay.String() }

// Snooze returns the error with which a handler gives its item back for a while. It is not
// counted as a failure: the item is scheduled, and runs again after d, rounded up to
// seconds. At most MaxDelay is taken.
func Snooze(d time.Duration) error { return snoozeError{min(max(d, 0), MaxDelay)} }

// SnoozeOf returns the delay of Snooze in seconds, if an error was made by it.
func SnoozeOf(err error) (seconds int, snoozed bool) {
	var s snoozeError
	if !errors.As(err, &s) {
		return 0, false
	}
	return int((s.delay + time.Second - 1) / time.Second), true
}

// RetryOf reads the marks of Permanent and RetryAfter: whether the item may be retried,
// and after which delay (nil: the back-off).
func RetryOf(err error) (retryable bool, after *time.Duration) {
	var p permanentError
	if errors.As(err, &p) {
		return false, nil
	}
	var r retryAfterError
	if errors.As(err, &r) {
		return true, &r.after
	}
	return true, nil
}
