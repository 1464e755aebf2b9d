package messages

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// itemCache caches the item of each committed message. The item of a message never
// changes.
type itemCache struct {
	mu   sync.Mutex
	item map[[2]string]string // {namespace, message} → item
	open map[string]bool      // items that may have an open message
}

const itemsKept = 100_000

func (h *itemCache) put(namespace, message, item string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.item == nil || len(h.item) >= itemsKept {
		h.item, h.open = map[[2]string]string{}, map[string]bool{}
	}
	h.item[[2]string{namespace, message}] = item
	h.open[item] = true
}

func (h *itemCache) of(namespace, message string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.item[[2]string{namespace, message}]
}

// takeOpen returns those of items that may have an open message, and removes their marks.
func (h *itemCache) takeOpen(items []string) (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range items {
		if h.open[id] {
			delete(h.open, id)
			out = append(out, id)
		}
	}
	return out
}

// appendCall is an append call with the fence of its message's item.
type appendCall struct {
	call  *pawl.AppendCall
	at    int
	fence pawl.Fence
}

// Append adds chunks to open messages; see pawl.Messenger.
func (ms *Messages) Append(ctx context.Context, calls []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	if err := ms.k.Acts(ctx, "append"); err != nil {
		return nil, err
	}
	if err := rules.CheckBatch("append", len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Appended], len(calls))
	bodies := make([]string, len(calls))
	for i := range calls {
		if bodies[i], out[i].Err = checkAppend(&calls[i]); out[i].Err == nil {
			out[i].Err = ms.referMessage(ctx, "append", calls[i].MessageID, rules.BlobsInText(bodies[i]))
		}
	}
	var todo []appendCall
	for i := range calls {
		switch {
		case out[i].Err != nil:
		case calls[i].Writer != "":
			out[i].Value, out[i].Err = ms.appendToOwn(ctx, &calls[i], bodies[i])
		default:
			todo = append(todo, appendCall{call: &calls[i], at: i})
		}
	}
	if err := ms.findMessageItems(ctx, todo, func(i int, err error) { out[i].Err = err }); err != nil {
		return nil, err
	}
	todo = slices.DeleteFunc(todo, func(w appendCall) bool { return out[w.at].Err != nil })
	rows := make([]kernel.AppendRow, len(todo))
	for n, w := range todo {
		rows[n] = kernel.AppendRow{Fence: w.fence, Append: store.Append{MessageID: w.call.MessageID, Offset: w.call.Offset,
			Count: len(w.call.Chunks), Body: bodies[w.at]}}
	}
	answers, err := ms.k.Tasks(kernel.Origin{}).AppendRows(ctx, rows)
	if err != nil {
		return nil, err
	}
	for n, a := range answers {
		w := &todo[n]
		if out[w.at].Err = a.Err; a.Err == nil {
			out[w.at].Value, out[w.at].Err = ms.appended(ctx, w.call, bodies[w.at], a.Value)
		}
	}
	return out, nil
}

// appended returns the answer to a call whose fence is valid.
func (ms *Messages) appended(ctx context.Context, c *pawl.AppendCall, body string, a store.Appended) (pawl.Appended, error) {
	n := int64(len(c.Chunks))
	switch {
	case a.Done:
		ms.k.After(func() { ms.s.watcher.appended(c, body, a.TakenOver) })
		return pawl.Appended{Offset: c.Offset + n}, nil
	case a.State != string(pawl.MessageStreaming):
		return pawl.Appended{}, rules.Conflict("append", a.State, pawl.MessageState(a.State).Allowed())
	case a.Full && a.Chunks == c.Offset:
		return pawl.Appended{}, &pawl.Error{
			Code:    pawl.CodeTooLarge,
			Op:      "append",
			Message: fmt.Sprintf("the message would have more than %d bytes", pawl.MaxMessageBytes),
		}
	}
	writer := 0
	if c.Offset+n <= a.Chunks {
		var err error
		if writer, err = ms.writtenBy(ctx, c); err != nil || writer == c.Attempt {
			return pawl.Appended{Offset: a.Chunks}, err
		}
	}
	refusal := &pawl.Error{
		Code:     pawl.CodeConflict,
		Op:       "append",
		State:    a.State,
		Allowed:  pawl.MessageState(a.State).Allowed(),
		Expected: &a.Chunks,
	}
	switch {
	case c.Offset > a.Chunks:
		refusal.Message = fmt.Sprintf("the message has %d chunks: those before %d are missing", a.Chunks, c.Offset)
	case c.Writer != "":
		refusal.Message = fmt.Sprintf("the message has %d chunks: write at that offset", a.Chunks)
	case writer > 0:
		refusal.Message = fmt.Sprintf("attempt %d wrote these chunks, not attempt %d: write at %d", writer, c.Attempt, a.Chunks)
	default:
		refusal.Message = fmt.Sprintf("the message has %d chunks, and other ones at %d", a.Chunks, c.Offset)
	}
	return pawl.Appended{}, refusal
}

