package pawl

import "time"

// Relay is where one sink stands: a place outside that events are sent to.
type Relay struct {
	Sink     string     `json:"sink"`
	Kind     string     `json:"kind,omitempty"`  // rabbitmq, nats, webhook
	Position int64      `json:"position"`        // everything up to here is there, or was set aside
	Epoch    int64      `json:"epoch,omitempty"` // of Position; see FeedPosition
	Lag      int64      `json:"lag"`             // events behind the newest
	OldestAt *time.Time `json:"oldest_at,omitempty"`
	Sent     int64      `json:"sent"`    // events the sink has confirmed, repetitions too
	Refused  int64      `json:"refused"` // events set aside, since the sink will not have them
	// LastRefused are the newest of these.
	LastRefused []RefusedEvent `json:"last_refused,omitempty"`
	Error       string         `json:"error,omitempty"` // of the newest attempt; "" = it is well
	FailingAt   *time.Time     `json:"failing_at,omitempty"`
	DisabledAt  *time.Time     `json:"disabled_at,omitempty"` // nothing is sent until somebody resumes it
	Holder      string         `json:"holder,omitempty"`      // the process that sends
	HeldUntil   *time.Time     `json:"held_until,omitempty"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// TypeRelayDisabled is the type of the alert that a relay has been disabled: a task
// of namespace default that has failed, made in the same transaction. Its payload
// is the Relay.
const TypeRelayDisabled = "pawl.relay_disabled"

// RefusedEvent is an event that a sink will not have.
type RefusedEvent struct {
	EventID  string    `json:"event_id"`
	Position int64     `json:"position"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
}
