// Package stream follows messages while they are written. It caches the newest chunks of
// the messages that are read, and sends each reader what follows its position.
package messages

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// The interval at which messages that are being read are checked for writes of other
// processes. It is halved after a check that found some.
const (
	poll         = 100 * time.Millisecond
	pollSQLite   = 20 * time.Millisecond
	pollComplete = time.Second // while the hub detects every commit
	lookLimit    = 30 * time.Second
)

// watcher watches the messages that are being read. Writes of this process are passed on
// directly. Writes of other processes are read by one query for all messages at each
// check, whatever the number of readers. Waiting readers hold no connection.
type watcher struct {
	options options

	mu       sync.Mutex
	messages map[string]*watched
	epoch    int64 // of what is known of the messages
	stop     context.CancelFunc
	work     sync.WaitGroup
	closed   bool
}

// options of a watcher; all but Settle are required.
type options struct {
	DB  store.DB
	Hub *watch.Hub
	Log *slog.Logger
	// Settle returns when the feed has looked whether the database went back in time; nil = it
	// cannot.
	Settle func(ctx context.Context) error
}

// watching returns the watcher of a database's messages. Call Close at the end.
func watching(o options) *watcher { return &watcher{options: o} }

// moved wakes the readers of a message: its head has moved, or it is no longer watched.
func (w *watcher) moved(id string) { w.options.Hub.Wake(watch.Message(id)) }

// join starts to watch a message for a reader; h is the state that the reader has seen.
func (w *watcher) join(h messageHead) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	t := w.messages[h.ID]
	if t == nil {
		if w.messages == nil {
			w.messages = map[string]*watched{}
		}
		t = &watched{head: h}
		w.messages[h.ID] = t
		if len(w.messages) == 1 {
			ctx, stop := context.WithCancel(context.Background())
			w.stop = stop
			woken := w.options.Hub.Next(watch.Messages())
			w.work.Go(func() { w.run(ctx, woken) })
		}
	}
	t.readers++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.readers--; t.readers > 0 {
			return
		}
		w.moved(h.ID)
		if delete(w.messages, h.ID); len(w.messages) == 0 {
			w.stop()
		}
	}, nil
}

var errClosed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "follow", Message: "the database has been closed"}

// close stops the checks and wakes all readers, which then return that the database is
// closed.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	if w.stop != nil {
		w.stop()
	}
	for id := range w.messages {
		w.moved(id)
	}
	w.mu.Unlock()
	w.work.Wait()
}

// changed triggers a check after this process changed a message other than by
// appending.
func (w *watcher) changed(id string) {
	w.mu.Lock()
	t := w.messages[id]
	w.mu.Unlock()
	if t != nil {
		w.wake()
	}
}

// wake triggers a check of the database.
func (w *watcher) wake() { w.options.Hub.Wake(watch.Messages()) }

// run checks the database until ctx ends.
func (w *watcher) run(ctx context.Context, woken <-chan struct{}) {
	hub, every := w.options.Hub, poll
	if w.options.DB.Dialect().DataVersion {
		every = pollSQLite
		defer hub.Attend()()
	}
	failed := false
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-woken:
		}
		woken = hub.Next(watch.Messages())
		news, err := w.look(ctx)
		pause := every
		switch {
		case news:
			pause /= 2
		case err == nil && hub.Complete():
			pause = pollComplete
		}
		timer.Reset(pause)
		if err != nil && ctx.Err() == nil && !failed {
			w.options.Log.WarnContext(ctx, "messages cannot be followed; retrying", "error", err)
		}
		failed = err != nil
	}
}

// look reads the heads of all watched messages, and the new chunks of each.
func (w *watcher) look(ctx context.Context) (news bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	known := map[string]int64{}
	w.mu.Lock()
	for id, t := range w.messages {
		known[id] = t.head.Chunks
	}
	w.mu.Unlock()
	ids := make([]string, 0, len(known))
	for id := range known {
		ids = append(ids, id)
	}
	var epoch int64
	var heads []messageHead
	var fresh map[string][]store.ChunkRow
	err = w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if epoch, err = store.FeedEpoch(ctx, tx); err != nil {
			return err
		}
		if heads, err = messageHeads(ctx, tx, ids); err != nil {
			return err
		}
		var places []store.ChunkPosition
		for _, h := range heads {
			if h.Chunks > known[h.ID] {
				places = append(places, store.ChunkPosition{MessageID: h.ID, From: known[h.ID]})
			}
		}
		if fresh = nil; places != nil {
			fresh, err = w.options.DB.Dialect().Hot.Tail(ctx, tx, places, cacheRows)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	w.enter(epoch)
	for _, h := range heads {
		w.cuts(h) // the cut comes before the chunks that follow it
		w.take(h.ID, fresh[h.ID])
		w.settle(h)
		delete(known, h.ID)
	}
	for id := range known { // deleted
		w.settle(messageHead{ID: id})
	}
	return fresh != nil, nil
}

// enter forgets what is known of messages in an earlier epoch, and wakes their readers: the
// database went back in time, and the chunks that they have may be lost.
func (w *watcher) enter(epoch int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if epoch <= w.epoch {
		return
	}
	w.epoch = epoch
	for id, t := range w.messages {
		t.rows, t.bytes = nil, 0
		t.head.Chunks, t.head.Cuts = 0, nil
		w.moved(id)
	}
}

// messageHead is the current state of a message without its content.
type messageHead struct {
	Epoch  int64 // of the feed
	ID     string
	State  string
	Chunks int64
	Step   int
	Cuts   []pawl.Cut
}

// messageHeads reads the heads of messages.
func messageHeads(ctx context.Context, tx store.Tx, ids []string) ([]messageHead, error) {
	return store.All(ctx, tx, texts["heads"], []any{store.List(ids)}, func(rows store.Rows, h *messageHead) error {
		var cuts store.Text
		if err := rows.Scan(&h.ID, &h.State, &h.Chunks, &h.Step, &cuts); err != nil {
			return err
		}
		h.Cuts = store.CutsOf(cuts)
		return nil
	})
}
