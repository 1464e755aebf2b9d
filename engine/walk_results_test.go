package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/pawl-work/pawl"
)

// walkResult is a result for any item, also for an apply item. walkPlan is a result for a
// plan item.
var (
	walkResult = []byte(`{"result":1,"diff":{"summary":"one"}}`)
	walkPlan   = []byte(`{"items":[{"input":1,"key":"p1"},{"input":1,"key":"p2","after":["p1"]}]}`)
)

func (c walkClaim) result() []byte {
	if strings.HasSuffix(c.typ, pawl.PlanSuffix) {
		return walkPlan
	}
	return walkResult
}

// deliver hands in a result in the way that the item's type requires.
func deliver(ctx context.Context, svc pawl.Service, c walkClaim) (err error) {
	submit := func() error {
		_, err := first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: c.Fence, Result: walkResult}}))
		return err
	}
	if c.typ == "pieced" {
		if err = submit(); !errors.Is(err, pawl.ErrInvalid) { // the part that its type requires is there
			return err
		}
		if _, err = first(svc.SubmitParts(ctx, []pawl.PartCall{{Fence: c.Fence, Key: "a", Payload: walkResult}})); err != nil {
			return err
		}
	}
	if accepts(c.typ) {
		return submit()
	}
	_, err = first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: c.Fence, Result: c.result()}}))
	return err
}

// finish completes an item, or submits it if its type requires that.
func (w *concurrentWalk) finish(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	if c.typ == "planned"+pawl.PlanSuffix && draw.IntN(4) == 0 {
		_, err := first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: c.Fence, Result: []byte(`{"items":[]}`)}}))
		if !errors.Is(err, pawl.ErrInvalid) {
			return cmp.Or(err, errors.New("a plan without items was taken"))
		}
		return nil
	}
	err := deliver(ctx, svc, c)
	if err == nil && !accepts(c.typ) {
		w.completed(c.ItemID)
	}
	return err
}

func (w *concurrentWalk) completed(itemID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[itemID] = true
}

// drawClaims returns some of the newest claims, each once.
func (w *concurrentWalk) drawClaims(draw *rand.Rand) (out []walkClaim) {
	seen := map[string]bool{}
	for range 2 + draw.IntN(4) {
		if c, found := w.drawClaim(draw, ""); found && !seen[c.ItemID] {
			seen[c.ItemID] = true
			out = append(out, c)
		}
	}
	return out
}

// judge reports what none of the others explains of the answers to a batch, and
// answers with an error if all calls were refused.
func judge[T any](w *concurrentWalk, verb string, rs []pawl.Result[T], err error) error {
	if err != nil {
		return err
	}
	var refused error
	for n := range rs {
		if rs[n].Err == nil {
			continue
		}
		w.mu.Lock()
		foreseen := w.foreseen(verb, rs[n].Err)
		w.mu.Unlock()
		if refused = cmp.Or(refused, rs[n].Err); !foreseen {
			return rs[n].Err
		}
	}
	return refused
}

func (w *concurrentWalk) finishMany(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	claims := w.drawClaims(draw)
	calls := make([]pawl.CompleteCall, len(claims))
	for n, c := range claims {
		calls[n] = pawl.CompleteCall{Fence: c.Fence, Result: c.result()}
	}
	if len(calls) == 0 {
		return w.claim(ctx, draw, svc)
	}
	rs, err := svc.Complete(ctx, calls)
	for n := range rs {
		if err == nil && rs[n].Err == nil {
			w.completed(calls[n].ItemID)
		}
	}
	return judge(w, "complete", rs, err)
}

// finishOnce sends one completion to both engines at once under one idempotency key. One
// engine carries it out, and the other one returns the same answer or none.
func (w *concurrentWalk) finishOnce(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "")
	if !found || accepts(c.typ) {
		return w.claim(ctx, draw, svc)
	}
	key := pawl.KeyBegin{Scope: "walk", Key: fmt.Sprint(w.round, "/", draw.Uint64()), RequestHash: "h"}
	var answers [2]pawl.Answer
	var errs [2]error
	var both sync.WaitGroup
	for n, e := range w.engines {
		both.Go(func() {
			answers[n], _, errs[n] = e.Idempotent(ctx, key, func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
				moved, err := first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: c.Fence, Result: c.result()}}))
				if err != nil {
					return nil, err
				}
				return &pawl.Answer{Code: 200, Type: "text/plain", Body: fmt.Append(nil, moved, n)}, nil
			})
		})
	}
	both.Wait()
	if errs[0] == nil && errs[1] == nil && string(answers[0].Body) != string(answers[1].Body) {
		return fmt.Errorf("one key was answered with %s and %s", answers[0].Body, answers[1].Body)
	}
	if errs[0] == nil || errs[1] == nil {
		w.completed(c.ItemID)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.foreseen("complete", errs[1]) {
		return errs[1]
	}
	return errs[0]
}

func failCall(draw *rand.Rand, f pawl.Fence) pawl.FailCall {
	retry, ms := draw.IntN(3) > 0, int64(draw.IntN(2)*1000)
	return pawl.FailCall{Fence: f, Error: pawl.Failure{Message: "no"}, Retryable: &retry, RetryAfterMS: &ms}
}

func (w *concurrentWalk) failMany(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	var calls []pawl.FailCall
	for _, c := range w.drawClaims(draw) {
		calls = append(calls, failCall(draw, c.Fence))
	}
	if len(calls) == 0 {
		return w.claim(ctx, draw, svc)
	}
	rs, err := svc.Fail(ctx, calls)
	return judge(w, "fail", rs, err)
}

// part hands in a part of a result: a valid one, a draft, or a repeated one.
func (w *concurrentWalk) part(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "pieced")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	call := pawl.PartCall{Fence: c.Fence, Key: "a", Payload: fmt.Append(nil, draw.IntN(3)), Draft: draw.IntN(5) == 0}
	if draw.IntN(2) == 0 {
		seq := draw.IntN(3)
		call.Key, call.Seq = "b", &seq
	}
	_, err := first(svc.SubmitParts(ctx, []pawl.PartCall{call}))
	return err
}

// finalize puts the parts together, if the required part is there.
func (w *concurrentWalk) finalize(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "pieced")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	call := pawl.FinalizeCall{Fence: c.Fence}
	if draw.IntN(2) == 0 {
		call.Mode = pawl.FinalizeBestEffort
	}
	_, err := first(svc.Finalize(ctx, []pawl.FinalizeCall{call}))
	if errors.Is(err, pawl.ErrInvalid) {
		return nil
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.whole[c.ItemID] = true
	}
	return err
}
