package queue

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/watch"
)

// waits has the claims that wait for work, and what is known of that work.
type waits struct {
	mu         sync.Mutex
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

// Next returns a channel that is closed at the next notice of work of a namespace.
func (q *Queues) Next(namespace string) <-chan struct{} {
	return q.options.Hub.Next(watch.Work(namespace))
}

// SetEmpty records a claim that got less than it asked for; until is the channel that
// it began with.
func (q *Queues) SetEmpty(namespace string, types []string, until <-chan struct{}) {
	w := &q.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.emptyHints == nil {
		w.emptyHints = map[string]emptyHint{}
	}
	w.emptyHints[namespace] = emptyHint{types, until}
}

// IsEmpty reports whether a claim that begins would find nothing (empty), and whether
// it must read the queues from the start to be sure (look).
func (q *Queues) IsEmpty(namespace string, types []string, until <-chan struct{}) (empty, look bool) {
	w := &q.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	hint := w.emptyHints[namespace]
	return hint.until == until && slices.Equal(hint.types, types), w.remote[namespace]
}

func (w *waits) setRemote(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remote == nil {
		w.remote = map[string]bool{}
	}
	w.remote[namespace] = true
}

// clearRemote records that a claim is about to read the queues from the start.
func (w *waits) clearRemote(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.remote, namespace)
}

// any reports whether a claim waits.
func (w *waits) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.polls) > 0
}

// sharedPoll is shared by the claims that wait for the same work. The claim that received
// from free polls for all of them.
type sharedPoll struct {
	waiting int
	free    chan struct{}
}

// join adds a claim to those that wait for the same work.
func (w *waits) join(key string) *sharedPoll {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.polls[key]
	if p == nil {
		p = &sharedPoll{free: make(chan struct{}, 1)}
		p.free <- struct{}{}
		if w.polls == nil {
			w.polls = map[string]*sharedPoll{}
		}
		w.polls[key] = p
	}
	p.waiting++
	return p
}

// shared reports whether other claims wait for the same work.
func (w *waits) shared(p *sharedPoll) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.waiting > 1
}

// leave removes a claim. If it was the polling claim, another one takes over.
func (w *waits) leave(key string, p *sharedPoll, polls bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if polls {
		p.free <- struct{}{}
	}
	if p.waiting--; p.waiting == 0 {
		delete(w.polls, key)
	}
}

// Pauses of a waiting claim: the first one between polls, and the one after a failed try.
const (
	pollPause      = 10 * time.Millisecond
	pollPauseHears = 50 * time.Millisecond // if notices arrive
	retryPause     = 100 * time.Millisecond
)

// Try is a try to claim. woken is closed at the next notice of work.
type Try = func(woken <-chan struct{}) Tried

// Tried is the outcome of a Try. If it has an error and is not done, it is tried again.
type Tried struct {
	Done  bool
	Again time.Duration // it is tried again after this time, too; 0 = none is known
	// Others reports that there may be work which the claim's own worker must not have.
	Others bool
	Err    error
}

// WhenWoken returns a Try that knows no time at which it may succeed.
func WhenWoken(try func(woken <-chan struct{}) (done bool, err error)) Try {
	return func(woken <-chan struct{}) Tried {
		done, err := try(woken)
		return Tried{Done: done, Err: err}
	}
}

// Wait calls try until it is done: at once, at each notice about the namespace, and once
// more at the deadline. It returns the last error. Notices may be lost, and transactions
// of the caller's own send none. So one of the claims that wait for the same work (key)
// also polls, unless the hub detects every commit. What its worker must not have, the others try.
func (q *Queues) Wait(ctx context.Context, namespace, key string, wait time.Duration, try Try) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	hub, p, polls := q.options.Hub, q.waits.join(key), false
	defer func() { q.waits.leave(key, p, polls) }()
	woken := q.Next(namespace)
	was := try(woken)
	if was.Done {
		return was.Err
	}
	defer hub.Attend()()
	var tick, again <-chan time.Time
	pause := pollPause
	if hub.Listening() {
		pause = pollPauseHears
	}
	for !was.Done {
		switch {
		case was.Err != nil && again == nil:
			again = time.After(retryPause + rand.N(retryPause))
		case was.Again > 0:
			again, was.Again = time.After(was.Again), 0
		}
		select {
		case <-again:
			again, woken = nil, q.Next(namespace)
			was = try(woken)
		case <-p.free:
			polls, tick = true, time.After(pause)
		case <-woken:
			woken = q.Next(namespace)
			was = try(woken)
		case <-tick:
			if !hub.Complete() {
				pause = min(2*pause, q.options.PollInterval)
				woken = q.Next(namespace)
				if was = try(woken); was.Err == nil && (was.Done || was.Others && q.waits.shared(p)) {
					hub.Wake(watch.Work(namespace)) // no notice has reached the other claims
					woken = q.Next(namespace)
				}
			}
			tick = time.After(pause + rand.N(pause/2))
		case <-deadline.C:
			return try(woken).Err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return was.Err
}
