package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// waker tells waiting claims of this process that a namespace has new work.
type waker struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
	foreign map[string]bool // another process told of it, and nobody has looked from the start since
	lulls   map[string]lull // the newest of each namespace
}

// lull is what a claim that got less than it asked for has seen: there is no
// more until the next word about the namespace.
type lull struct {
	types []string
	until <-chan struct{}
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

// told wakes as all does, at the word of another process: what that made may lie
// before the heads that this one remembers.
func (w *waker) told(namespace string) {
	w.mu.Lock()
	if w.foreign == nil {
		w.foreign = map[string]bool{}
	}
	w.foreign[namespace] = true
	w.mu.Unlock()
	w.all(namespace)
}

// looked says that somebody is about to look from the start.
func (w *waker) looked(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.foreign, namespace)
}

// short notes a claim that began when until was the next word, and got less than
// it asked for.
func (w *waker) short(namespace string, types []string, until <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lulls == nil {
		w.lulls = map[string]lull{}
	}
	w.lulls[namespace] = lull{types, until}
}

// lull says whether a claim that begins would find nothing, and whether it has to
// look from the start to be sure.
func (w *waker) lull(namespace string, types []string, until <-chan struct{}) (lull, look bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lulls[namespace]
	return l.until == until && slices.Equal(l.types, types), w.foreign[namespace]
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
