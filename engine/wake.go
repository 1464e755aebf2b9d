package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// waker tells waiting claims of this process that a namespace has new work.
type waker struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

// on is closed at the next word about the namespace.
func (w *waker) on(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]chan struct{}{}
	}
	if w.waiting[namespace] == nil {
		w.waiting[namespace] = make(chan struct{})
	}
	return w.waiting[namespace]
}

// all wakes every claim that waits in the namespace; "" wakes all namespaces.
func (w *waker) all(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ns, ch := range w.waiting {
		if namespace == "" || ns == namespace {
			close(ch)
			delete(w.waiting, ns)
		}
	}
}

// changed asks SQLite, at most every 20 ms for the whole process, whether
// anybody wrote since; then every waiting claim looks again. Elsewhere waiting
// claims poll, and it says false.
func (e *Engine) changed(ctx context.Context) bool {
	ask := e.db.Dialect().Changed
	if ask == nil {
		return false
	}
	e.groups.mu.Lock()
	defer e.groups.mu.Unlock()
	if clock.Now().Sub(e.groups.asked) < 20*time.Millisecond {
		return true
	}
	n, err := ask(ctx)
	e.groups.asked = clock.Now()
	if err != nil || n == e.groups.version {
		return true // keep asking at this pace: asking costs microseconds
	}
	e.groups.version = n
	clear(e.groups.known)
	e.wake.all("")
	return true
}
