package pawl

import "time"

// Relay is the state of the delivery of events to one sink.
type Relay struct {
	Sink     string     `json:"sink"`
	Kind     string     `json:"kind,omitempty"`  // rabbitmq, nats, webhook
	Position int64      `json:"position"`        // every event up to here was confirmed or refused
	Epoch    int64      `json:"epoch,omitempty"` // of Position; see FeedPosition
	Lag      int64      `json:"lag"`             // events that are not delivered yet
	OldestAt *time.Time `json:"oldest_at,omitempty"`
	Sent     int64      `json:"sent"`    // events that the sink has confirmed, repetitions included
	Refused  int64      `json:"refused"` // events that the sink refused and the relay skipped
	// LastRefused are the newest refused events.
	LastRefused []RefusedEvent `json:"last_refused,omitempty"`
	Error       string         `json:"error,omitempty"` // of the last attempt; "" = none
	FailingAt   *time.Time     `json:"failing_at,omitempty"`
	DisabledAt  *time.Time     `json:"disabled_at,omitempty"` // nothing is sent until an operator resumes it
	Holder      string         `json:"holder,omitempty"`      // the process that delivers
	HeldUntil   *time.Time     `json:"held_until,omitempty"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// Where a relay goes on, for ResumeRelay.
const (
	RelayFromStored = "stored" // its stored position
	RelayFromNow    = "now"    // the newest event: older ones are not sent
)

// RefusedEvent is an event that a sink refused.
type RefusedEvent struct {
	EventID  string    `json:"event_id"`
	Position int64     `json:"position"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
}
