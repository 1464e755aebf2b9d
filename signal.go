package pawl

import (
	"encoding/json"
	"time"
)

// SignalCall sends a signal, which items can wait for (SuspendCall, WaitFor). It queues
// the items that wait for it, and it is stored: an item that waits for it later
// continues at once. If it is sent again, its payload is replaced and it queues the
// items that wait then.
type SignalCall struct {
	Name    string          `json:"name"`              // ≤ 255
	Key     string          `json:"key,omitempty"`     // ≤ 255; tells signals of one name apart, for example an order number
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON ≤ 1 MiB; nil = null
}

// Signalled answers a SignalCall.
type Signalled struct {
	Name     string    `json:"name"`
	Key      string    `json:"key,omitempty"`
	SentAt   time.Time `json:"sent_at"`
	Woken    int       `json:"woken"`    // items that waited for it; up to 1,000 are queued in its transaction, the others soon after
	Replaced bool      `json:"replaced"` // it had been sent before; the payload is replaced
}

// SentSignal is a stored signal.
type SentSignal struct {
	Name    string          `json:"name"`
	Key     string          `json:"key,omitempty"`
	Payload json.RawMessage `json:"payload"`
	SentAt  time.Time       `json:"sent_at"`
}

// Awaited is the metadata of a named checkpoint that says which signal its item waits
// for. WaitFor saves it, and so can other workers. Until a newer checkpoint of that name
// sets SentAt or TimedOut, the resume state has the signal under that name, once it is
// sent.
type Awaited struct {
	Signal   string     `json:"signal"`
	Key      string     `json:"key,omitempty"`
	Until    *time.Time `json:"until,omitempty"`     // when the wait ends without the signal
	SentAt   *time.Time `json:"sent_at,omitempty"`   // the signal arrived: the snapshot is its payload
	TimedOut bool       `json:"timed_out,omitempty"` // the signal did not arrive in time
}

// Over reports whether the wait has ended, with or without the signal.
func (a Awaited) Over() bool { return a.SentAt != nil || a.TimedOut }

// Awaits returns what a checkpoint waits for; false if it waits for nothing.
func (c Checkpoint) Awaits() (Awaited, bool) {
	var a Awaited
	if len(c.Metadata) == 0 || json.Unmarshal(c.Metadata, &a) != nil {
		return Awaited{}, false
	}
	return a, a.Signal != ""
}
