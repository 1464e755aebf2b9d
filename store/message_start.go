package store

import "encoding/json"

// MessageEvent returns the event of a message.
func MessageEvent(name, namespace, taskID string, itemID Text, by Actor, data map[string]any) Event {
	text, _ := json.Marshal(data) // plain values
	return Event{Namespace: namespace, TaskID: taskID, ItemID: itemID, Solo: unknownSolo, Event: name, Actor: by, Data: Text(text)}
}
