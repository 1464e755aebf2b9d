// Package feed puts all events into one order: each event gets a position after its
// commit. A reader that follows the positions misses no event and gets none twice. The
// events of a task are in the order of their commits.
//
// Use one Feed per process. All its readers together cost the database one query for new
// events, and none while they wait.
package feed

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// Options configure a Feed. The zero value works.
type Options struct {
	// Poll bounds how late a reader sees events of another process if the notification
	// is lost; 0 = 250 ms. SQLite is polled every 20 ms, which costs microseconds.
	Poll time.Duration
	// Hub tells of commits, and is told when the feed moves; nil = one of its own, which
	// hears of nothing but SQLite's commits.
	Hub *watch.Hub
	// Counted is called with what this process added to the counters of the queues, after the
	// commit; nil = not called. A process that dies before the call has not called it.
	Counted func(*store.Tally)
	// Entered is called when the database is found in a newer epoch than before; nil = not called. What was read of it
	// before may be lost.
	Entered func()
	// Log gets a line for each error; nil = slog.Default.
	Log *slog.Logger
}

// The pace of poll: the least time between two queries for the newest position (gap), and the longest time
// without a notification (poll).
const (
	minGapReading = 5 * time.Millisecond
	minGapIdle    = 100 * time.Millisecond
	pollIdle      = time.Second
	pollSQLite    = 20 * time.Millisecond
	queryTimeout  = 30 * time.Second
)

// Feed reads the events of a database in the order of their positions. It is safe for
// concurrent use. Close it when you are done.
type Feed struct {
	db      store.DB
	opts    Options
	commits *store.Commits // nil = an event's number is its position (SQLite)
	hub     *watch.Hub
	ownsHub bool // the hub

	mu          sync.Mutex
	head        int64           // the newest position known
	state       store.FeedState // the epoch and the starts of epochs, read with head
	next        *headQuery      // the query that follows the current one
	waiting     int             // readers
	pollers     int             // readers, and Run
	stop        context.CancelFunc
	closed      bool
	recentUntil time.Time   // until then the feed counts as read without a waiting reader
	noEvents    store.Span  // positions in which Read found no event
	roots       []sizedRoot // of the log at positions that were the newest, in order

	refreshing    sync.Mutex // one query at a time
	work          sync.WaitGroup
	cache         cache
	uncachedReads chan struct{} // limits the readers of events that are not cached any more

	lags atomic.Bool // the log lacks removals: the next query adds them

	// State of the current query.
	assigned    bool // it assigned positions
	version     int64
	server      store.Server // that answered last
	checked     store.Server // that has all that this process has read
	edge        store.Edge   // of the log, after the last positions that were assigned here
	runningAt   time.Time
	pendingGaps []pendingGap
	prepared    map[string]prepared // prepared transactions, by number
}

// headQuery is one query for the newest position, shared by all callers that wait for it.
type headQuery struct {
	done chan struct{}
	err  error
}

// New returns the feed of a database.
func New(db store.DB, o Options) *Feed {
	if o.Poll <= 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	ownsHub := o.Hub == nil
	if ownsHub {
		w := watch.Options{Log: o.Log}
		if d := db.Dialect(); d.DataVersion {
			w.Version = d.Changed
		}
		o.Hub = watch.New(w)
	}
	return &Feed{
		db:            db,
		opts:          o,
		commits:       db.Dialect().Commits,
		hub:           o.Hub,
		ownsHub:       ownsHub,
		uncachedReads: make(chan struct{}, 2),
	}
}

func (f *Feed) count(t *store.Tally) {
	if f.opts.Counted != nil {
		f.opts.Counted(t)
	}
}

// Run assigns positions and adds events to the transparency log until ctx ends, with or
// without readers. Any number of processes may run it: a lock serializes their turns.
func (f *Feed) Run(ctx context.Context) {
	if f.commits != nil {
		f.startPolling(0)
		defer f.stopPolling(0)
	}
	f.logLoop(ctx)
}

// Close stops the feed and waits for its goroutines. Waiting readers get an error of
// code unavailable.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	if f.stop != nil {
		f.stop()
	}
	f.mu.Unlock()
	f.hub.Wake(watch.Feed())
	f.work.Wait()
	if f.ownsHub {
		f.hub.Close()
	}
}

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "feed", Message: "the database has been closed"}

// Newest returns the newest position that this process knows of, without a query.
func (f *Feed) Newest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head
}

// Head returns the newest position. Everything that was committed before the call is at
// or below it.
func (f *Feed) Head(ctx context.Context) (int64, error) {
	err := f.refresh(ctx)
	return f.Newest(), err
}

