package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

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
		f.object(at+"/metadata", &t.Messages[i].Metadata, pawl.MaxMetadataBytes)
	}
	if t.Reply == nil {
		return
	}
	f.text("/reply/model", t.Reply.Model, 0, pawl.MaxIDLen)
	f.number("/reply/max_steps", t.Reply.MaxSteps, 0, pawl.MaxSteps)
	f.object("/reply/metadata", &t.Reply.Metadata, pawl.MaxMetadataBytes)
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

// startConversation drafts the messages that a task is made with.
func (e *Engine) startConversation(d *draft, t *pawl.NewTask) error {
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
