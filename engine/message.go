package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// StartMessages begins messages under leases; see pawl.Messenger.
func (e *Engine) StartMessages(ctx context.Context, calls []pawl.StartMessage) ([]pawl.Result[pawl.Message], error) {
	return each(ctx, "message", calls, e.startMessage)
}

func (e *Engine) startMessage(ctx context.Context, c *pawl.StartMessage) (pawl.Message, error) {
	var f fields
	f.fence(c.Fence)
	f.role("/role", c.Role)
	f.text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.text("/model", c.Model, 0, pawl.MaxIDLen)
	f.number("/max_steps", c.MaxSteps, 0, pawl.MaxSteps)
	f.object("/metadata", c.Metadata, pawl.MaxMetadataBytes)
	content := ""
	if len(c.Content) > 0 {
		content = f.content("/content", c.Content)
	}
	if err := f.err("message"); err != nil {
		return pawl.Message{}, err
	}
	caller := pawl.CallerOf(ctx)
	kind, id := actor(caller, pawl.ActorWorker, c.WorkerID)
	m := store.NewMessage{ID: e.ids.next("msg"), Namespace: caller.Namespace, ItemID: store.Text(c.ItemID), Attempt: &c.Attempt, Role: c.Role, Content: store.Text(content),
		Model: store.Text(c.Model), MaxSteps: cmp.Or(c.MaxSteps, pawl.DefaultMaxSteps), Metadata: store.Text(c.Metadata), Thread: store.Text(c.Thread), Actor: store.Actor{Type: kind, ID: id}}
	if err := e.ours(ctx, c.Fence); err != nil {
		return pawl.Message{}, err
	}
	var out pawl.Message
	err := e.gripped(ctx, c.Fence, "message", func(ctx context.Context, tx store.Tx, g *store.Grip) error {
		m.TaskID = g.TaskID
		if content == "" {
			open, err := store.OpenMessageOf(ctx, tx, c.ItemID)
			if err != nil {
				return err
			}
			if open != "" {
				return &pawl.Error{Code: pawl.CodeConflict, Op: "message", State: string(pawl.MessageStreaming), Allowed: pawl.MessageStreaming.Allowed(),
					Message: "the item has an open message, " + open + ": go on with that"}
			}
		}
		if m.Thread == "" {
			thread, err := store.ThreadOf(ctx, tx, g.TaskID)
			if err != nil {
				return err
			}
			m.Thread = store.Text(thread)
		}
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		if err := store.PutMessages(ctx, tx, g.Now, []store.NewMessage{m}); err != nil {
			return err
		}
		row, err := store.GetMessage(ctx, tx, m.Namespace, m.ID)
		if err == nil {
			out, err = inFull(ctx, tx, row)
		}
		return err
	})
	if err == nil {
		e.homes.put(m.Namespace, m.ID, c.ItemID)
	}
	return out, err
}

// inFull is a message with its content.
func inFull(ctx context.Context, tx store.Tx, row store.MessageRow) (pawl.Message, error) {
	content, err := store.Content(ctx, tx, &row)
	row.Content = json.RawMessage(content)
	return row.Message, err
}

// ours refuses a lease that belongs to another API key.
func (e *Engine) ours(ctx context.Context, f pawl.Fence) error {
	others, err := e.foreign(ctx, pawl.CallerOf(ctx), []pawl.Fence{f})
	return cmp.Or(err, others[f])
}

