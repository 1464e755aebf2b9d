package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// How often it is looked for what other processes wrote to messages that are
// being read (twice as often after a look that found something), and what is kept
// of each at hand.
const (
	watchPoll       = 100 * time.Millisecond
	watchPollSQLite = 20 * time.Millisecond
	watchRows       = 64 // who is further behind reads for himself
	watchBytes      = 1 << 20
	chunkBytes      = 200 // that a chunk takes besides its words
)

// messageWatcher are the messages that somebody reads. Whatever is written to them by this
// process comes by itself, the rest by one query for all of them at each poll,
// however many readers there are; readers wait without a connection.
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

// watchedMessage is how far a message is, and its newest chunks.
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

// join makes a message's tail attentive; a reader brings what he has seen of it.
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

// appended takes what this process has committed.
func (ts *messageWatcher) appended(c *pawl.AppendCall, body string, takenOver bool) {
	ts.mu.Lock()
	t := ts.messages[c.MessageID]
	fits := t != nil && !takenOver && t.head.Chunks == c.Offset
	if fits && !slices.ContainsFunc(c.Chunks, func(c pawl.Chunk) bool { return c.Input != nil || c.Output != nil || c.Data != nil }) {
		t.add(watchedRow{c.Offset, c.Attempt, rowBytes(body, len(c.Chunks)), slices.Clone(c.Chunks)}) // the caller's slice is his own
		t.trim()
		t.move()
		t = nil
	}
	ts.mu.Unlock()
	switch {
	case t == nil:
	case fits: // JSON within them: read back as it is kept
		ts.take(c.MessageID, []store.ChunkRow{{Seq: c.Offset, Count: len(c.Chunks), Attempt: c.Attempt, Body: body}})
	default:
		ts.wake()
	}
}

// add takes a row, if it is its turn.
func (t *watchedMessage) add(r watchedRow) {
	if r.at == t.head.Chunks {
		t.rows, t.bytes, t.head.Chunks = append(t.rows, r), t.bytes+r.size, r.at+int64(len(r.chunks))
	}
}

func rowBytes(body string, chunks int) int { return len(body) + chunks*chunkBytes }

// trim keeps what is at hand within its bounds.
func (t *watchedMessage) trim() {
	for len(t.rows) > 1 && (len(t.rows) > watchRows || t.bytes > watchBytes) {
		t.bytes -= t.rows[0].size
		t.rows[0] = watchedRow{}
		t.rows = t.rows[1:]
	}
}

// take adds rows behind the head.
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

// changed says that this process changed a message otherwise.
func (ts *messageWatcher) changed(id string) {
	ts.mu.Lock()
	t := ts.messages[id]
	ts.mu.Unlock()
	if t != nil {
		ts.wake()
	}
}

// wake has the database looked at now.
func (ts *messageWatcher) wake() {
	ts.mu.Lock()
	woken := ts.woken
	ts.mu.Unlock()
	select {
	case woken <- struct{}{}:
	default:
	}
}

// run looks at the database while anybody reads.
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

// look reads how far all followed messages are, and what is new of each.
func (ts *messageWatcher) look(ctx context.Context) (news bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
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
		ts.cuts(h) // before the chunks that stand after a cut
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

// settle takes what else a head says, unless more is known by now.
func (ts *messageWatcher) settle(h store.MessageHead) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.messages[h.ID]
	if t == nil || h.State != "" && h.Chunks < t.head.Chunks {
		return
	}
	if h.Chunks > t.head.Chunks { // more than is kept at hand: readers read it themselves
		t.rows, t.bytes, t.head.Chunks = nil, 0, h.Chunks
		t.move()
	}
	if h.State != t.head.State {
		t.head.State = h.State
		t.move()
	}
}

// now is how far a message is and what is at hand of it from a number on.
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
