package pawl

import (
	"encoding/json"
	"time"
)

// SignalCall sends a signal: word from outside that items wait for (SuspendCall,
// WaitFor). It wakes whoever waits for it, and it is kept: an item that waits
// for it later goes on at once. Sent again, its payload becomes the new one and
// it wakes whoever waits then.
type SignalCall struct {
	Name    string          `json:"name"`              // ≤ 255
	Key     string          `json:"key,omitempty"`     // ≤ 255; tells signals of one name apart, an order's number for example
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON ≤ 1 MiB; nil = null
}

// Signalled answers a SignalCall.
type Signalled struct {
	Name     string    `json:"name"`
	Key      string    `json:"key,omitempty"`
	SentAt   time.Time `json:"sent_at"`
	Woken    int       `json:"woken"`    // items that waited for it and are queued now
	Replaced bool      `json:"replaced"` // it had been sent before; its payload is this one now
}

// SentSignal is a signal as it was last sent.
type SentSignal struct {
	Name    string          `json:"name"`
	Key     string          `json:"key,omitempty"`
	Payload json.RawMessage `json:"payload"`
	SentAt  time.Time       `json:"sent_at"`
}

// Awaited is the metadata of a named checkpoint that says which signal its item
// waits for: what WaitFor saves, and a worker without it may. Until SentAt or
// TimedOut is set by a newer checkpoint of that name, the resume state has the
// signal, once sent, under the name.
type Awaited struct {
	Signal   string     `json:"signal"`
	Key      string     `json:"key,omitempty"`
	Until    *time.Time `json:"until,omitempty"`     // when the wait ends without it
	SentAt   *time.Time `json:"sent_at,omitempty"`   // it came: the snapshot is its payload
	TimedOut bool       `json:"timed_out,omitempty"` // it did not come in time
}

// Over says that the wait has ended, with the signal or without.
func (a Awaited) Over() bool { return a.SentAt != nil || a.TimedOut }

// Awaits reads what a checkpoint waits for; false when it does not.
func (c Checkpoint) Awaits() (Awaited, bool) {
	var a Awaited
	if len(c.Metadata) == 0 || json.Unmarshal(c.Metadata, &a) != nil {
		return Awaited{}, false
	}
	return a, a.Signal != ""
}
