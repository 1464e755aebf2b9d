package relay

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
)

// MediaType is that of a message's body.
const MediaType = "application/cloudevents+json"

// Message is one event as it is sent.
type Message struct {
	Event  pawl.Event
	Origin string
	Body   []byte // the event as CloudEvents 1.0 JSON
}

// Unique is an id that no other message of any Pawl has: the CloudEvent's source
// and id.
func (m Message) Unique() string { return m.Origin + "/" + m.ID() }

// ID is the CloudEvent's id.
func (m Message) ID() string { return idOf(m.Event) }

// A database that went back in time gives the numbers
// of lost events to others, so the id of an event of a later epoch begins with it.
func idOf(e pawl.Event) string {
	if e.Epoch == 0 {
		return e.ID
	}
	return strconv.FormatInt(e.Epoch, 10) + "-" + e.ID
}

// envelope is CloudEvents 1.0, structured mode.
type envelope struct {
	SpecVersion     string     `json:"specversion"`
	ID              string     `json:"id"`
	Source          string     `json:"source"`
	Type            string     `json:"type"`
	Subject         string     `json:"subject"`
	Time            time.Time  `json:"time"`
	DataContentType string     `json:"datacontenttype"`
	PartitionKey    string     `json:"partitionkey"` // the extension "partitioning"
	Data            pawl.Event `json:"data"`
}

// withoutPayloads leaves out what a sink is never told: data and diff (evidence,
// notes, reasons, metadata), and what people wrote as comments. The message of a
// failure stays.
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

// compose makes the message of an event.
func compose(origin string, e pawl.Event) (Message, error) {
	e = withoutPayloads(e)
	subject := e.TaskID
	if e.ItemID != "" {
		subject += "/" + e.ItemID
	}
	body, err := json.Marshal(envelope{
		SpecVersion: "1.0", ID: idOf(e), Source: origin, Type: "work.pawl." + e.Event, Subject: subject,
		Time: e.CreatedAt.UTC(), DataContentType: "application/json", PartitionKey: e.TaskID, Data: e,
	})
	return Message{Event: e, Origin: origin, Body: body}, err
}
