package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// WaitFor waits for a signal. It holds no lease and no worker meanwhile, and survives
// restarts. The first call with a name suspends the item and returns ErrSuspended, which
// the handler returns unchanged. After the signal was sent, the next attempt runs the
// handler from its beginning; its steps are replayed, and this WaitFor returns the
// signal's payload. The payload is saved under the name, which is unique within the
// item: later attempts get the same one, whatever is sent meanwhile. A signal that was
// sent before is not missed: the item continues at once.
//
// The key tells signals of one name apart; "" is a valid key. Waiting for another signal
// under the same name is ErrInvalid, marked as Permanent: no later attempt can mend it.
func WaitFor[T any](ctx context.Context, name, signal, key string) (T, error) {
	var out T
	return out, await(ctx, name, Awaited{Signal: signal, Key: key}, nil, &out)
}

// WaitForAtMost is WaitFor with a time limit. If the signal is not sent within d (at
// most 10 years) of the first call, by the database's clock, the item continues and
// WaitForAtMost returns ErrTimeout; later attempts get it too, even if the signal is
// sent late. A later call with the same name and another d keeps the first limit.
func WaitForAtMost[T any](ctx context.Context, name, signal, key string, d time.Duration) (T, error) {
	var out T
	return out, await(ctx, name, Awaited{Signal: signal, Key: key}, &d, &out)
}

func await(ctx context.Context, name string, want Awaited, atMost *time.Duration, out any) error {
	h, err := attemptOf(ctx)
	switch {
	case err != nil:
		return err
	case want.Signal == "":
		return Invalid("/signal", "is required")
	case atMost != nil && *atMost > MaxDelay:
		return Invalid("/d", "is more than %s", MaxDelay)
	}
	_, leave, err := h.enter(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	if atMost != nil {
		end := h.Now().Add(*atMost).UTC().Truncate(time.Microsecond)
		want.Until = &end
	}
	a, payload, err := h.awaited(ctx, name, want)
	switch {
	case err != nil:
		return err
	case a.TimedOut:
		return ErrTimeout
	case !a.Over():
		if err := h.Suspend(ctx, SuspendCall{Signal: a.Signal, Key: a.Key, Until: a.Until}); err != nil {
			return err
		}
		return ErrSuspended
	}
	if err := json.Unmarshal(payload, out); err != nil {
		return stepChanged(name, "the payload of signal %q is not a %T (%v)", a.Signal, out, err)
	}
	return nil
}

// awaited returns the state of the wait of a name: the saved one, or the current one,
// which it saves.
func (h *attemptState) awaited(ctx context.Context, name string, want Awaited) (Awaited, json.RawMessage, error) {
	c, found, err := h.lookup(ctx, name)
	if err != nil {
		return want, nil, err
	}
	if !found {
		return want, nil, h.saveWait(ctx, name, want, nil)
	}
	a, waits := c.Awaits()
	switch {
	case !waits:
		return a, nil, stepChanged(name, "its name is taken by a checkpoint that waits for no signal; give the wait another name")
	case a.Signal != want.Signal || a.Key != want.Key:
		return a, nil, stepChanged(name, "attempt %d waited for signal %q with key %q; give the wait another name", c.Attempt, a.Signal, a.Key)
	case a.Over():
		return a, c.Snapshot, nil
	}
	state, err := h.resume(ctx)
	if err != nil {
		return a, nil, err
	}
	if s, sent := state.Signals[name]; sent {
		a.SentAt = &s.SentAt
		return a, s.Payload, h.saveWait(ctx, name, a, s.Payload)
	}
	if a.Until != nil && !h.Now().Before(*a.Until) {
		a.TimedOut = true
		return a, nil, h.saveWait(ctx, name, a, nil)
	}
	return a, nil, nil
}

func (h *attemptState) saveWait(ctx context.Context, name string, a Awaited, payload json.RawMessage) error {
	if payload == nil {
		payload = json.RawMessage("null")
	}
	raw, err := json.Marshal(a)
	if err == nil {
		_, err = h.save(ctx, NewCheckpoint{Type: StateTransition, Name: name, Snapshot: payload, Metadata: raw})
	}
	return err
}