// writes runs fn on an open message under its item's lease, with the caller as
// its writer.
func (e *Engine) writes(ctx context.Context, m pawl.MessageFence, op string, fn func(ctx context.Context, tx store.Tx, g *store.Grip, row *store.MessageRow) error) error {
	var refusal error
	todo := []writing{{call: &pawl.AppendCall{MessageFence: m}}}
	if err := e.findHomes(ctx, todo, func(_ int, err error) { refusal = err }); err != nil || refusal != nil {
		return cmp.Or(err, refusal)
	}
	if err := e.ours(ctx, todo[0].fence); err != nil {
		return err
	}
	return e.gripped(ctx, todo[0].fence, op, func(ctx context.Context, tx store.Tx, g *store.Grip) error {
		row, err := store.HoldMessage(ctx, tx, g.Namespace, m.MessageID)
		if err != nil {
			return err
		}
		if row.Status != pawl.MessageStreaming {
			return conflict(op, string(row.Status), row.Status.Allowed())
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

// StepMessages ends steps of open messages; see pawl.Messenger.
func (e *Engine) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return each(ctx, "step", calls, func(ctx context.Context, c *pawl.StepCall) (pawl.CheckpointRef, error) {
		var f fields
		f.writer(c.MessageFence)
		f.json("/snapshot", c.Snapshot, pawl.MaxPayloadBytes)
		if err := f.err("step"); err != nil {
			return pawl.CheckpointRef{}, err
		}
		ref := pawl.CheckpointRef{ID: e.ids.next("ckp")}
		err := e.writes(ctx, c.MessageFence, "step", func(ctx context.Context, tx store.Tx, g *store.Grip, row *store.MessageRow) (err error) {
			snapshot := string(c.Snapshot)
			if snapshot == "" {
				if snapshot, err = soFar(ctx, tx, row); err != nil {
					return err
				}
			}
			ref.Sequence, err = g.Step(ctx, tx, row, ref.ID, snapshot)
			return err
		})
		if err == nil {
			e.after(ctx, func() { e.tails.moved(c.MessageID) })
		}
		return ref, err
	})
}

// soFar is the snapshot of a step: what seed 4 saves after each.
func soFar(ctx context.Context, tx store.Tx, row *store.MessageRow) (string, error) {
	chunks, err := store.Said(ctx, tx, row.ID)
	if err != nil {
		return "", err
	}
	out := struct {
		StepNumber  int          `json:"step_number"`
		Text        string       `json:"text"`
		Reasoning   string       `json:"reasoning"`
		ToolCalls   []pawl.Chunk `json:"tool_calls"`
		ToolResults []pawl.Chunk `json:"tool_results"`
		Model       string       `json:"model"`
		MaxSteps    int          `json:"max_steps"`
	}{StepNumber: row.StepNumber + 1, ToolCalls: []pawl.Chunk{}, ToolResults: []pawl.Chunk{}, Model: row.Model, MaxSteps: row.MaxSteps}
	var text, reasoning strings.Builder
	for i, c := range chunks {
		if slices.ContainsFunc(row.Cuts, func(cut pawl.Cut) bool { return int64(i) >= cut.From && int64(i) < cut.To }) {
			continue
		}
		switch c.Type {
		case pawl.ChunkText:
			text.WriteString(string(c.Text))
		case pawl.ChunkReasoning:
			reasoning.WriteString(string(c.Text))
		case pawl.ChunkToolCall:
			out.ToolCalls = append(out.ToolCalls, c)
		case pawl.ChunkToolResult:
			out.ToolResults = append(out.ToolResults, c)
		}
	}
	out.Text, out.Reasoning = text.String(), reasoning.String()
	b := asJSON(out)
	if len(b) > pawl.MaxPayloadBytes {
		return "", pawl.Invalid("/snapshot", "is required: what the message says so far has %d bytes, and %d are allowed", len(b), pawl.MaxPayloadBytes)
	}
	return string(b), nil
}

// FinishMessages ends open messages; see pawl.Messenger.
func (e *Engine) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	return each(ctx, "finish", calls, func(ctx context.Context, c *pawl.FinishCall) (pawl.Message, error) {
		var f fields
		f.writer(c.MessageFence)
		f.object("/usage", c.Usage, pawl.MaxMetadataBytes)
		if err := f.err("finish"); err != nil {
			return pawl.Message{}, err
		}
		var out pawl.Message
		err := e.writes(ctx, c.MessageFence, "finish", func(ctx context.Context, tx store.Tx, g *store.Grip, row *store.MessageRow) error {
			kind, id := actor(pawl.CallerOf(ctx), pawl.ActorWorker, c.WorkerID)
			row.Usage = c.Usage
			err := endMessage(ctx, tx, g.Now, row, pawl.MessageComplete, store.Actor{Type: kind, ID: id}, "")
			out = row.Message
			return err
		})
		if err == nil {
			e.after(ctx, func() { e.tails.moved(c.MessageID) })
		}
		return out, err
	})
}

// endMessage folds what was said into the message.
func endMessage(ctx context.Context, tx store.Tx, now int64, row *store.MessageRow, to pawl.MessageState, by store.Actor, reason string) error {
	row.Status = to
	content, err := store.Content(ctx, tx, row)
	if err != nil {
		return err
	}
	return store.EndMessage(ctx, tx, now, row, to, content, by, reason)
}

// StopMessages stops open messages; see pawl.Stopper.
func (e *Engine) StopMessages(ctx context.Context, calls []pawl.StopCall) ([]pawl.Result[pawl.Message], error) {
	return each(ctx, "stop", calls, func(ctx context.Context, c *pawl.StopCall) (pawl.Message, error) {
		var f fields
		f.text("/id", c.MessageID, 1, pawl.MaxIDLen)
		f.text("/reason", c.Reason, 0, pawl.MaxReasonLen)
		if err := f.err("stop"); err != nil {
			return pawl.Message{}, err
		}
		ns := pawl.CallerOf(ctx).Namespace
		var out pawl.Message
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			row, err := store.GetMessage(ctx, tx, ns, c.MessageID)
			if err != nil {
				return err
			}
			stopped, leased, err := store.HoldItem(ctx, tx, row.ItemID) // before the message, as its writer does
			if err != nil {
				return err
			}
			if row, err = store.HoldMessage(ctx, tx, ns, c.MessageID); err != nil {
				return err
			}
			if row.Status != pawl.MessageStreaming {
				return conflict("stop", string(row.Status), row.Status.Allowed())
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			kind, id := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
			if err := endMessage(ctx, tx, now, &row, pawl.MessageStopped, store.Actor{Type: kind, ID: id}, c.Reason); err != nil {
				return err
			}
			out = row.Message
			if !leased {
				return nil
			}
			return store.TellLease(ctx, tx, row.ItemID, strings.TrimSpace(stopped+" "+row.ID))
		})
		if err == nil {
			e.after(ctx, func() { e.tails.moved(c.MessageID) })
		}
		return out, err
	})
}

// endMessages ends what items, or a task, that are out of work left open. The
// sweep does the same, so nothing is lost when this process dies first.
func (e *Engine) endMessages(ctx context.Context, items []string, taskID string) {
	if len(items) == 0 && taskID == "" {
		return
	}
	e.after(ctx, func() {
		ctx := context.WithValue(context.WithoutCancel(ctx), wholeKey{}, nil)
		if err := sweep.EndStrays(ctx, e.db, items, taskID); err != nil {
			e.log.WarnContext(ctx, "open messages are left to the sweep", "error", err)
		}
		e.tails.wake()
	})
}

// GetMessage reads a message, whole at any moment; see pawl.MessageReader.
func (e *Engine) GetMessage(ctx context.Context, id string) (pawl.Message, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Message, error) {
		row, err := store.GetMessage(ctx, tx, ns, id)
		if err != nil {
			return pawl.Message{}, err
		}
		return inFull(ctx, tx, row)
	})
}

