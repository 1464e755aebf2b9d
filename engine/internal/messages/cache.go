package messages

import (
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// How much of each message is cached.
const (
	cacheRows  = 64 // a reader that is further behind reads from the database
	cacheBytes = 1 << 20
	chunkBytes = 200 // overhead of a chunk besides its text
)

// watched is a message that is being read: its head and its newest chunks.
type watched struct {
	readers int
	head    messageHead
	rows    []cachedRow // the last of them ends at the head
	bytes   int
}

type cachedRow struct {
	at      int64
	attempt int
	size    int
	chunks  []pawl.Chunk
}

// appended adds chunks that this process has committed to the cache.
func (w *watcher) appended(c *pawl.AppendCall, body string, takenOver bool) {
	w.mu.Lock()
	t := w.messages[c.MessageID]
	fits := t != nil && !takenOver && t.head.Chunks == c.Offset
	if fits && !slices.ContainsFunc(c.Chunks, func(c pawl.Chunk) bool { return c.Input != nil || c.Output != nil || c.Data != nil }) {
		t.add(cachedRow{c.Offset, c.Attempt, rowBytes(body, len(c.Chunks)), slices.Clone(c.Chunks)}) // the caller keeps its slice
		t.trim()
		w.moved(c.MessageID)
		t = nil
	}
	w.mu.Unlock()
	switch {
	case t == nil:
	case fits: // the chunks contain JSON: decode them as they are stored
		w.take(c.MessageID, []store.ChunkRow{{Seq: c.Offset, Count: len(c.Chunks), Attempt: c.Attempt, Body: body}})
	default:
		w.wake()
	}
}

// add appends a row if it follows the head.
func (t *watched) add(r cachedRow) {
	if r.at == t.head.Chunks {
		t.rows, t.bytes, t.head.Chunks = append(t.rows, r), t.bytes+r.size, r.at+int64(len(r.chunks))
	}
}

func rowBytes(body string, chunks int) int { return len(body) + chunks*chunkBytes }

// trim removes the oldest cached chunks beyond the limits.
func (t *watched) trim() {
	for len(t.rows) > 1 && (len(t.rows) > cacheRows || t.bytes > cacheBytes) {
		t.bytes -= t.rows[0].size
		t.rows[0] = cachedRow{}
		t.rows = t.rows[1:]
	}
}

// take decodes rows and adds those that follow the head.
func (w *watcher) take(id string, rows []store.ChunkRow) {
	fresh := make([]cachedRow, 0, len(rows))
	for i := range rows {
		chunks, err := rows[i].Decode()
		if err != nil {
			w.options.Log.Error("a message cannot be followed", "message_id", id, "error", err)
			return
		}
		fresh = append(fresh, cachedRow{rows[i].Seq, rows[i].Attempt, rowBytes(rows[i].Body, len(chunks)), chunks})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.messages[id]
	if t == nil {
		return
	}
	before := t.head.Chunks
	for _, r := range fresh {
		t.add(r)
	}
	if t.trim(); t.head.Chunks > before {
		w.moved(id)
	}
}

func (w *watcher) cuts(h messageHead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.messages[h.ID]; t != nil && len(h.Cuts) > len(t.head.Cuts) {
		t.head.Cuts = h.Cuts
		w.moved(h.ID)
	}
}

// settle stores the number of chunks and the state of a head, unless a newer head is
// known.
func (w *watcher) settle(h messageHead) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.messages[h.ID]
	if t == nil || h.State != "" && h.Chunks < t.head.Chunks {
		return
	}
	if h.Chunks > t.head.Chunks { // more than is cached, so readers read it from the database
		t.rows, t.bytes, t.head.Chunks = nil, 0, h.Chunks
		w.moved(h.ID)
	}
	if h.State != t.head.State {
		t.head.State = h.State
		w.moved(h.ID)
	}
}

// now returns a message's head and its cached chunks from chunk number from on. moved is
// closed at the message's next change.
func (w *watcher) now(id string, from int64) (h messageHead, rows []cachedRow, moved <-chan struct{}, closed bool) {
	moved = w.options.Hub.Next(watch.Message(id))
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.messages[id]
	if t == nil || w.closed {
		return h, nil, nil, true
	}
	for i := range t.rows {
		if r := &t.rows[i]; from >= t.rows[0].at && r.at+int64(len(r.chunks)) > from {
			rows = slices.Clone(t.rows[i:])
			break
		}
	}
	h = t.head
	h.Epoch = w.epoch
	return h, rows, moved, false
}
