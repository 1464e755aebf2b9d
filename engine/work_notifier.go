package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// workNotifier tells waiting claims of this process that a namespace has new work.
type workNotifier struct {
	mu         sync.Mutex
	waiting    map[string]chan struct{}
	remote     map[string]bool      // another process reported work, and no claim has read the queues from the start since
	emptyHints map[string]emptyHint // the newest, by namespace
	polls      map[string]*sharedPoll
}

// emptyHint records that a claim got less than it asked for: there is no more work
// until the next notice about the namespace.
type emptyHint struct {
	types []string
	until <-chan struct{}
}

// changed returns a channel that is closed at the next notice about the namespace.
func (w *workNotifier) changed(namespace string) <-chan struct{} {
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

// wakeAll wakes every claim that waits in the namespace; "" wakes all namespaces.
func (w *workNotifier) wakeAll(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ns, ch := range w.waiting {
		if namespace == "" || ns == namespace {
			close(ch)
			delete(w.waiting, ns)
		}
	}
}

// wakeRemote is wakeAll for a notice of another process: its work may lie before the
// heads that this process remembers.
func (w *workNotifier) wakeRemote(namespace string) {
	w.mu.Lock()
	if w.remote == nil {
		w.remote = map[string]bool{}
	}
	w.remote[namespace] = true
	w.mu.Unlock()
	w.wakeAll(namespace)
}

// clearRemote records that a claim is about to read the queues from the start.
func (w *workNotifier) clearRemote(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.remote, namespace)
}

// setEmpty records a claim that got less than it asked for; until is the channel that
// it began with.
func (w *workNotifier) setEmpty(namespace string, types []string, until <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.emptyHints == nil {
		w.emptyHints = map[string]emptyHint{}
	}
	w.emptyHints[namespace] = emptyHint{types, until}
}

// isEmpty reports whether a claim that begins would find nothing (empty), and whether
// it must read the queues from the start to be sure (look).
func (w *workNotifier) isEmpty(namespace string, types []string, until <-chan struct{}) (empty, look bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.emptyHints[namespace]
	return l.until == until && slices.Equal(l.types, types), w.remote[namespace]
}

// sharedPoll is shared by the claims that wait for the same work. One of them polls:
// the one that received from free.
type sharedPoll struct {
	waiting int
	free    chan struct{}
}

// join adds a claim to those that wait for the same work.
func (w *workNotifier) join(waitKey string) *sharedPoll {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.polls[waitKey]
	if t == nil {
		t = &sharedPoll{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		if w.polls == nil {
			w.polls = map[string]*sharedPoll{}
		}
		w.polls[waitKey] = t
	}
	t.waiting++
	return t
}

// leave removes a claim. If it was the one that polls, another one takes over.
func (w *workNotifier) leave(waitKey string, t *sharedPoll, holds bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if holds {
		t.free <- struct{}{}
	}
	if t.waiting--; t.waiting == 0 {
		delete(w.polls, waitKey)
	}
}

const retryPause = 100 * time.Millisecond // after a failed try

// waitForWork calls try until it is done: at once, at each notice about the namespace,
// and once more at the deadline. Notices may be lost, and transactions of a TxEngine
// send none. So one of the claims that wait for the same work also polls. A try that
// returns an error without being done is repeated; the last error is returned.
func (e *Engine) waitForWork(ctx context.Context, namespace, waitKey string, wait time.Duration, try func(woken <-chan struct{}) (done bool, err error)) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	e.listen()
	t, polls := e.wake.join(waitKey), false
	defer func() { e.wake.leave(waitKey, t, polls) }()
	var tick, again <-chan time.Time
	pause := 10 * time.Millisecond
	if e.notices.connected.Load() {
		pause = 50 * time.Millisecond
	}
	woken := e.wake.changed(namespace)
	done, err := try(woken)
	for !done {
		if err != nil && again == nil {
			again = time.After(retryPause + rand.N(retryPause))
		}
		select {
		case <-again:
			again, woken = nil, e.wake.changed(namespace)
			done, err = try(woken)
		case <-t.free:
			polls, tick = true, time.After(pause)
		case <-woken:
			woken = e.wake.changed(namespace)
			done, err = try(woken)
		case <-tick:
			if !e.pollChanged(ctx) {
				pause = min(2*pause, e.opts.PollInterval)
				woken = e.wake.changed(namespace)
				if done, err = try(woken); done && err == nil {
					e.wake.wakeAll(namespace) // no notice has reached the other claims
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

// pollChanged asks SQLite, at most every 20 ms per process, whether another connection
// wrote, and then wakes every waiting claim. It returns false on PostgreSQL and if
// SQLite returns an error: then claims poll themselves.
func (e *Engine) pollChanged(ctx context.Context) bool {
	ask := e.db.Dialect().Changed
	if ask == nil {
		return false
	}
	e.heads.mu.Lock()
	defer e.heads.mu.Unlock()
	if clock.Now().Sub(e.heads.asked) < 20*time.Millisecond {
		return true
	}
	n, err := ask(ctx)
	if err != nil {
		return false
	}
	e.heads.asked = clock.Now() // asking costs microseconds
	if n != e.heads.version {
		e.heads.version = n
		clear(e.heads.known)
		e.wake.wakeAll("")
	}
	return true
}
