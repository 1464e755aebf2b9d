package pawl

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// Probed is what the outside says about a key.
type Probed struct {
	Happened bool
	Answer   any // with Happened: the answer of the effect
}

// EffectOptions say how an effect is sent. The zero value is valid.
type EffectOptions struct {
	Key        string // its identity in the namespace; "" = the item and the name
	Request    any    // what is sent, as JSON: another request under the key is refused; only its digest is stored
	Budget     string // the budget that Amount is reserved from before it is sent
	Amount     int64
	Approve    bool   // a person approves it first; meanwhile the item is suspended
	Repeatable bool   // the outside recognises the key
	OnUnknown  string // one of OnUnknownProbe, Repeat, Ask and Fail; "" = see there
	// Probe asks the outside whether the effect happened. With an error it does not know.
	Probe func(ctx context.Context, key string) (Probed, error)
}

// EffectSession is what a Session implements too if its handler may have effects; the session adds the fence.
type EffectSession interface {
	OpenEffect(ctx context.Context, call OpenEffectCall) (OpenedEffect, error)
	EffectDone(ctx context.Context, id string, call EffectDoneCall) (EffectRecord, error)
	EffectFailed(ctx context.Context, id string, call EffectFailedCall) (EffectRecord, error)
	EffectUnknown(ctx context.Context, id string, call EffectUnknownCall) (EffectRecord, error)
}

type notDone struct{ error }

func (n notDone) Unwrap() error { return n.error }

// NotDone marks an error of an effect: it is known not to have happened. After any other error it is
// unknown. Nil stays nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return notDone{err}
}

// NotSent marks an error with NotDone if no request can have left: of net/http, when no connection was made; of
// database/sql, when the connection was lost before the statement was sent. It returns any other error
// unchanged. Use it with an http.Client that follows no redirects: the error of a request that was
// redirected does not say that an earlier one was answered.
func NotSent(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, driver.ErrBadConn) {
		return NotDone(err)
	}
	return err
}

// Effect sends an effect, once. It records it, calls fn with its key, and records what fn returns. A later
// attempt gets the recorded answer, and fn is not called. With NotDone(err) from fn the effect failed,
// and the next attempt sends it again; with another error it is unknown.
//
// When a person has to decide, the item is suspended and the error is ErrSuspended: return it unchanged.
func Effect[T any](ctx context.Context, name string, o EffectOptions,
	fn func(ctx context.Context, key string) (T, error)) (out T, err error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return out, err
	}
	s, ok := h.Session.(EffectSession)
	if !ok {
		return out, &Error{Code: CodeInvalid, Op: "effect", Message: "this session has no effects"}
	}
	hash, err := HashOf(o.Request)
	if err != nil {
		return out, Permanent(err)
	}
	on := o.onUnknown()
	call := OpenEffectCall{Name: name, Key: o.Key, RequestHash: hash, Repeatable: o.Repeatable || on == OnUnknownRepeat, Budget: o.Budget,
		Amount: o.Amount, Approve: o.Approve}
	opened, err := s.OpenEffect(ctx, call)
	if err == nil && !opened.Send && opened.State == EffectOpen { // another task, or another part of this handler, sends it
		call.WaitSeconds = MaxWaitSeconds
		opened, err = s.OpenEffect(ctx, call)
	}
	if id := EffectOf(err); errors.Is(err, ErrEffectUnknown) && id != "" {
		opened, err = h.reconcile(ctx, s, id, on, &o, call, err)
	}
	if err != nil {
		return out, h.exhausted(ctx, o.Amount, err)
	}
	switch {
	case opened.Send:
		return send(ctx, s, opened, fn)
	case opened.State == EffectDone:
		return out, json.Unmarshal(opened.Answer, &out)
	case opened.State == EffectFailed:
		return out, Permanent(fmt.Errorf("effect %s was %s", opened.ID, RejectedEffect))
	case opened.State == EffectOpen:
		return out, fmt.Errorf("effect %s is being sent by another", opened.ID)
	}
	return out, h.suspendFor(ctx, opened.ID)
}

func (o *EffectOptions) onUnknown() string {
	switch {
	case o.OnUnknown != "":
		return o.OnUnknown
	case o.Probe != nil:
		return OnUnknownProbe
	case o.Repeatable:
		return OnUnknownRepeat
	}
	return OnUnknownAsk
}

// send calls the function of an opened effect and reports what came of it. A context that ends now must
// not lose the report.
func send[T any](ctx context.Context, s EffectSession, opened OpenedEffect,
	fn func(ctx context.Context, key string) (T, error)) (out T, err error) {
	out, err = fn(ctx, opened.Key)
	reporting := context.WithoutCancel(ctx)
	var sure notDone
	switch {
	case err == nil:
		answer, bad := json.Marshal(out)
		if bad != nil {
			return out, Permanent(bad)
		}
		_, err = s.EffectDone(reporting, opened.ID, EffectDoneCall{Sending: opened.Sending, Answer: answer})
	case errors.As(err, &sure):
		_, bad := s.EffectFailed(reporting, opened.ID, EffectFailedCall{Sending: opened.Sending, Error: Failure{Message: err.Error()}})
		err = errors.Join(err, bad)
	default:
		_, bad := s.EffectUnknown(reporting, opened.ID, EffectUnknownCall{Sending: opened.Sending, Error: &Failure{Message: err.Error()}})
		err = errors.Join(err, bad)
	}
	return out, err
}

// reconcile does what the options say about an unknown effect.
func (h *attemptState) reconcile(ctx context.Context, s EffectSession, id, on string, o *EffectOptions, call OpenEffectCall,
	unknown error) (OpenedEffect, error) {
	var e *Error
	if errors.As(unknown, &e) && e.Reason == GiveUp || on == OnUnknownFail {
		return OpenedEffect{}, Permanent(unknown)
	}
	if on == OnUnknownProbe && o.Probe != nil {
		key := call.Key
		if key == "" {
			key = h.Lease().ID + "/" + call.Name
		}
		if found, err := o.Probe(ctx, key); err == nil {
			return h.probed(ctx, s, id, found, call)
		}
	}
	return OpenedEffect{}, h.suspendFor(ctx, id)
}

// probed reports what a probe has found out. If this attempt may not report about the effect, as in a fork,
// a person decides.
func (h *attemptState) probed(ctx context.Context, s EffectSession, id string, found Probed, call OpenEffectCall) (OpenedEffect, error) {
	answer, err := json.Marshal(found.Answer)
	if err != nil {
		return OpenedEffect{}, Permanent(err)
	}
	if found.Happened {
		_, err = s.EffectDone(ctx, id, EffectDoneCall{Answer: answer})
	} else {
		_, err = s.EffectFailed(ctx, id, EffectFailedCall{Error: Failure{Code: "probe", Message: "the outside does not know it"}})
	}
	if errors.Is(err, ErrLeaseLost) {
		return OpenedEffect{}, h.suspendFor(ctx, id)
	} else if err != nil {
		return OpenedEffect{}, err
	}
	return s.OpenEffect(ctx, call)
}

// suspendFor suspends the item until an effect is decided.
func (h *attemptState) suspendFor(ctx context.Context, id string) error {
	if err := h.Suspend(ctx, SuspendCall{Signal: EffectSignal, Key: id}); err != nil {
		return err
	}
	return ErrSuspended
}
