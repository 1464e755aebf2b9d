// Package taskwait wakes the calls that wait for a change of a task. However many there are,
// one query at a time looks at all their tasks, and only after a commit that may concern them.
package taskwait

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// The pauses between two looks at the tasks.
const (
	lookGap      = 10 * time.Millisecond  // at least, however many commits there are, and
	lookShare    = 10                     // times as long as the look took
	lookMost     = 200 * time.Millisecond // the longest such pause
	pollComplete = 10 * time.Second       // at most, while the hub learns of every commit
	lookLimit    = 30 * time.Second
)

// Waits has the tasks that calls of this process wait for.
type Waits struct {
	options Options

	mu     sync.Mutex
	tasks  map[string]*task
	joined chan struct{} // a call has joined; of the present run
	stop   context.CancelFunc
	closed bool
	work   sync.WaitGroup
}

// task is a task that calls wait for.
type task struct {
	calls  int
	newest int64 // its newest event at the last look; unseen before the first
}

const unseen = -1

// Options of Waits; all are required.
type Options struct {
	DB  store.DB
	Hub *watch.Hub
	// Poll is the longest time between two looks while another process may commit without
	// the hub learning of it.
	Poll time.Duration
	Log  *slog.Logger
}

// New returns the waits of a database. Call Close at the end.
func New(o Options) *Waits { return &Waits{options: o} }

// ErrClosed is the error of a wait that Close ended.
var ErrClosed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "await", Message: "the database has been closed"}

// Await calls look at once and after each change of a task, until look is done or fails. It
// ends with ctx's error, or with ErrClosed.
func (w *Waits) Await(ctx context.Context, id string, look func(ctx context.Context) (done bool, err error)) error {
	if done, err := look(ctx); done || err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hub, joined := w.options.Hub, false
	leave := func() {}
	defer func() { leave() }()
	err := hub.Wait(ctx, watch.Task(id), func() (bool, error) {
		if joined {
			return look(ctx)
		}
		// From here on each change wakes this call. The first look at the tasks wakes it
		// too, because the task may have changed since the call looked.
		joined = true
		var err error
		leave, err = w.join(id)
		return false, err
	})
	if errors.Is(err, watch.ErrClosed) {
		return ErrClosed
	}
	return err
}

// join adds a call that waits for a task.
func (w *Waits) join(id string) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return func() {}, ErrClosed
	}
	t := w.tasks[id]
	if t == nil {
		t = &task{}
		if w.tasks == nil {
			w.tasks = map[string]*task{}
		}
		w.tasks[id] = t
	}
	t.calls++
	t.newest = unseen
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		joined := make(chan struct{}, 1)
		w.stop, w.joined = stop, joined
		w.work.Go(func() { w.run(ctx, joined) })
	}
	select {
	case w.joined <- struct{}{}:
	default:
	}
	return func() { w.leave(id, t) }, nil
}

func (w *Waits) leave(id string, t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.calls--; t.calls > 0 {
		return
	}
	if delete(w.tasks, id); len(w.tasks) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
	w.options.Hub.Wake(watch.Task(id)) // the hub forgets the topic
}

// Close ends the looks. Close the hub too: that ends each wait.
func (w *Waits) Close() {
	w.mu.Lock()
	w.closed = true
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	w.mu.Unlock()
	w.work.Wait()
}

// run looks at the tasks after commits, and at an interval, until ctx ends.
func (w *Waits) run(ctx context.Context, joined <-chan struct{}) {
	hub := w.options.Hub
	defer hub.Attend()()
	failed := false
	timer := time.NewTimer(w.options.Poll)
	defer timer.Stop()
	for woken := hub.Next(watch.Commits()); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-woken:
		case <-joined:
		}
		woken = hub.Next(watch.Commits())
		began := clock.Now()
		err := w.look(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			w.options.Log.WarnContext(ctx, "the tasks that calls wait for cannot be read; retrying", "error", err)
		}
		failed = err != nil
		if !pause(ctx, min(max(lookGap, lookShare*clock.Now().Sub(began)), lookMost)) {
			return
		}
		poll := w.options.Poll
		if err == nil && hub.Complete() {
			poll = pollComplete
		}
		timer.Reset(poll)
	}
}

// pause waits for d; false = ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look reads the newest event of each task and wakes the calls that wait for those that have
// changed.
func (w *Waits) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(store.For(ctx, store.Background), lookLimit)
	defer cancel()
	w.mu.Lock()
	ids := make([]string, 0, len(w.tasks))
	seen := make(map[string]int64, len(w.tasks))
	for id, t := range w.tasks {
		if t.newest == unseen {
			t.newest = unseen - 1 // a call that joins during the look is woken by the next one
		}
		ids, seen[id] = append(ids, id), t.newest
	}
	w.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	var newest map[string]int64
	err := w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		newest, err = store.NewestEvents(ctx, tx, ids)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, t := range w.tasks {
		before, looked := seen[id]
		if now := newest[id]; looked && now != before { // 0 = it was deleted
			if t.newest == before {
				t.newest = now
			}
			w.options.Hub.Wake(watch.Task(id))
		}
	}
	return nil
}
