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
	wakeGap      = 200 * time.Millisecond // least time between two wakes for changes that leave a task's state
	failGap      = time.Second            // between two wakes while the tasks cannot be read
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
	fresh  bool     // a call has joined since the last look began
	mark   taskMark // for which its calls were woken last
	wokeAt time.Time
}

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
	t.fresh = true
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
		again, err := w.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !failed {
				w.options.Log.WarnContext(ctx, "the tasks that calls wait for cannot be read; retrying", "error", err)
			}
			w.wakeAll() // each call reads its task itself, and learns why it cannot
		}
		failed = err != nil
		if !pause(ctx, min(max(lookGap, lookShare*clock.Now().Sub(began)), lookMost)) {
			return
		}
		switch {
		case failed:
			timer.Reset(failGap)
		case again:
			timer.Reset(wakeGap)
		case hub.Complete():
			timer.Reset(pollComplete)
		default:
			timer.Reset(w.options.Poll)
		}
	}
}

// wakeAll wakes all calls that wait.
func (w *Waits) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.tasks {
		w.options.Hub.Wake(watch.Task(id))
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

// look reads the marks of the tasks and wakes the calls that wait for those that have
// changed. A change of state, and a call that has joined, wake at once; other changes at most
// once in wakeGap: again says that one is left for later.
func (w *Waits) look(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(store.For(ctx, store.Background), lookLimit)
	defer cancel()
	w.mu.Lock()
	ids, joined := make([]string, 0, len(w.tasks)), map[string]bool{}
	for id, t := range w.tasks {
		ids, joined[id] = append(ids, id), t.fresh
		t.fresh = false
	}
	w.mu.Unlock()
	if len(ids) == 0 {
		return false, nil
	}
	var marks map[string]taskMark
	err = w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		marks, err = taskMarks(ctx, tx, ids)
		return err
	})
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clock.Now()
	for _, id := range ids {
		t, mark := w.tasks[id], marks[id] // zero = the task was deleted
		switch {
		case t == nil || !joined[id] && mark == t.mark:
		case joined[id] || mark.State != t.mark.State || now.Sub(t.wokeAt) >= wakeGap:
			t.mark, t.wokeAt = mark, now
			w.options.Hub.Wake(watch.Task(id))
		default:
			again = true
		}
	}
	return again, nil
}
