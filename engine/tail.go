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
// being read, and what is kept of each at hand.
const (
	tailPoll       = 100 * time.Millisecond
	tailPollSQLite = 20 * time.Millisecond
	tailRows       = 512
	tailBytes      = 1 << 20
)

// tails are the messages that somebody reads. Whatever is written to them by this
// process comes by itself, the rest by one query for all of them at each poll,
// however many readers there are; readers wait without a connection.
type tails struct {
	db   store.DB
	log  *slog.Logger
	poll time.Duration

	mu     sync.Mutex
	of     map[string]*tail
	woken  chan struct{}
	stop   context.CancelFunc
	work   sync.WaitGroup
	closed bool
}

// tail is how far a message is, and its newest chunks.
type tail struct {
	readers int
	head    store.Head
	rows    []tailRow // the last of them ends at the head
	bytes   int
	moved   chan struct{} // closed when the head moves
}

type tailRow struct {
	at     int64
	size   int
	chunks []pawl.Chunk
}

func (t *tail) move() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// join makes a message's tail attentive; a reader brings what he has seen of it.
func (ts *tails) join(h store.Head) (leave func(), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, errTailsClosed
	}
	t := ts.of[h.ID]
	if t == nil {
		if ts.of == nil {
			ts.of = map[string]*tail{}
			ts.woken = make(chan struct{}, 1)
		}
		t = &tail{head: h, moved: make(chan struct{})}
		ts.of[h.ID] = t
		if len(ts.of) == 1 {
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
		if delete(ts.of, h.ID); len(ts.of) == 0 {
			ts.stop()
		}
	}, nil
}

var errTailsClosed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "follow", Message: "the database has been closed"}

func (ts *tails) close() {
	ts.mu.Lock()
	ts.closed = true
	if ts.stop != nil {
		ts.stop()
	}
	for _, t := range ts.of {
		t.move()
	}
	ts.mu.Unlock()
	ts.work.Wait()
}

// grown takes a row that this process has committed.
func (ts *tails) grown(id string, row store.ChunkRow, takenOver bool) {
	ts.mu.Lock()
	t := ts.of[id]
	fits := t != nil && !takenOver && t.head.Chunks == row.Seq
	ts.mu.Unlock()
	switch {
	case t == nil:
	case fits:
		ts.take(id, []store.ChunkRow{row})
	default:
		ts.wake()
	}
}

// take adds rows behind the head.
func (ts *tails) take(id string, rows []store.ChunkRow) {
	fresh := make([]tailRow, 0, len(rows))
	for i := range rows {
		chunks, err := rows[i].Decode()
		if err != nil {
			ts.log.Error("a message cannot be followed", "message_id", id, "error", err)
			return
		}
		fresh = append(fresh, tailRow{rows[i].Seq, len(rows[i].Body), chunks})
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of[id]
	if t == nil {
		return
	}
	before := t.head.Chunks
	for _, r := range fresh {
		if r.at != t.head.Chunks {
			continue // known, or not yet its turn
		}
		t.rows, t.bytes, t.head.Chunks = append(t.rows, r), t.bytes+r.size, r.at+int64(len(r.chunks))
	}
	for len(t.rows) > 1 && (len(t.rows) > tailRows || t.bytes > tailBytes) {
		t.bytes -= t.rows[0].size
		t.rows = t.rows[1:]
	}
	if t.head.Chunks > before {
		t.move()
	}
}

// moved says that this process changed a message otherwise.
func (ts *tails) moved(id string) {
	ts.mu.Lock()
	t := ts.of[id]
	ts.mu.Unlock()
	if t != nil {
		ts.wake()
	}
}

// wake has the database looked at now.
func (ts *tails) wake() {
	ts.mu.Lock()
	woken := ts.woken
	ts.mu.Unlock()
	select {
	case woken <- struct{}{}:
	default:
	}
}

// run looks at the database while anybody reads.
func (ts *tails) run(ctx context.Context) {
	failed := false
	ticker := time.NewTicker(ts.poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-ts.woken:
		}
		err := ts.look(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			ts.log.WarnContext(ctx, "messages cannot be followed; it is tried again", "error", err)
		}
		failed = err != nil
	}
}

