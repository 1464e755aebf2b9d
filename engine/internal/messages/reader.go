package messages

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/store"
)

// reader is a reader's position in a message.
type reader struct {
	w     *watcher
	id    string
	ns    string
	at    int64 // the next chunk
	told  int64 // the end of the newest cut that was sent
	join  store.Joiner
	begun bool  // join has the chunk before at
	by    int   // the attempt that wrote the chunk before at
	epoch int64 // of at
	fn    func(pawl.MessageFrame) error
}

// followPage is how many rows a reader reads from the database at once.
const followPage = 500

// follow calls fn with the frames of a message from a chunk on, or from the last -from
// chunks on, until the message or ctx ends. The frames are shared with other followers: do not change what they point to.
func (w *watcher) follow(ctx context.Context, namespace, id string, from int64, fn func(pawl.MessageFrame) error) error {
	r := &reader{w: w, id: id, ns: namespace, at: from, told: -1}
	r.fn = func(f pawl.MessageFrame) error {
		f.Epoch = r.epoch
		return fn(f)
	}
	row, err := r.begin(ctx)
	if err != nil {
		return err
	}
	lost := from > 0 && asked.Of[int64](ctx, asked.Epoch) < r.epoch
	if lost {
		r.at = row.Offset
	}
	if r.at < 0 {
		r.at = max(0, row.Offset+r.at)
	}
	if r.at > row.Offset {
		return &pawl.Error{
			Code:   pawl.CodeInvalid,
			Op:     "follow",
			Fields: []pawl.Field{{Pointer: "/after", Message: "is not the number of a chunk that was written so far"}},
		}
	}
	leave, err := w.join(messageHead{ID: id, State: string(row.Status), Chunks: row.Offset, Cuts: row.Cuts})
	if err != nil {
		return err
	}
	defer leave()
	if err := r.fn(pawl.MessageFrame{Offset: r.at, Begin: &pawl.MessageEnd{Status: row.Status, Offset: row.Offset}}); err != nil {
		return err
	}
	for {
		head, rows, moved, closed := w.now(id, r.from())
		if closed {
			return errClosed
		}
		if lost = lost || head.Epoch > r.epoch; lost {
			if err := r.restart(ctx); err != nil {
				return err
			}
			lost = false
			continue
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

// begin reads the message and the epoch. Before a position that it does not have is refused, it
// has the feed look whether the database went back in time.
func (r *reader) begin(ctx context.Context) (row store.MessageRow, err error) {
	for settled := false; ; settled = true {
		err = r.w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if r.epoch, err = store.FeedEpoch(ctx, tx); err == nil {
				row, err = store.GetMessage(ctx, tx, r.ns, r.id)
			}
			return err
		})
		if err != nil || r.at <= row.Offset || settled || r.w.options.Settle == nil {
			return row, err
		}
		if err := r.w.options.Settle(ctx); err != nil {
			return row, err
		}
	}
}

// restart sends the whole message as it is in the present epoch, in place of what the reader has.
func (r *reader) restart(ctx context.Context) error {
	var m pawl.Message
	var cuts []pawl.Cut
	var epoch int64
	err := r.w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if epoch, err = store.FeedEpoch(ctx, tx); err != nil {
			return err
		}
		row, err := store.GetMessage(ctx, tx, r.ns, r.id)
		if cuts = row.Cuts; err == nil {
			m, err = inFull(ctx, tx, row)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.epoch, r.at, r.told, r.by = epoch, m.Offset, -1, 0
	r.join, r.begun = store.Joiner{}, false
	for _, c := range cuts {
		r.told = max(r.told, c.To)
	}
	m.Epoch = epoch
	return r.fn(pawl.MessageFrame{Offset: r.at, Snapshot: &m})
}

// advance sends the reader everything up to the head. ended means that nothing will
// follow.
func (r *reader) advance(ctx context.Context, head messageHead, rows []cachedRow) (ended bool, err error) {
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
					return false, nil // the message has ended since: the next head says so
				}
				return true, r.snapshot(ctx)
			}
		}
		for _, row := range rows {
			if err := r.tell(ctx, &head, row); err != nil {
				return false, err
			}
		}
		rows = nil
	}
	if err := r.abandoned(head, r.at); err != nil || head.State == string(pawl.MessageStreaming) || r.at > head.Chunks { // the head is old
		return false, err
	}
	return true, r.fn(pawl.MessageFrame{Offset: r.at, End: &pawl.MessageEnd{Status: pawl.MessageState(head.State), Offset: head.Chunks}})
}

