package relay

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
)

// MediaType is the content type of a message's body.
const MediaType = "application/cloudevents+json"

// Message is one event in the form in which a sink sends it.
type Message struct {
	Event  pawl.Event
	Origin string // the relay's Options.Origin: the CloudEvent's source
	Body   []byte // the event as CloudEvents 1.0 JSON
	// The W3C trace context for the headers traceparent and tracestate of the message. "" = none.
	TraceParent, TraceState string
}

// Unique identifies the message among the messages of all Pawl databases: the
// CloudEvent's source and id.
func (m Message) Unique() string { return m.Origin + "/" + m.ID() }

// ID is the CloudEvent's id.
func (m Message) ID() string { return idOf(m.Event) }

// A database that went back in time reuses the numbers of lost events, so the id of an
// event of a later epoch begins with the epoch.
func idOf(e pawl.Event) string {
	if e.Epoch == 0 {
		return e.ID
	}
	return strconv.FormatInt(e.Epoch, 10) + "-" + e.ID
}

// envelope is a CloudEvent 1.0 in structured mode.
type envelope struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	PartitionKey    string    `json:"partitionkey"` // of the CloudEvents extension "partitioning"
	// of the CloudEvents extension "distributed tracing": the trace context of the event's task
	TraceParent string     `json:"traceparent,omitempty"`
	TraceState  string     `json:"tracestate,omitempty"`
	Data        pawl.Event `json:"data"`
}

// withoutPayloads removes what must not leave the database: data and diff (evidence,
// notes, reasons, metadata) and comments of people. The message of a failure stays.
func withoutPayloads(e pawl.Event) pawl.Event {
	e.Data, e.Diff = nil, nil
	if e.Event == "failed" || e.Event == "lease_expired" {
		return e
	}
	e.Message = ""
	for _, info := range pawl.Events {
		if info.Name == e.Event {
			e.Message = info.Means
		}
	}
	return e
}

// compose returns the message of an event.
func compose(origin string, e pawl.Event) (Message, error) {
	e = withoutPayloads(e)
	subject := e.TaskID
	if e.ItemID != "" {
		subject += "/" + e.ItemID
	}
	body, err := json.Marshal(envelope{
		SpecVersion: "1.0", ID: idOf(e), Source: origin, Type: "work.pawl." + e.Event, Subject: subject,
		Time: e.CreatedAt.UTC(), DataContentType: "application/json", PartitionKey: e.TaskID, Data: e,
		TraceParent: e.TraceParent, TraceState: e.TraceState,
	})
	return Message{Event: e, Origin: origin, Body: body}, err
}
