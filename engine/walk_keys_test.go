package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/pawl-work/pawl"
)

// beginKey begins one of three idempotency keys, sometimes for another request.
func (w *concurrentWalk) beginKey(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	call := pawl.KeyBegin{Scope: "walk", Key: fmt.Sprint(w.round, "/", draw.IntN(3)), RequestHash: "h", LockSeconds: 1 + draw.IntN(20)}
	if draw.IntN(6) == 0 {
		call.RequestHash = "other"
	}
	begun, err := first(svc.BeginKeys(ctx, []pawl.KeyBegin{call}))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.kept[call.Key]; was != "" && (begun.Run || string(begun.Key.Response) != was) {
		return fmt.Errorf("the key %s was completed with %s, and begun again: %+v", call.Key, was, begun)
	}
	if begun.Run {
		w.runs = append(w.runs, pawl.KeyDone{Scope: "walk", Key: call.Key, Token: begun.Token, Response: fmt.Appendf(nil, "%q", begun.Token)})
	}
	return nil
}

// endKey renews, completes or fails a run, which another run may have taken over.
func (w *concurrentWalk) endKey(ctx context.Context, draw *rand.Rand, svc pawl.Service) (err error) {
	w.mu.Lock()
	if len(w.runs) == 0 {
		w.mu.Unlock()
		return w.beginKey(ctx, draw, svc)
	}
	run := w.runs[draw.IntN(len(w.runs))]
	w.mu.Unlock()
	switch draw.IntN(4) {
	case 0:
		_, err = first(svc.RenewKeys(ctx, []pawl.KeyRenew{{Scope: run.Scope, Key: run.Key, Token: run.Token}}))
	case 1:
		_, err = first(svc.FailKeys(ctx, []pawl.KeyDone{run}))
	default:
		if _, err = first(svc.CompleteKeys(ctx, []pawl.KeyDone{run})); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if was := w.kept[run.Key]; was != "" && was != string(run.Response) {
			err = fmt.Errorf("the key %s was completed with %s and with %s", run.Key, was, run.Response)
		}
		w.kept[run.Key] = string(run.Response)
	}
	return err
}

// checkKeys compares the stored answers of completed keys with those that were given.
func (w *concurrentWalk) checkKeys() {
	for key, was := range w.kept {
		k, err := first(w.p.Service.GetKeys(w.Context(), []pawl.KeyName{{Scope: "walk", Key: key}}))
		if expired := errors.Is(err, pawl.ErrNotFound); !expired && (err != nil || string(k.Response) != was) {
			w.Errorf("the key %s was completed with %s and says %s %s, %v", key, was, k.Status, k.Response, err)
		}
	}
}

// changeType puts another version of a type or removes the type. Existing tasks keep
// their version.
func (w *concurrentWalk) changeType(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	if draw.IntN(3) == 0 {
		_, err := first(svc.RemoveTypes(asOperator(ctx), []string{"fragile"}))
		if errors.Is(err, pawl.ErrNotFound) {
			return nil
		}
		return err
	}
	fragile := pawl.Type{Name: "fragile", OnItemFailure: pawl.FailureCancel, Backoff: pawl.Backoff{BaseSeconds: 1 + draw.IntN(3)}}
	_, err := first(svc.PutTypes(asOperator(ctx), []pawl.Type{fragile}))
	return err
}
