package engine

import (
	"context"
	"math/rand/v2"
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
	turns   map[string]*turn
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

// turn is shared by the claims that wait for the same: one of them looks now and
// then, whoever holds what is in free.
type turn struct {
	waiting int
	free    chan struct{}
}

// join takes part in the turns of those who wait for the same.
func (w *waker) join(same string) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.turns[same]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		if w.turns == nil {
			w.turns = map[string]*turn{}
		}
		w.turns[same] = t
	}
	t.waiting++
	return t
}

// leave passes the turn on, if it is the leaver's.
func (w *waker) leave(same string, t *turn, holds bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if holds {
		t.free <- struct{}{}
	}
	if t.waiting--; t.waiting == 0 {
		delete(w.turns, same)
	}
}

const retryPause = 100 * time.Millisecond // after a try that failed

// await tries until it is done: at once, at every word about a namespace, and once
// more when the time is over. Words may be lost, and of what is made Inside there
// is none: so one of those who wait for the same also tries now and then. A try
// that is not done and has an error is made again, and the last one's error stays.
func (e *Engine) await(ctx context.Context, namespace, same string, wait time.Duration, try func(woken <-chan struct{}) (done bool, err error)) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	e.listen()
	t, looks := e.wake.join(same), false
	defer func() { e.wake.leave(same, t, looks) }()
	var tick, again <-chan time.Time
	pause := 10 * time.Millisecond
	if e.notices.hears.Load() {
		pause = 50 * time.Millisecond
	}
	woken := e.wake.on(namespace)
	done, err := try(woken)
	for !done {
		if err != nil && again == nil {
			again = time.After(retryPause + rand.N(retryPause))
		}
		select {
		case <-again:
			again, woken = nil, e.wake.on(namespace)
			done, err = try(woken)
		case <-t.free:
			looks, tick = true, time.After(pause)
		case <-woken:
			woken = e.wake.on(namespace)
			done, err = try(woken)
		case <-tick:
			if !e.watches(ctx) {
				pause = min(2*pause, e.opts.PollInterval)
				woken = e.wake.on(namespace)
				if done, err = try(woken); done && err == nil {
					e.wake.all(namespace) // nobody has told the others
				}
			}
			tick = time.After(pause + rand.N(pause/2))
		case <-deadline.C:
			_, err = try(woken)
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// watches asks SQLite, at most every 20 ms for the whole process, whether anybody
// wrote since; then it wakes every waiting claim. Elsewhere, and when SQLite does
// not say, it is false: waiting claims look by themselves.
func (e *Engine) watches(ctx context.Context) bool {
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
	if err != nil {
		return false
	}
	e.groups.asked = clock.Now() // and again at this pace: asking costs microseconds
	if n != e.groups.version {
		e.groups.version = n
		clear(e.groups.known)
		e.wake.all("")
	}
	return true
}
