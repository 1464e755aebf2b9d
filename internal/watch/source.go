package watch

import (
	"context"
	"time"
)

const (
	versionPoll = 20 * time.Millisecond // it costs microseconds
	firstPoll   = versionPoll / 2
	firstPause  = 100 * time.Millisecond // before connecting again
	maxPause    = 10 * time.Second
)

// Attend makes the hub learn of other processes' changes until leave is called. A listener,
// once connected, stays until Close.
func (h *Hub) Attend() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attendants++
	if !h.sourceRuns && h.ctx.Err() == nil {
		switch {
		case h.options.Listen != nil:
			h.sourceRuns = true
			h.work.Go(h.listen)
		case h.options.Version != nil:
			h.sourceRuns = true
			h.complete.Store(true)
			h.work.Go(h.poll)
		}
	}
	return h.leave
}

func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attendants--
}

// Listening reports whether the hub receives notices of other processes. They may be lost.
func (h *Hub) Listening() bool { return h.listening.Load() }

// Complete reports whether the hub learns of every commit of other processes. Then callers of
// Attend need not poll.
func (h *Hub) Complete() bool { return h.complete.Load() }

// listen receives notices until Close.
func (h *Hub) listen() {
	ctx := h.ctx
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		err := h.options.Listen(ctx, func() {
			pause = firstPause
			h.listening.Store(true)
			h.wakeAll() // notices sent before the listener was connected are lost
		}, h.onNotice)
		h.listening.Store(false)
		if ctx.Err() == nil {
			h.options.Log.WarnContext(ctx, "listening for other processes' work failed; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// poll reads the version while there are callers of Attend.
func (h *Hub) poll() {
	timer := time.NewTimer(firstPoll)
	defer timer.Stop()
	for {
		select {
		case <-h.ctx.Done():
		case <-timer.C:
		}
		h.mu.Lock()
		if h.attendants == 0 || h.ctx.Err() != nil {
			h.sourceRuns = false
			h.complete.Store(false)
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		h.checkVersion(h.ctx)
		timer.Reset(versionPoll)
	}
}

// checkVersion wakes the waiting goroutines if the version has changed.
func (h *Hub) checkVersion(ctx context.Context) {
	version, err := h.options.Version(ctx)
	h.complete.Store(err == nil)
	if err == nil && version != h.version {
		h.version = version
		h.wakeAll()
	}
}
