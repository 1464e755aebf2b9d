package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// NewMessage is a message to insert. It is open when it has no content.
type NewMessage struct {
	ID, Namespace, TaskID string
	Thread, ItemID        Text
	Attempt               *int
	Role                  string
	Content               Text
	Model                 Text
	MaxSteps              int
	Metadata              Text
	Actor                 Actor
}

// PutMessages inserts messages, each with its event.
func PutMessages(ctx context.Context, tx Tx, now int64, all []NewMessage) error {
	rows := make([][]any, len(all))
	events := make([]Event, len(all))
	for i, m := range all {
		state, ended := string(pawl.MessageStreaming), (*int64)(nil)
		if m.Content != "" {
			state, ended = string(pawl.MessageComplete), &now
		}
		rows[i] = []any{m.ID, m.Namespace, m.Thread, TaskID(m.TaskID), ItemID(m.ItemID), m.Attempt, m.Role, m.Content, state, m.Model,
			m.MaxSteps, m.Metadata,
			now, ended}
		events[i] = MessageEvent("message_started", m.Namespace, m.TaskID, m.ItemID, m.Actor,
			map[string]any{"message_id": m.ID, "role": m.Role, "status": state})
		if m.Attempt != nil {
			events[i].Attempt = *m.Attempt
		}
	}
	if err := tx.ExecEach(ctx, messageSQL["start message"], rows); err != nil {
		return err
	}
	return Record(ctx, tx, now, events)
}

// MessageEvent returns the event of a message.
func MessageEvent(name, namespace, taskID string, itemID Text, by Actor, data map[string]any) Event {
	text, _ := json.Marshal(data) // plain values
	return Event{Namespace: namespace, TaskID: taskID, ItemID: itemID, Solo: unknownSolo, Event: name, Actor: by, Data: Text(text)}
}

// ThreadOf returns a task's thread.
func ThreadOf(ctx context.Context, tx Tx, taskID string) (string, error) {
	var thread string
	_, err := Row(ctx, tx, []any{&thread}, messageSQL["thread of task"], TaskID(taskID))
	return thread, err
}
