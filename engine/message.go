package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/stream"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// StartMessages begins messages under leases; see pawl.Messenger.
func (e *Engine) StartMessages(ctx context.Context, calls []pawl.StartCall) ([]pawl.Result[pawl.Message], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "start"); err != nil {
		return nil, err
	}
	return kernel.EachIn(ctx, &kernel.Answers{Op: "message", Unbounded: true}, calls, e.startMessage)
}

func (e *Engine) startMessage(ctx context.Context, c *pawl.StartCall) (pawl.Message, error) {
	content, err := checkStart(c)
	if err != nil {
		return pawl.Message{}, err
	}
	caller := pawl.CallerOf(ctx)
	by := actor(caller, pawl.ActorWorker, c.WorkerID)
	m := newMessage{ID: e.k.IDs.Next("msg"), Namespace: caller.Namespace, ItemID: store.Text(c.ItemID), Attempt: &c.Attempt,
		Role: c.Role, Content: store.Text(content), Model: store.Text(c.Model), MaxSteps: cmp.Or(c.MaxSteps, pawl.DefaultMaxSteps),
		Metadata: store.Text(c.Metadata), Thread: store.Text(c.Thread), Actor: by}
	if err := e.ours(ctx, c.Fence); err != nil {
		return pawl.Message{}, err
	}
	if err := e.referItem(ctx, "message", c.ItemID, blobsInText(content)); err != nil {
		return pawl.Message{}, err
	}
	var out pawl.Message
	err = e.k.Held(ctx, c.Fence, "message", func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		m.TaskID = g.TaskID
		if content == "" {
			open, err := openMessageOf(ctx, tx, c.ItemID)
			if err != nil {
				return err
			}
			if open != "" {
				return &pawl.Error{Code: pawl.CodeConflict, Op: "message", State: string(pawl.MessageStreaming),
					Allowed: pawl.MessageStreaming.Allowed(), Message: "the item has an open message, " + open + ": go on with that"}
			}
		}
		if m.Thread == "" {
			thread, err := threadOf(ctx, tx, g.TaskID)
			if err != nil {
				return err
			}
			m.Thread = store.Text(thread)
		}
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		if err := putMessages(ctx, tx, g.Now, []newMessage{m}); err != nil {
			return err
		}
		row, err := store.GetMessage(ctx, tx, m.Namespace, m.ID)
		if err == nil {
			out, err = stream.InFull(ctx, tx, row)
		}
		return err
	})
	if err == nil {
		e.after(func() { e.messageItems.put(m.Namespace, m.ID, c.ItemID) })
	}
	return out, err
}

// ours refuses a lease that belongs to another API key.
func (e *Engine) ours(ctx context.Context, f pawl.Fence) error {
	others, err := e.leasesOfOtherKeys(ctx, pawl.CallerOf(ctx), []pawl.Fence{f})
	return cmp.Or(err, others[f])
}

// writes runs fn on an open message, with the item and the message locked. The caller
// must hold the item's lease and becomes the message's writer.
func (e *Engine) writes(
	ctx context.Context,
	m pawl.MessageFence,
	op string,
	fn func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) error,
) error {
	var refusal error
	todo := []appendCall{{call: &pawl.AppendCall{MessageFence: m}}}
	if err := e.findMessageItems(ctx, todo, func(_ int, err error) { refusal = err }); err != nil || refusal != nil {
		return cmp.Or(err, refusal)
	}
	if err := e.ours(ctx, todo[0].fence); err != nil {
		return err
	}
	return e.k.Held(ctx, todo[0].fence, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		row, err := store.LockMessage(ctx, tx, g.Namespace, m.MessageID)
		if err != nil {
			return err
		}
		if row.Status != pawl.MessageStreaming {
			return rules.Conflict(op, string(row.Status), row.Status.Allowed())
		}
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		if err := g.TakeOver(ctx, tx, &row); err != nil {
			return err
		}
		return fn(ctx, tx, g, &row)
	})
}

// GetMessage reads a message with all its content so far; see pawl.MessageReader.
func (e *Engine) GetMessage(ctx context.Context, id string) (pawl.Message, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Message, error) {
		row, err := store.GetMessage(ctx, tx, ns, id)
		if err == nil {
			row.Epoch, err = store.FeedEpoch(ctx, tx)
		}
		if err != nil {
			return pawl.Message{}, err
		}
		return stream.InFull(ctx, tx, row)
	})
}

