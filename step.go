package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl/internal/clock"
)

// Step runs fn once per item. Its result, any value that can be encoded as JSON (at most
// 1 MiB), is saved under the name, which is unique within the item. A later attempt, or
// a later Step of that name in the same attempt, returns the saved result and does not
// run fn. An error is not saved: the next attempt runs fn again. A result that cannot be saved, since
// it is not JSON or too large, is a permanent error: fn has run, and would run again.
//
// args are the values that the result depends on. If the saved result has other args,
// Step returns ErrInvalid and does not run fn: a computation that changed needs another
// name.
//
// fn runs at least once, and its result is saved exactly once: if the process dies
// between fn's work and the save, the next attempt runs fn again. Use Once inside fn for
// side effects outside of Pawl that must not happen twice, and Retried for an fn that is to
// be called again within the attempt.
func Step[T any](ctx context.Context, name string, fn func(context.Context) (T, error), args ...any) (out T, err error) {
	return runStep(ctx, nil, name, fn, args)
}

// MessageStep writes a step of a message once per item. fn writes it with m's methods;
// its result, any value that can be encoded as JSON (at most 1 MiB), is saved under the name with the end
// of the step. A later attempt returns the saved result and does not run fn. A step that an
// earlier attempt began and did not end is written again by fn: readers see what was written of
// it as abandoned. args are as in Step, and names are shared with it.
//
// Write inside of steps only: a MessageStep after chunks that no step has ended is ErrInvalid, since a
// later attempt would write them again. So is one after a step that failed in this attempt when it had
// written something: return the error, and the next attempt writes the step again. The steps of a message
// come one after the other.
//
// If an earlier attempt finished the message without this step, fn runs, what it writes is
// ignored, and nothing is saved.
func MessageStep[T any](
	ctx context.Context, m *MessageWriter, name string, fn func(context.Context) (T, error), args ...any,
) (out T, err error) {
	return runStep(ctx, m, name, fn, args)
}

// runStep is Step, or with m MessageStep.
func runStep[T any](
	ctx context.Context, m *MessageWriter, name string, fn func(context.Context) (T, error), args []any,
) (out T, err error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return out, err
	}
	hashed, err := argsOf(name, args)
	if err != nil {
		return out, err
	}
	inner, leave, err := h.enter(ctx, name)
	if err != nil {
		return out, err
	}
	defer leave()

	c, found, err := h.lookup(ctx, name)
	if err != nil {
		return out, err
	}
	if found {
		if h.steps != nil {
			h.steps.ReplayedStep(ctx, name)
		}
		return out, replay(c, m, name, hashed, &out)
	}
	if m != nil {
		if err := m.enterStep(name); err != nil {
			return out, err
		}
		defer m.leaveStep()
		inner = context.WithValue(inner, messageStepKey{}, name)
	}
	returned, began := false, clock.Now()
	if h.steps != nil {
		var end func(error)
		inner, end = h.steps.BeginStep(inner, name)
		defer func() {
			if !returned {
				err = errStepPanicked
			}
			end(err)
		}()
	}
	out, err = fn(inner)
	returned = true
	took := clock.Now().Sub(began)
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return out, Permanent(stepError(name, "its result cannot be written as JSON (%v)", err))
	}
	// The work is done: a context that ends now must not lose it. The fence decides
	// whether it may still be written.
	kept := stepMetadata{Args: hashed.parts, TookMS: took.Milliseconds()}
	return out, h.saveStep(context.WithoutCancel(ctx), m, name, hashed, kept, raw)
}

// saveStep saves the result of a step of the item, or of the message m.
func (h *attemptState) saveStep(ctx context.Context, m *MessageWriter, name string, args stepArgs, kept stepMetadata,
	result json.RawMessage,
) (err error) {
	c := NewCheckpoint{Type: ToolExecuted, Name: name, ArgsHash: args.hash, Snapshot: result, Metadata: kept.json()}
	if m != nil {
		err = m.endNamed(ctx, h, c, args)
	} else {
		_, err = h.save(ctx, c)
	}
	if code := CodeOf(err); code == CodeInvalid || code == CodeTooLarge {
		err = Permanent(err) // another attempt would run fn again for a result that is not taken either
	}
	return err
}

// errStepPanicked is the error of a step whose function did not return.
var errStepPanicked = errors.New("pawl: the function of the step panicked")

// replay decodes a saved result. A checkpoint without a hash was not saved by Step and
// matches any args. A result that does not fit the step is a permanent error: no later
// attempt can mend it.
func replay(c Checkpoint, m *MessageWriter, name string, args stepArgs, out any) error {
	saved := metadataOf(c)
	switch {
	case m == nil && c.Type != ToolExecuted || m != nil && c.Type != IterationEnd:
		return stepChanged(name, "its name is taken by a checkpoint of type %s; give the step another name", c.Type)
	case m != nil && saved.MessageID != m.ID():
		return stepChanged(name, "its name is taken by a step of message %s; give the step another name", saved.MessageID)
	case c.ArgsHash != "" && c.ArgsHash != args.hash:
		which := args.differing(saved.Args)
		if which != "" {
			which = " (" + which + ")"
		}
		return stepChanged(name, "%s saved its result for other arguments%s; give the step another name (put what varies "+
			"into it), or pass the same arguments in every attempt", saverOf(c), which)
	}
	if err := json.Unmarshal(c.Snapshot, out); err != nil {
		return stepChanged(name, "the result that %s saved is not a %T (%v); give the step another name when its result's type "+
			"changes", saverOf(c), out, err)
	}
	return nil
}

// saverOf says in an error who saved a checkpoint. The copies of a fork have no attempt.
func saverOf(c Checkpoint) string {
	if c.Attempt == 0 {
		return "the task that this task is a fork of"
	}
	return fmt.Sprintf("attempt %d", c.Attempt)
}

// enter reserves the name for one Step, Sleep or WaitFor; a second one of that name
// waits. The returned context knows the name, so that a step started inside itself is an
// error and not a deadlock.
func (h *attemptState) enter(ctx context.Context, name string) (context.Context, func(), error) {
	if err := checkStepName(name); err != nil {
		return nil, nil, err
	}
	type inside struct {
		h    *attemptState
		name string
	}
	if ctx.Value(inside{h, name}) != nil {
		return nil, nil, stepError(name, "it is started inside itself; give the inner step another name")
	}
	for {
		h.mu.Lock()
		other, busy := h.running[name]
		if !busy {
			over := make(chan struct{})
			h.running[name] = over
			delete(h.reserved, name) // a run of a step counts anew
			h.mu.Unlock()
			leave := func() {
				h.mu.Lock()
				delete(h.running, name)
				h.mu.Unlock()
				close(over)
			}
			return context.WithValue(context.WithValue(ctx, inside{h, name}, true), stepKey{}, name), leave, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// checkStepName refuses names that the database would refuse after fn had run.
func checkStepName(name string) error {
	switch {
	case name == "":
		return Invalid("/name", "is required")
	case len(name) > MaxStepNameLen:
		return Invalid("/name", "is longer than %d bytes", MaxStepNameLen)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return Invalid("/name", "holds NUL or is not UTF-8")
	}
	return nil
}

func stepError(name, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Op: "step", Message: fmt.Sprintf("step %q: "+format, append([]any{name}, args...)...)}
}

// stepChanged is the error of a call that does not fit what was saved under its name: no
// later attempt can mend it.
func stepChanged(name, format string, args ...any) error {
	return Permanent(stepError(name, format, args...))
}
