package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/store"
)

// The interval at which messages that are being read are checked for other processes'
// writes (half of it after a check that found some), and how much of each message is
// cached.
const (
	watchPoll       = 100 * time.Millisecond
	watchPollSQLite = 20 * time.Millisecond
	watchRows       = 64 // a reader that is further behind reads from the database
	watchBytes      = 1 << 20
	chunkBytes      = 200 // overhead of a chunk besides its text
)

// messageWatcher watches the messages that are being read. Writes of this process are
// passed on directly. Writes of other processes are read by one query for all messages
// at each poll, whatever the number of readers. Readers hold no connection while they
// wait.
type messageWatcher struct {
	db   store.DB
	log  *slog.Logger
	poll time.Duration

	mu       sync.Mutex
	messages map[string]*watchedMessage
	woken    chan struct{}
	stop     context.CancelFunc
	work     sync.WaitGroup
	closed   bool
}

// watchedMessage is the head of a message and its newest chunks.
type watchedMessage struct {
	readers int
	head    store.MessageHead
	rows    []watchedRow // the last of them ends at the head
	bytes   int
	changed chan struct{} // closed when the head moves
}

type watchedRow struct {
	at      int64
	attempt int
	size    int
	chunks  []pawl.Chunk
}

func (t *watchedMessage) move() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// join starts to watch a message for a reader; h is the state that the reader has seen.
func (ts *messageWatcher) join(h store.MessageHead) (leave func(), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, errWatcherClosed
	}
	t := ts.messages[h.ID]
	if t == nil {
		if ts.messages == nil {
			ts.messages = map[string]*watchedMessage{}
			ts.woken = make(chan struct{}, 1)
		}
		t = &watchedMessage{head: h, changed: make(chan struct{})}
		ts.messages[h.ID] = t
		if len(ts.messages) == 1 {
			ctx, stop := context.WithCancel(context.Background())
			ts.stop = stop
			ts.work.Go(func() { ts.run(ctx) })
		}
	}
	t.readers++
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if t.readers--; t.readers > 0 {
			return
		}
		if delete(ts.messages, h.ID); len(ts.messages) == 0 {
			ts.stop()
		}
	}, nil
}

var errWatcherClosed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "follow", Message: "the database has been closed"}

func (ts *messageWatcher) close() {
	ts.mu.Lock()
	ts.closed = true
	if ts.stop != nil {
		ts.stop()
	}
	for _, t := range ts.messages {
		t.move()
	}
	ts.mu.Unlock()
	ts.work.Wait()
}

// appended takes over chunks that this process has committed.
func (ts *messageWatcher) appended(c *pawl.AppendCall, body string, takenOver bool) {
	ts.mu.Lock()
	t := ts.messages[c.MessageID]
	fits := t != nil && !takenOver && t.head.Chunks == c.Offset
	if fits && !slices.ContainsFunc(c.Chunks, func(c pawl.Chunk) bool { return c.Input != nil || c.Output != nil || c.Data != nil }) {
		t.add(watchedRow{c.Offset, c.Attempt, rowBytes(body, len(c.Chunks)), slices.Clone(c.Chunks)}) // the caller keeps its slice
		t.trim()
		t.move()
		t = nil
	}
	ts.mu.Unlock()
	switch {
	case t == nil:
	case fits: // they contain JSON: decode them as they are stored
		ts.take(c.MessageID, []store.ChunkRow{{Seq: c.Offset, Count: len(c.Chunks), Attempt: c.Attempt, Body: body}})
	default:
		ts.wake()
	}
}

// add appends a row if it follows the head.
func (t *watchedMessage) add(r watchedRow) {
	if r.at == t.head.Chunks {
		t.rows, t.bytes, t.head.Chunks = append(t.rows, r), t.bytes+r.size, r.at+int64(len(r.chunks))
	}
}

func rowBytes(body string, chunks int) int { return len(body) + chunks*chunkBytes }

// trim keeps the cached chunks within their bounds.
func (t *watchedMessage) trim() {
	for len(t.rows) > 1 && (len(t.rows) > watchRows || t.bytes > watchBytes) {
		t.bytes -= t.rows[0].size
		t.rows[0] = watchedRow{}
		t.rows = t.rows[1:]
	}
}