// ListMessages lists a conversation; see pawl.MessageReader.
func (e *Engine) ListMessages(ctx context.Context, q pawl.MessageFilter) (pawl.List[pawl.Message], error) {
	out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
	var f fields
	for i, s := range q.Statuses {
		if !slices.ContainsFunc(pawl.MessageStates, func(x pawl.StateInfo) bool { return x.Name == string(s) }) {
			f.add(fmt.Sprintf("/status/%d", i), "%q is no status of a message", s)
		}
	}
	if err := cmp.Or(page(&q.Page), f.err("list")); err != nil {
		return out, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Message], error) {
		out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
		if err := known(ctx, tx, ns, q.TaskID, q.ItemID); err != nil {
			return out, err
		}
		rows, err := store.ListMessages(ctx, tx, ns, q)
		if err != nil {
			return out, err
		}
		if len(rows) > q.Limit {
			rows = rows[:q.Limit]
			out.Next = rows[q.Limit-1].ID
		}
		for _, row := range rows {
			m, err := inFull(ctx, tx, row)
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, m)
		}
		return out, nil
	})
}

// openMessage reads what a claim says of an item's open message.
func openMessage(text store.Text) *pawl.OpenMessage {
	words := strings.Fields(string(text))
	if len(words) != 3 {
		return nil
	}
	offset, _ := strconv.ParseInt(words[1], 10, 64) // a column of numbers
	step, _ := strconv.Atoi(words[2])
	return &pawl.OpenMessage{ID: words[0], Offset: offset, StepNumber: step}
}