// Begin returns the position at which a reader starts: the newest position if
// at.Position is negative; otherwise at, with position 0 moved to the current epoch. A
// position of an older epoch is a conflict with reason epoch.
func (f *Feed) Begin(ctx context.Context, at pawl.FeedPosition) (pawl.FeedPosition, error) {
	if err := f.refresh(ctx); err != nil {
		return at, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Position <= 0 {
		at.Epoch = f.state.Epoch
	}
	if at.Position < 0 {
		at.Position = f.head
	}
	return at, f.checkEpoch(at)
}

// Check returns a conflict with reason epoch if a position is not of the database's present
// epoch, with a query that begins after the call.
func (f *Feed) Check(ctx context.Context, at pawl.FeedPosition) error {
	_, err := f.Begin(ctx, at)
	return err
}

// Epoch returns the newest epoch that this process knows of.
func (f *Feed) Epoch() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Epoch
}

// Read is ReadAt in the current epoch.
func (f *Feed) Read(ctx context.Context, after int64, limit int) ([]pawl.Event, error) {
	return f.ReadAt(ctx, pawl.FeedPosition{Epoch: f.Epoch(), Position: after}, limit)
}

// ReadAt reads up to limit events of all namespaces after a position, in order. It
// returns none only if there is none: everything that was committed before the call is
// included. The events are shared with other readers: do not modify what they point to.
func (f *Feed) ReadAt(ctx context.Context, after pawl.FeedPosition, limit int) ([]pawl.Event, error) {
	fresh, from := false, after.Position
	for {
		events, through, err := f.Page(ctx, after, limit)
		if err != nil || len(events) > 0 {
			return events, err
		}
		if through.Position > after.Position {
			after = through
			continue
		}
		if fresh {
			f.noteEmpty(from, after.Position)
			return nil, nil
		}
		if err := f.refresh(ctx); err != nil {
			return nil, err
		}
		fresh = true
	}
}

// Wait is WaitAt in the current epoch.
func (f *Feed) Wait(ctx context.Context, after int64) error {
	return f.WaitAt(ctx, pawl.FeedPosition{Epoch: f.Epoch(), Position: after})
}

// WaitAt returns nil when there may be an event after a position or the epoch has
// changed, and ctx's error when ctx ends.
func (f *Feed) WaitAt(ctx context.Context, after pawl.FeedPosition) error {
	defer f.Follow()()
	f.mu.Lock()
	if f.noEvents.Low <= after.Position && after.Position < f.noEvents.High {
		after.Position = f.noEvents.High
	}
	f.mu.Unlock()
	return f.waitBeyond(ctx, after)
}

// noteEmpty records that there are no events between two positions any more.
func (f *Feed) noteEmpty(after, through int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if through > after && (after < f.noEvents.Low || through > f.noEvents.High) {
		f.noEvents = store.Span{Low: after, High: through}
	}
}

// Follow keeps the feed polling at its fast pace until leave is called. Use it around
// repeated calls of Next.
func (f *Feed) Follow() (leave func()) {
	leaveHub := f.hub.Attend()
	f.startPolling(1)
	return func() {
		f.stopPolling(1)
		leaveHub()
	}
}

// Next waits until the feed has a position after the given one, and reads up to limit
// events, in order. It may return fewer events than positions, or none, because old
// events are deleted. Continue after through.
func (f *Feed) Next(ctx context.Context, after pawl.FeedPosition, limit int) (events []pawl.Event, through pawl.FeedPosition, err error) {
	for {
		if err := f.waitBeyond(ctx, after); err != nil {
			return nil, after, err
		}
		if events, through, err = f.Page(ctx, after, limit); err != nil || through != after {
			return events, through, err
		}
		if !pause(ctx, f.opts.Poll, nil) { // the server that answered is a lagging replica
			return nil, after, ctx.Err()
		}
	}
}

// waitBeyond waits until the newest position is after the given one, or of another epoch.
func (f *Feed) waitBeyond(ctx context.Context, after pawl.FeedPosition) error {
	return f.hub.Wait(ctx, watch.Feed(), func() (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return false, errClosed
		}
		return f.head > after.Position || f.state.Epoch > after.Epoch, ctx.Err()
	})
}

// refresh waits for a query that begins after the call.
func (f *Feed) refresh(ctx context.Context) error {
	f.mu.Lock()
	q := f.next
	if q == nil && f.closed {
		f.mu.Unlock()
		return errClosed
	}
	if q == nil {
		q = &headQuery{done: make(chan struct{})}
		f.next = q
		f.work.Go(func() { f.runQuery(q) })
	}
	f.mu.Unlock()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runQuery executes a query. All callers that wait share it, so none of their contexts ends
// it.
func (f *Feed) runQuery(q *headQuery) {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	f.mu.Lock()
	f.next = nil
	f.assigned = false
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(store.For(context.Background(), store.Background), queryTimeout)
	defer cancel()
	defer close(q.done)
	s, err := f.sequence(ctx)
	if q.err = err; err != nil || !f.setState(s) {
		return
	}
	if f.assigned {
		f.hub.Notify(watch.Feed())
	}
}