// ListMessages lists messages; see pawl.MessageReader.
func (e *Engine) ListMessages(ctx context.Context, q pawl.MessageFilter) (pawl.List[pawl.Message], error) {
	q = idform.Call(q)
	out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
	if err := checkMessageFilter(&q); err != nil {
		return out, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Message], error) {
		out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
		if err := store.Known(ctx, tx, ns, q.TaskID, q.ItemID); err != nil {
			return out, err
		}
		return store.Pages(q.Page, func(m *pawl.Message) int { return len(m.Content) + len(m.Metadata) },
			func(m pawl.Message) string { return m.ID }, func(p pawl.Page) (pawl.List[pawl.Message], error) {
				q.Page = p
				return e.messagesOf(ctx, tx, ns, q)
			})
	})
}

// messagesOf reads a page of messages in full. The page ends after the message that makes
// it larger than pawl.MaxPageBytes.
func (e *Engine) messagesOf(ctx context.Context, tx store.Tx, ns string, q pawl.MessageFilter) (out pawl.List[pawl.Message], err error) {
	rows, err := store.ListMessages(ctx, tx, ns, q)
	if err != nil {
		return out, err
	}
	var epoch int64
	if len(rows) > 0 {
		if epoch, err = store.FeedEpoch(ctx, tx); err != nil {
			return out, err
		}
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		out.Next = rows[q.Limit-1].ID
	}
	bytes := 0
	for _, row := range rows {
		row.Epoch = epoch
		m, err := stream.InFull(ctx, tx, row)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, m)
		if bytes += len(m.Content); bytes > pawl.MaxPageBytes {
			out.Next = m.ID
			break
		}
	}
	return out, nil
}

// openMessage decodes what a claim returns of an item's open message; nil = it has none.
func openMessage(text store.Text) *pawl.OpenMessage {
	words := strings.Fields(string(text))
	if len(words) != 4 || words[0] != string(pawl.MessageStreaming) {
		return nil
	}
	offset, _ := strconv.ParseInt(words[2], 10, 64) // a column of numbers
	step, _ := strconv.Atoi(words[3])
	return &pawl.OpenMessage{ID: words[1], Offset: offset, StepNumber: step}
}

// resumeMessage returns the open message that an item's next attempt continues; nil =
// none. said is the first page of the item's messages.
func resumeMessage(ctx context.Context, tx store.Tx, ns, itemID string, said pawl.List[pawl.MessageRef]) (*pawl.OpenMessage, error) {
	open := pawl.OpenMessage{}
	if at := slices.IndexFunc(said.Items, func(m pawl.MessageRef) bool { return m.Status == pawl.MessageStreaming }); at >= 0 {
		m := said.Items[at]
		open = pawl.OpenMessage{ID: m.ID, Offset: m.Offset, StepNumber: m.StepNumber}
	} else if said.Next != "" {
		id, err := openMessageOf(ctx, tx, itemID)
		if err != nil || id == "" {
			return nil, err
		}
		m, err := store.GetMessage(ctx, tx, ns, id)
		if err != nil {
			return nil, err
		}
		open = pawl.OpenMessage{ID: id, Offset: m.Offset, StepNumber: m.StepNumber}
	}
	if open.ID == "" {
		return nil, nil
	}
	calls, err := store.ToolCalls(ctx, tx, open.ID)
	open.ToolCalls = calls
	return &open, err
}

// checkStart checks the call that starts a message, and returns the message's content as a
// list of parts; "" = the message is written in chunks.
func checkStart(c *pawl.StartCall) (content string, err error) {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Number("/max_steps", c.MaxSteps, 0, pawl.MaxSteps)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if len(c.Content) > 0 {
		content = f.Content("/content", c.Content)
	}
	return content, f.Err("message")
}

// checkOpen checks the call that opens a message of a task itself.
func checkOpen(c *pawl.OpenCall) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if c.OnConflict != "" && c.OnConflict != pawl.OnConflictReturn {
		f.Add("/on_conflict", "is %q%s", c.OnConflict, rules.OneOf([]string{pawl.OnConflictReturn}))
	}
	return f.Err("open")
}

// messageParts returns the content of a message that checkTask has checked, as a list of
// parts.
func messageParts(content json.RawMessage) string {
	var f rules.Fields
	return f.Content("", content)
}