// resumeMessage is the message that an item's next attempt goes on with.
func resumeMessage(ctx context.Context, tx store.Tx, itemID string) (*pawl.OpenMessage, error) {
	id, err := store.OpenMessageOf(ctx, tx, itemID)
	if err != nil || id == "" {
		return nil, err
	}
	heads, err := store.Heads(ctx, tx, []string{id})
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	chunks, err := store.Said(ctx, tx, id)
	return &pawl.OpenMessage{ID: id, Offset: heads[0].Chunks, StepNumber: heads[0].Step, ToolCalls: store.ToolCalls(chunks)}, err
}

// conversation checks what a task is made with besides its work.
func (f *fields) conversation(t *pawl.NewTask) {
	f.text("/thread", t.Thread, 0, pawl.MaxIDLen)
	if len(t.Messages) > pawl.MaxMessages {
		f.add("/messages", "has %d messages; at most %d are allowed", len(t.Messages), pawl.MaxMessages)
		return
	}
	for i := range t.Messages {
		at := fmt.Sprintf("/messages/%d", i)
		f.role(at+"/role", t.Messages[i].Role)
		f.content(at+"/content", t.Messages[i].Content)
		f.object(at+"/metadata", t.Messages[i].Metadata, pawl.MaxMetadataBytes)
	}
	if t.Reply == nil {
		return
	}
	f.text("/reply/model", t.Reply.Model, 0, pawl.MaxIDLen)
	f.number("/reply/max_steps", t.Reply.MaxSteps, 0, pawl.MaxSteps)
	f.object("/reply/metadata", t.Reply.Metadata, pawl.MaxMetadataBytes)
}

func (f *fields) role(pointer, role string) {
	if !slices.Contains(pawl.Roles, role) {
		f.add(pointer, "is %q%s", role, oneOf(pawl.Roles))
	}
}

// content checks what a whole message says, and writes it as a list of parts.
func (f *fields) content(pointer string, raw json.RawMessage) string {
	first := bytes.TrimLeft(raw, " \t\r\n")
	if len(first) == 0 {
		f.add(pointer, "is required")
		return ""
	}
	n := len(*f)
	if f.json(pointer, raw, pawl.MaxPayloadBytes); len(*f) > n {
		return ""
	}
	switch first[0] {
	case '"':
		return `[{"type":"text","text":` + string(bytes.TrimSpace(raw)) + `}]`
	case '[':
		var parts []struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(raw, &parts)
		for i := range parts {
			if parts[i].Type == "" {
				f.add(fmt.Sprintf("%s/%d/type", pointer, i), "is required")
			}
		}
		if err == nil {
			return string(raw)
		}
	}
	f.add(pointer, "must be a text or a list of parts, each with its type")
	return ""
}

// talks says that a task has more than its work.
func (d *draft) talks() bool { return d.thread != "" || len(d.messages) > 0 }

// converse drafts the messages that a task is made with.
func (e *Engine) converse(d *draft, t *pawl.NewTask) error {
	if t.Reply != nil && !d.task.Solo {
		return pawl.Invalid("/reply", "is for a task of one item: others begin their messages themselves")
	}
	d.thread = t.Thread
	row := store.NewMessage{Namespace: d.task.Namespace, TaskID: d.task.ID, Thread: store.Text(t.Thread), MaxSteps: pawl.DefaultMaxSteps, Actor: d.task.Actor}
	if d.task.Solo {
		row.ItemID = store.Text(d.items[0].ID)
	}
	for _, m := range t.Messages {
		var f fields // they have been checked
		row.ID, row.Role, row.Content, row.Metadata = e.ids.next("msg"), m.Role, store.Text(f.content("", m.Content)), store.Text(m.Metadata)
		d.messages = append(d.messages, row)
	}
	if t.Reply != nil {
		row.ID, row.Role, row.Content, row.Metadata = e.ids.next("msg"), pawl.RoleAssistant, "", store.Text(t.Reply.Metadata)
		row.Model, row.MaxSteps = store.Text(t.Reply.Model), cmp.Or(t.Reply.MaxSteps, pawl.DefaultMaxSteps)
		d.messages = append(d.messages, row)
	}
	return nil
}

// say writes them, in the transaction of their task.
func (d *draft) say(ctx context.Context, tx store.Tx, now int64) error {
	if d.thread != "" {
		if err := store.SetThread(ctx, tx, d.task.ID, d.thread); err != nil {
			return err
		}
	}
	if len(d.messages) == 0 {
		return nil
	}
	return store.PutMessages(ctx, tx, now, d.messages)
}
