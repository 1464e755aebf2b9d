package store

import "encoding/json"

// ChildWait is a wait of an item for children.
type ChildWait struct {
	Name      Text
	IDs       []string // in order, each once
	Need      int      // how many have to end
	OnFailure string
}

// awaitedNamed bounds the children that an event names.
const awaitedNamed = 20

// Awaits returns which children a suspend waits for, as JSON for its event; "" = none. All are
// counted, and the first are named.
func (l *Leave) Awaits() string {
	w := l.Children
	if w == nil {
		return ""
	}
	b, _ := json.Marshal(struct { // plain values
		Name      Text     `json:"name,omitempty"`
		Need      int      `json:"need"`
		OnFailure string   `json:"on_failure"`
		Count     int      `json:"count"`
		IDs       []string `json:"ids"`
	}{w.Name, w.Need, w.OnFailure, len(w.IDs), w.IDs[:min(awaitedNamed, len(w.IDs))]})
	return string(b)
}
