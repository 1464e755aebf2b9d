package effects

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// notAllowed refuses a decision about an effect in another state.
func notAllowed(f *store.EffectRow, op string, allowed ...string) error {
	if allowed == nil {
		allowed = []string{}
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, State: string(f.State), Allowed: allowed, EffectID: f.ID,
		Message: fmt.Sprintf("effect %s is %s", f.ID, f.State)}
}

// notByWorker refuses a decision by a worker that has opened the effect, to send it or while it waited, or by its API key.
func notByWorker(f *store.EffectRow, by store.Actor) error {
	if f.Opened(by.ID, by.Key) {
		return rules.NotSeparate(rules.Actor{Type: by.Type, ID: by.ID, Key: by.Key}, "worked on the item")
	}
	return nil
}

// Judge approves or rejects a locked effect that waits for it.
func Judge(ctx context.Context, tx store.Tx, f *store.EffectRow, approve bool, comment string, by store.Actor) error {
	op := "reject"
	if approve {
		op = "approve"
	}
	if f.State != pawl.EffectWaiting || f.Approval != store.EffectAsked {
		return notAllowed(f, op)
	}
	if err := notByWorker(f, by); err != nil {
		return err
	}
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return err
	}
	f.DecidedBy, f.Comment, f.Approval = store.Text(name(by)), store.Text(comment), store.EffectApproved
	facts := f.Facts()
	facts.DecidedBy, facts.Outcome = name(by), "approved"
	if !approve {
		f.State, f.Approval, f.EndedAt = pawl.EffectFailed, store.EffectRejected, &now
		f.Error = store.Text(rules.Encode(pawl.Failure{Code: pawl.RejectedEffect, Message: pawl.RejectedEffect}))
		facts.Outcome = pawl.RejectedEffect
	}
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	return f.Record(ctx, tx, now, "effect_resolved", by, facts)
}

func name(by store.Actor) string {
	if by.ID == "" {
		return by.Type
	}
	return by.Type + "/" + by.ID
}

// Resolve carries out what a person decides about a locked unknown effect.
func Resolve(ctx context.Context, tx store.Tx, f *store.EffectRow, c *pawl.ResolveEffectCall, by store.Actor) error {
	switch {
	case f.State == pawl.EffectWaiting && f.Approval == store.EffectAsked:
		return notAllowed(f, "resolve", "approve", "reject")
	case f.State != pawl.EffectUnknown:
		return notAllowed(f, "resolve")
	}
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return err
	}
	f.Outcome, f.Comment, f.DecidedBy = store.Text(c.Outcome), store.Text(c.Comment), store.Text(name(by))
	r := Report{}
	switch c.Outcome {
	case pawl.Happened:
		r.State = pawl.EffectDone
		f.Done(rules.OrNull(c.Answer))
	case pawl.DidNotHappen:
		r.State = pawl.EffectFailed
		f.Error = store.Text(rules.Encode(pawl.Failure{Code: pawl.DidNotHappen, Message: "a person decided that it did not happen"}))
	}
	if r.State != "" {
		f.State, f.EndedAt = r.State, &now
	}
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	if err := settle(ctx, tx, f, &r); err != nil {
		return err
	}
	facts := f.Facts()
	facts.Outcome, facts.DecidedBy = c.Outcome, name(by)
	return f.Record(ctx, tx, now, "effect_resolved", by, facts)
}