// look reads how far all followed messages are, and what is new of each.
func (ts *tails) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	known := map[string]int64{}
	ts.mu.Lock()
	for id, t := range ts.of {
		known[id] = t.head.Chunks
	}
	ts.mu.Unlock()
	ids := make([]string, 0, len(known))
	for id := range known {
		ids = append(ids, id)
	}
	var heads []store.Head
	fresh := map[string][]store.ChunkRow{}
	err := ts.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		clear(fresh)
		if heads, err = store.Heads(ctx, tx, ids); err != nil {
			return err
		}
		for _, h := range heads {
			if h.Chunks > known[h.ID] {
				if fresh[h.ID], err = store.Chunks(ctx, tx, h.ID, known[h.ID], tailRows); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range heads {
		ts.cuts(h) // before the chunks that stand after a cut
		ts.take(h.ID, fresh[h.ID])
		ts.settle(h)
		delete(known, h.ID)
	}
	for id := range known { // deleted
		ts.settle(store.Head{ID: id})
	}
	return nil
}

func (ts *tails) cuts(h store.Head) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.of[h.ID]; t != nil && len(h.Cuts) > len(t.head.Cuts) {
		t.head.Cuts = h.Cuts
		t.move()
	}
}

// settle takes what else a head says, unless more is known by now.
func (ts *tails) settle(h store.Head) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of[h.ID]
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
func (ts *tails) now(id string, from int64) (h store.Head, rows []tailRow, moved chan struct{}, closed bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of[id]
	if t == nil || ts.closed {
		return h, nil, nil, true
	}
	for i := range t.rows {
		if r := &t.rows[i]; from >= t.rows[0].at && r.at+int64(len(r.chunks)) > from {
			rows = slices.Clone(t.rows[i:])
			break
		}
	}
	return t.head, rows, t.moved, false
}

// reader is somebody's place in a message.
type reader struct {
	e     *Engine
	id    string
	ns    string
	at    int64 // the next chunk
	told  int64 // the end of the newest cut he was told of
	join  store.Joiner
	begun bool // join has seen the chunk before at
	fn    func(pawl.MessageFrame) error
}

// followPage bounds the rows that a reader takes from the database at once.
const followPage = 200