// from returns the first chunk that the reader needs. At first that is the chunk before
// its position, which may contain the first part of a character.
func (r *reader) from() int64 {
	if r.begun {
		return r.at
	}
	return max(0, r.at-1)
}

// load reads rows from the database. It returns nil if the chunks are not there.
func (r *reader) load(ctx context.Context) ([]cachedRow, error) {
	from := r.from()
	var rows []store.ChunkRow
	err := r.w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		rows, err = store.Chunks(ctx, tx, r.id, from, followPage)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]cachedRow, 0, len(rows))
	for i := range rows {
		chunks, err := rows[i].Decode()
		if err != nil {
			return nil, err
		}
		out = append(out, cachedRow{at: rows[i].Seq, attempt: rows[i].Attempt, chunks: chunks})
	}
	if len(out) == 0 || out[0].at > from || out[len(out)-1].at+int64(len(out[len(out)-1].chunks)) <= r.at {
		return nil, nil
	}
	return out, nil
}

// tell sends the chunks of a row from the reader's position on. Before them it sends what
// was abandoned there.
func (r *reader) tell(ctx context.Context, head *messageHead, row cachedRow) error {
	if row.at+int64(len(row.chunks)) <= r.at && r.begun {
		return nil
	}
	if r.by != 0 && r.by != row.attempt {
		if err := r.refresh(ctx, head); err != nil {
			return err
		}
	}
	r.by = row.attempt
	frame := pawl.MessageFrame{Offset: r.at}
	for i, c := range row.chunks {
		n := row.at + int64(i)
		if n < r.at-1 || n < r.at && r.begun {
			continue
		}
		if n >= r.at && frame.Chunks == nil {
			if err := r.abandoned(*head, n); err != nil {
				return err
			}
			frame.Chunks = make([]pawl.Chunk, 0, len(row.chunks)-i)
		}
		c = r.join.Next(c)
		if r.begun = true; n < r.at {
			continue
		}
		frame.Chunks = append(frame.Chunks, c)
	}
	if len(frame.Chunks) == 0 {
		return nil
	}
	r.at += int64(len(frame.Chunks))
	return r.fn(frame)
}

// refresh reads the cuts again, because a row may be newer than the head that the reader
// has. The cut before a row of another attempt is always stored before that row.
func (r *reader) refresh(ctx context.Context, head *messageHead) error {
	var heads []messageHead
	err := r.w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		heads, err = messageHeads(ctx, tx, []string{r.id})
		return err
	})
	if err == nil && len(heads) == 1 && len(heads[0].Cuts) > len(head.Cuts) {
		head.Cuts = heads[0].Cuts
	}
	return err
}

// abandoned sends the cuts that end right before a chunk. A row belongs to one attempt,
// so no cut ends within a row.
func (r *reader) abandoned(head messageHead, at int64) error {
	for i := range head.Cuts {
		if cut := head.Cuts[i]; cut.To == at && cut.To > r.told {
			r.told, r.join = cut.To, store.Joiner{} // half of a character from the cut chunks is dropped
			if err := r.fn(pawl.MessageFrame{Offset: at, Abandoned: &cut}); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshot sends a reader whose chunks are gone the whole message and its end.
func (r *reader) snapshot(ctx context.Context) error {
	var m pawl.Message
	err := r.w.options.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		row, err := store.GetMessage(ctx, tx, r.ns, r.id)
		if err == nil {
			m, err = inFull(ctx, tx, row)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := r.fn(pawl.MessageFrame{Offset: r.at, Snapshot: &m}); err != nil {
		return err
	}
	return r.fn(pawl.MessageFrame{Offset: m.Offset, End: &pawl.MessageEnd{Status: m.Status, Offset: m.Offset}})
}

// inFull returns a message with its content.
func inFull(ctx context.Context, tx store.Tx, row store.MessageRow) (pawl.Message, error) {
	content, err := store.Content(ctx, tx, &row)
	row.Content = json.RawMessage(content)
	return row.Message, err
}