// writtenBy returns the attempt that wrote the chunks of a call at the call's offset. If
// another attempt wrote any of them, it returns that attempt. It returns 0 if other
// chunks are stored there. Chunks of another attempt are not a repeated call: the
// caller's next append would abandon them.
func (ms *Messages) writtenBy(ctx context.Context, c *pawl.AppendCall) (writer int, err error) {
	err = ms.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		writer = 0
		by := c.Attempt
		rows, err := store.Chunks(ctx, tx, c.MessageID, c.Offset, len(c.Chunks)+1)
		if err != nil {
			return err
		}
		var there []pawl.Chunk
		for i := range rows {
			chunks, err := rows[i].Decode()
			if err != nil {
				return err
			}
			if i == 0 {
				chunks = chunks[min(c.Offset-rows[i].Seq, int64(len(chunks))):]
			}
			if len(there) < len(c.Chunks) && rows[i].Attempt != c.Attempt {
				by = rows[i].Attempt
			}
			there = append(there, chunks...)
		}
		if len(there) < len(c.Chunks) {
			return nil
		}
		was, err := store.EncodeChunks(there[:len(c.Chunks)])
		if err != nil {
			return err
		}
		is, err := store.EncodeChunks(c.Chunks)
		if was == is {
			writer = by
		}
		return err
	})
	return writer, err
}

// findMessageItems looks up the items of the messages and fills in the fences of the
// calls. It refuses calls whose message does not exist or has no item.
func (ms *Messages) findMessageItems(ctx context.Context, todo []appendCall, refuse func(i int, err error)) error {
	ns := pawl.CallerOf(ctx).Namespace
	var unknown []string
	for i := range todo {
		w := &todo[i]
		w.fence = pawl.Fence{ItemID: ms.s.items.of(ns, w.call.MessageID), WorkerID: w.call.WorkerID, Attempt: w.call.Attempt}
		if w.fence.ItemID == "" {
			unknown = append(unknown, w.call.MessageID)
		}
	}
	if unknown == nil {
		return nil
	}
	found := map[string]messageItem{}
	err := ms.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		items, err := itemsOfMessages(ctx, tx, ns, unknown)
		for _, h := range items {
			found[h.ID] = h
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range todo {
		w := &todo[i]
		if w.fence.ItemID != "" {
			continue
		}
		h, known := found[w.call.MessageID]
		switch {
		case !known:
			refuse(w.at, pawl.NotFound("message", w.call.MessageID))
		case h.ItemID == "" && h.State == string(pawl.MessageStreaming):
			refuse(w.at, pawl.Invalid("/writer", "is required: no item writes this message, its task has it itself"))
		case h.ItemID == "":
			refuse(w.at, rules.Conflict("append", h.State, pawl.MessageState(h.State).Allowed()))
		default:
			w.fence.ItemID = h.ItemID
			ms.k.After(func() { ms.s.items.put(ns, h.ID, h.ItemID) })
		}
	}
	return nil
}

// checkAppend checks a call and encodes its chunks.
func checkAppend(c *pawl.AppendCall) (body string, err error) {
	if err := checkChunks(c); err != nil {
		return "", err
	}
	return store.EncodeChunks(c.Chunks)
}

// referMessage keeps the uploaded blobs that a part of a message refers to for as long as its task exists. A message that does not
// exist is left to the call itself.
func (ms *Messages) referMessage(ctx context.Context, op, messageID string, addresses [][]byte) error {
	return ms.k.Keep(ctx, op, addresses, func(ctx context.Context, tx store.Tx) (string, error) {
		m, err := store.GetMessage(ctx, tx, pawl.CallerOf(ctx).Namespace, messageID)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			return "", nil
		}
		return m.TaskID, err
	})
}