// take decodes rows and adds those that follow the head.
func (ts *messageWatcher) take(id string, rows []store.ChunkRow) {
	fresh := make([]watchedRow, 0, len(rows))
	for i := range rows {
		chunks, err := rows[i].Decode()
		if err != nil {
			ts.log.Error("a message cannot be followed", "message_id", id, "error", err)
			return
		}
		fresh = append(fresh, watchedRow{rows[i].Seq, rows[i].Attempt, rowBytes(rows[i].Body, len(chunks)), chunks})
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.messages[id]
	if t == nil {
		return
	}
	before := t.head.Chunks
	for _, r := range fresh {
		t.add(r)
	}
	if t.trim(); t.head.Chunks > before {
		t.move()
	}
}

// changed triggers a check after this process changed a message other than by
// appending.
func (ts *messageWatcher) changed(id string) {
	ts.mu.Lock()
	t := ts.messages[id]
	ts.mu.Unlock()
	if t != nil {
		ts.wake()
	}
}

// wake triggers a check of the database.
func (ts *messageWatcher) wake() {
	ts.mu.Lock()
	woken := ts.woken
	ts.mu.Unlock()
	select {
	case woken <- struct{}{}:
	default:
	}
}

// run checks the database until ctx ends.
func (ts *messageWatcher) run(ctx context.Context) {
	failed := false
	timer := time.NewTimer(ts.poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-ts.woken:
		}
		news, err := ts.look(ctx)
		pause := ts.poll
		if news {
			pause /= 2
		}
		timer.Reset(pause)
		if err != nil && ctx.Err() == nil && !failed {
			ts.log.WarnContext(ctx, "messages cannot be followed; it is tried again", "error", err)
		}
		failed = err != nil
	}
}

// look reads the heads of all watched messages, and the new chunks of each.
func (ts *messageWatcher) look(ctx context.Context) (news bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, commit.FlushLimit)
	defer cancel()
	known := map[string]int64{}
	ts.mu.Lock()
	for id, t := range ts.messages {
		known[id] = t.head.Chunks
	}
	ts.mu.Unlock()
	ids := make([]string, 0, len(known))
	for id := range known {
		ids = append(ids, id)
	}
	var heads []store.MessageHead
	var fresh map[string][]store.ChunkRow
	err = ts.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if heads, err = store.MessageHeads(ctx, tx, ids); err != nil {
			return err
		}
		var places []store.ChunkPosition
		for _, h := range heads {
			if h.Chunks > known[h.ID] {
				places = append(places, store.ChunkPosition{MessageID: h.ID, From: known[h.ID]})
			}
		}
		if fresh = nil; places != nil {
			fresh, err = ts.db.Dialect().Hot.Tail(ctx, tx, places, watchRows)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	for _, h := range heads {
		ts.cuts(h) // the cut comes before the chunks that follow it
		ts.take(h.ID, fresh[h.ID])
		ts.settle(h)
		delete(known, h.ID)
	}
	for id := range known { // deleted
		ts.settle(store.MessageHead{ID: id})
	}
	return fresh != nil, nil
}

func (ts *messageWatcher) cuts(h store.MessageHead) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.messages[h.ID]; t != nil && len(h.Cuts) > len(t.head.Cuts) {
		t.head.Cuts = h.Cuts
		t.move()
	}
}

// settle takes over the rest of a head, unless a newer one is known.
func (ts *messageWatcher) settle(h store.MessageHead) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.messages[h.ID]
	if t == nil || h.State != "" && h.Chunks < t.head.Chunks {
		return
	}
	if h.Chunks > t.head.Chunks { // more than is cached: readers read it from the database
		t.rows, t.bytes, t.head.Chunks = nil, 0, h.Chunks
		t.move()
	}
	if h.State != t.head.State {
		t.head.State = h.State
		t.move()
	}
}

// now returns a message's head and its cached chunks from a number on.
func (ts *messageWatcher) now(id string, from int64) (h store.MessageHead, rows []watchedRow, moved chan struct{}, closed bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.messages[id]
	if t == nil || ts.closed {
		return h, nil, nil, true
	}
	for i := range t.rows {
		if r := &t.rows[i]; from >= t.rows[0].at && r.at+int64(len(r.chunks)) > from {
			rows = slices.Clone(t.rows[i:])
			break
		}
	}
	return t.head, rows, t.changed, false
}