// checkChunks checks the call that appends chunks to a message.
func checkChunks(c *pawl.AppendCall) error {
	var f rules.Fields
	f.Writer(c.MessageFence)
	if c.Offset < 0 {
		f.Add("/offset", "is %d; it must be 0 or more", c.Offset)
	}
	if n := len(c.Chunks); n == 0 || n > pawl.MaxChunksPerCall {
		f.Add("/chunks", "has %d chunks; 1 to %d are allowed", n, pawl.MaxChunksPerCall)
		return f.Err("append")
	}
	size := 0
	for i := range c.Chunks {
		size += len(c.Chunks[i].Text) + len(c.Chunks[i].Input) + len(c.Chunks[i].Output) + len(c.Chunks[i].Data)
		if f.Chunk(fmt.Sprintf("/chunks/%d", i), &c.Chunks[i]); len(f) > 20 {
			break
		}
	}
	if size > pawl.MaxAppendBytes {
		f.Add("/chunks", "have %d bytes together; at most %d are allowed", size, pawl.MaxAppendBytes)
	}
	return f.Err("append")
}

// checkFinish checks the call that ends a message.
func checkFinish(c *pawl.FinishCall) error {
	var f rules.Fields
	f.Writer(c.MessageFence)
	f.Object("/usage", &c.Usage, pawl.MaxMetadataBytes)
	return f.Err("finish")
}

// checkStop checks the call that stops a message.
func checkStop(c *pawl.StopCall) error {
	var f rules.Fields
	f.Text("/id", c.MessageID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	return f.Err("stop")
}

// checkStep checks the call that ends a step of a message.
func checkStep(c *pawl.StepCall) error {
	var f rules.Fields
	if c.Writer != "" {
		f.Add("/writer", "is for messages that a task has itself, and these have no steps: append checkpoints to the task")
		return f.Err("step")
	}
	f.Writer(c.MessageFence)
	f.Name("/name", c.Name)
	f.Text("/args_hash", c.ArgsHash, 0, pawl.MaxKeyLen)
	f.JSON("/snapshot", c.Snapshot, pawl.MaxPayloadBytes)
	if c.Name != "" && len(c.Snapshot) == 0 {
		f.Add("/snapshot", "is required of a step with a name: what the step returned, or null")
	}
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	return f.Err("step")
}

// messageItem is the item that a message belongs to, which never changes. ItemID is empty
// for a message that was never open.
type messageItem struct{ ID, ItemID, State string }

// itemsOfMessages reads the items of messages. Messages that the namespace does not have
// are left out.
func itemsOfMessages(ctx context.Context, tx store.Tx, namespace string, ids []string) ([]messageItem, error) {
	return store.All(ctx, tx, messageSQL["homes"], []any{namespace, store.List(ids)}, func(rows store.Rows, h *messageItem) error {
		return rows.Scan(&h.ID, (*store.ItemID)(&h.ItemID), &h.State)
	})
}

// openMessageOf returns the id of an item's open message, or "" when there is none.
func openMessageOf(ctx context.Context, tx store.Tx, itemID string) (string, error) {
	var id string
	_, err := store.Row(ctx, tx, []any{&id}, messageSQL["open message"], store.ItemID(itemID))
	return id, err
}

// messagesOfItem lists the messages that an item has written in chunks since it was last sent back for rework, which
// has happened a number of times, oldest first.
func messagesOfItem(ctx context.Context, tx store.Tx, taskID, itemID string, rework int, p pawl.Page) (pawl.List[pawl.MessageRef], error) {
	rows, err := tx.Query(ctx, messageSQL["said by item"], store.TaskID(taskID), store.ItemID(itemID), p.Cursor, p.Limit+1, rework)
	if err != nil {
		return pawl.List[pawl.MessageRef]{}, err
	}
	defer rows.Close()
	var out []pawl.MessageRef
	for rows.Next() {
		var m pawl.MessageRef
		if err := rows.Scan(&m.ID, &m.Status, &m.Offset, &m.StepNumber, &m.Model, &m.MaxSteps); err != nil {
			return pawl.List[pawl.MessageRef]{}, err
		}
		out = append(out, m)
	}
	return store.Paged(out, p.Limit, func(m pawl.MessageRef) string { return m.ID }), rows.Err()
}
