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

// Lasting returns the context of a call that waits or streams. It ends within a second
// after the key is revoked or expires; Ended then returns the reason. Call end when the
// call is over. It returns ErrLimit if too many waits and streams of the key are open.
func (g *Gate) Lasting(ctx context.Context) (_ context.Context, end func(), err error) {
	p := Of(ctx)
	if p.Key == nil {
		return ctx, func() {}, nil
	}
	most := cmp.Or(g.o.LastingPerKey, mostLast)
	g.mu.Lock()
	if g.lasting[p.Key.ID] >= most {
		g.mu.Unlock()
		return ctx, func() {}, &pawl.Error{
			Code:       pawl.CodeLimit,
			Message:    fmt.Sprintf("%d calls of this API key wait or stream already", most),
			RetryAfter: time.Second,
		}
	}
	g.lasting[p.Key.ID]++
	g.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{g: g, ctx: ctx, pass: p, cancel: cancel}
	w.mu.Lock()
	w.timer = time.AfterFunc(glance, w.look)
	w.mu.Unlock()
	return ctx, w.end, nil
}

// Ended returns why the key of a lasting call is not valid any more; nil while it is
// valid.
func Ended(ctx context.Context) error {
	var why *pawl.Error
	if errors.As(context.Cause(ctx), &why) && why.Code == pawl.CodeUnauthenticated {
		return why
	}
	return nil
}

// watch checks the key of a lasting call again and again.
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
	err := w.g.Still(w.ctx, w.pass)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case err != nil:
		w.cancel(err)
	default:
		w.timer.Reset(glance)
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
	if w.g.lasting[w.pass.Key.ID]--; w.g.lasting[w.pass.Key.ID] == 0 {
		delete(w.g.lasting, w.pass.Key.ID)
	}
}

// Lasts returns the number of waits and streams of a key that are open.
func (g *Gate) Lasts(keyID string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lasting[keyID]
}
