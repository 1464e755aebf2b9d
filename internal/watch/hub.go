// Package watch is the one place in which this process waits for changes: its own commits and
// those of other processes.
package watch

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Hub wakes the goroutines that wait for a topic. It holds no state of a topic. A goroutine
// that waits calls Next, checks, and then waits, so it misses no change in between. A Hub is
// safe for concurrent use. Close it at the end.
type Hub struct {
	options    Options
	name       string // of this process, unique among those of its database
	ctx        context.Context
	stop       context.CancelFunc
	mu         sync.Mutex
	waiting    map[Topic]chan struct{}
	notices    notices
	attendants int  // callers of Attend
	sourceRuns bool // the source of other processes' changes runs
	work       sync.WaitGroup
	version    int64 // of the poller
	listening  atomic.Bool
	complete   atomic.Bool
}

// Options say how the hub learns of changes by other processes. With the zero value it learns
// of none.
type Options struct {
	// Notify sends short hints to other processes; nil = not possible.
	Notify func(ctx context.Context, payloads []string) error
	// Listen calls onNotice for each hint until ctx or its connection ends. It calls ready
	// when it has begun. nil = not possible.
	Listen func(ctx context.Context, ready func(), onNotice func(payload string)) error
	// Version returns a number that differs after a commit of any process; nil = not
	// possible.
	Version func(ctx context.Context) (int64, error)
	// OnRemote is called when another process changed a topic, before the goroutines that
	// wait for the topic are woken. The zero Topic = any topic may have changed. nil = not
	// called.
	OnRemote func(Topic)
	// Log gets a line when a source fails; nil = slog.Default.
	Log *slog.Logger
}

// ErrClosed is the error of a Wait that Close ended.
var ErrClosed = errors.New("watch: closed")

// New returns a hub.
func New(o Options) *Hub {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnRemote == nil {
		o.OnRemote = func(Topic) {}
	}
	h := &Hub{options: o, name: rand.Text(), waiting: map[Topic]chan struct{}{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Next returns a channel that is closed at the next change of a topic. Call it before checking
// what may change.
func (h *Hub) Next(t Topic) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.waiting[t]
	if next == nil {
		next = make(chan struct{})
		h.waiting[t] = next
	}
	return next
}

// Wait calls look at once and after each change of a topic, until it is done or fails.
// It ends with ctx's error, or ErrClosed.
func (h *Hub) Wait(ctx context.Context, t Topic, look func() (done bool, err error)) error {
	for {
		next := h.Next(t)
		if done, err := look(); done || err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.ctx.Done():
			return ErrClosed
		}
	}
}

// Wake wakes the goroutines of this process that wait for a topic.
func (h *Hub) Wake(t Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if next := h.waiting[t]; next != nil {
		close(next)
		delete(h.waiting, t)
	}
}

// Changed wakes the goroutines of this and other processes that wait for a topic.
func (h *Hub) Changed(t Topic) {
	h.Wake(t)
	h.Notify(t)
}

// wakeAll wakes all goroutines that wait for a topic that other processes change.
func (h *Hub) wakeAll() {
	h.options.OnRemote(Topic{})
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, next := range h.waiting {
		if t.kind.changedElsewhere() {
			close(next)
			delete(h.waiting, t)
		}
	}
}

// Close ends the sources, waits for the notice that is being sent and ends each Wait.
// It may be called more than once.
func (h *Hub) Close() {
	h.mu.Lock()
	h.stop()
	h.mu.Unlock()
	h.work.Wait()
}
