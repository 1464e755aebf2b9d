package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// BeginLongCall returns the context of a call that waits or streams. It ends within a second
// after the key is revoked or expires; Ended then returns the reason. Call end when the
// call is over. It returns ErrLimit if too many waits and streams of the key are open.
func (g *Gate) BeginLongCall(ctx context.Context) (_ context.Context, end func(), err error) {
	p := Of(ctx)
	if p.Key == nil {
		return ctx, func() {}, nil
	}
	most := cmp.Or(g.o.LongCallsPerKey, defaultLongCalls)
	g.mu.Lock()
	if g.longCalls[p.Key.ID] >= most {
		g.mu.Unlock()
		return ctx, func() {}, &pawl.Error{
			Code:       pawl.CodeLimit,
			Message:    fmt.Sprintf("%d calls of this %s wait or stream already", most, p.kind()),
			RetryAfter: time.Second,
		}
	}
	g.longCalls[p.Key.ID]++
	g.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{g: g, ctx: ctx, pass: p, cancel: cancel}
	w.mu.Lock()
	w.timer = time.AfterFunc(recheckAfter, w.look)
	w.mu.Unlock()
	return ctx, w.end, nil
}

// Ended returns why the key of a long call is not valid any more; nil while it is
// valid.
func Ended(ctx context.Context) error {
	var why *pawl.Error
	if errors.As(context.Cause(ctx), &why) && why.Code == pawl.CodeUnauthenticated {
		return why
	}
	return nil
}

// watch checks the key of a long call again and again.
type watch struct {
	g      *Gate
	ctx    context.Context
	pass   Pass
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func (w *watch) look() {
	err := w.g.CheckAgain(w.ctx, w.pass)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case err != nil:
		w.cancel(err)
	default:
		w.timer.Reset(recheckAfter)
	}
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	w.timer.Stop()
	w.cancel(nil)
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	if w.g.longCalls[w.pass.Key.ID]--; w.g.longCalls[w.pass.Key.ID] == 0 {
		delete(w.g.longCalls, w.pass.Key.ID)
	}
}

// LongCalls returns the number of waits and streams of a key that are open.
func (g *Gate) LongCalls(keyID string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.longCalls[keyID]
}