// FollowMessage follows a message; see pawl.MessageReader. The frames are shared
// with others who follow it: do not change what they point to.
func (e *Engine) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	if after < -1 {
		return pawl.Invalid("/after", "is %d: it is the number of a chunk, or -1", after)
	}
	r := &reader{e: e, id: id, ns: pawl.CallerOf(ctx).Namespace, at: after + 1, told: -1, fn: fn}
	row, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (store.MessageRow, error) {
		return store.GetMessage(ctx, tx, ns, id)
	})
	if err != nil {
		return err
	}
	if r.at > row.Offset {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "follow", Fields: []pawl.Field{{Pointer: "/after", Message: "lies ahead: no such chunk has been said"}}}
	}
	leave, err := e.tails.join(store.Head{ID: id, State: string(row.Status), Chunks: row.Offset, Cuts: row.Cuts})
	if err != nil {
		return err
	}
	defer leave()
	if err := fn(pawl.MessageFrame{Offset: r.at}); err != nil {
		return err
	}
	for {
		head, rows, moved, closed := e.tails.now(id, r.from())
		if closed {
			return errTailsClosed
		}
		if ended, err := r.advance(ctx, head, rows); err != nil || ended {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

// advance tells the reader what there is for him; ended says that nothing will come.
func (r *reader) advance(ctx context.Context, head store.Head, rows []tailRow) (ended bool, err error) {
	if head.State == "" {
		return true, pawl.NotFound("message", r.id)
	}
	for r.at < head.Chunks {
		if rows == nil {
			if rows, err = r.load(ctx); err != nil {
				return false, err
			}
			if rows == nil {
				if !pawl.MessageState(head.State).Ended() {
					return false, nil // between two heads
				}
				return true, r.snapshot(ctx)
			}
		}
		for _, row := range rows {
			if err := r.tell(head, row); err != nil {
				return false, err
			}
		}
		rows = nil
	}
	if err := r.abandoned(head, r.at); err != nil || head.State == string(pawl.MessageStreaming) {
		return false, err
	}
	return true, r.fn(pawl.MessageFrame{Offset: r.at, End: &pawl.MessageEnd{Status: pawl.MessageState(head.State), Offset: head.Chunks}})
}

// from is the first chunk that the reader needs: at first the one before his
// place, which may hold half of a character.
func (r *reader) from() int64 {
	if r.begun {
		return r.at
	}
	return max(0, r.at-1)
}

// load reads rows from the database; nil when they are not there.
func (r *reader) load(ctx context.Context) ([]tailRow, error) {
	from := r.from()
	rows, err := view(ctx, r.e, func(ctx context.Context, tx store.Tx, _ string) ([]store.ChunkRow, error) {
		return store.Chunks(ctx, tx, r.id, from, followPage)
	})
	if err != nil {
		return nil, err
	}
	var out []tailRow
	for i := range rows {
		chunks, err := rows[i].Decode()
		if err != nil {
			return nil, err
		}
		out = append(out, tailRow{at: rows[i].Seq, chunks: chunks})
	}
	if len(out) == 0 || out[0].at > from || out[len(out)-1].at+int64(len(out[len(out)-1].chunks)) <= r.at {
		return nil, nil
	}
	return out, nil
}

// tell hands a row over, from the reader's place on, in pieces where something
// was cut off in between.
func (r *reader) tell(head store.Head, row tailRow) error {
	if row.at+int64(len(row.chunks)) <= r.at && r.begun {
		return nil
	}
	frame := pawl.MessageFrame{Offset: r.at}
	for i, c := range row.chunks {
		n := row.at + int64(i)
		if n < r.at-1 || n < r.at && r.begun {
			continue
		}
		c = r.join.Next(c)
		if r.begun = true; n < r.at {
			continue
		}
		if len(frame.Chunks) == 0 {
			if err := r.abandoned(head, n); err != nil {
				return err
			}
		}
		frame.Chunks = append(frame.Chunks, c)
	}
	if len(frame.Chunks) == 0 {
		return nil
	}
	r.at += int64(len(frame.Chunks))
	return r.fn(frame)
}

// abandoned tells of what was cut off right before a chunk. A row is one
// attempt's, so no cut ends within one.
func (r *reader) abandoned(head store.Head, at int64) error {
	for i := range head.Cuts {
		if cut := head.Cuts[i]; cut.To == at && cut.To > r.told {
			r.told = cut.To
			if err := r.fn(pawl.MessageFrame{Offset: at, Abandoned: &cut}); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshot is for a reader whose chunks are gone: the whole message, and its end.
func (r *reader) snapshot(ctx context.Context) error {
	m, err := view(ctx, r.e, func(ctx context.Context, tx store.Tx, _ string) (pawl.Message, error) {
		row, err := store.GetMessage(ctx, tx, r.ns, r.id)
		if err != nil {
			return pawl.Message{}, err
		}
		return inFull(ctx, tx, row)
	})
	if err != nil {
		return err
	}
	if err := r.fn(pawl.MessageFrame{Offset: r.at, Snapshot: &m}); err != nil {
		return err
	}
	return r.fn(pawl.MessageFrame{Offset: m.Offset, End: &pawl.MessageEnd{Status: m.Status, Offset: m.Offset}})
}
