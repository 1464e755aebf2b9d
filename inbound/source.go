// Package inbound verifies webhooks that other services send, and says which task or signal
// each one becomes. It knows the signatures of Standard Webhooks, GitHub, Slack and Stripe.
package inbound

import (
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-work/pawl"
)

// Forms lists the forms of signatures.
var Forms = []string{"standard", "github", "slack", "stripe"}

// Options define a source of webhooks. Form, Secrets, and either Task or Signal are required.
type Options struct {
	Form string // one of Forms
	// Secrets verify the signatures: one is enough. To rotate a secret, give the new and the
	// old one. Those of the form standard are whsec_ and base64.
	Secrets   []string
	Tolerance time.Duration // the greatest age of a signature; 0 = pawl.DefaultInboundTolerance. GitHub signs no time
	Keep      time.Duration // how long a delivery is known, so that it has no second effect; 0 = pawl.DefaultInboundKept
	Namespace string        // of the task or the signal; "" = pawl.DefaultNamespace
	// ID says which deliveries are the same: a JSON Pointer to a text or a number of the body, "header:NAME" for
	// the value of a header, or "body" for the hash of the whole body. "" = the identifier of the form.
	ID     string
	Task   *Task
	Signal *Signal
}

// Task is the task that each delivery becomes.
type Task struct {
	Type        string // required
	Payload     string // a JSON Pointer into the body; "" = the whole body
	Title       string
	Priority    int
	MaxAttempts int
}

// Signal is the signal that each delivery becomes.
type Signal struct {
	Name    string // required
	Key     string // a text, or a JSON Pointer into the body if it begins with /
	Payload string // a JSON Pointer into the body; "" = the whole body
}

// Source is a checked definition. It is safe for concurrent use.
type Source struct {
	o        Options
	standard []*standardwebhooks.Webhook
}

// New checks a definition. An error names the member by its JSON Pointer and contains no
// secret.
func New(o Options) (*Source, error) {
	s := &Source{o: o}
	if err := s.checkSecrets(); err != nil {
		return nil, err
	}
	if s.o.Tolerance == 0 {
		s.o.Tolerance = pawl.DefaultInboundTolerance
	}
	if s.o.Keep == 0 {
		s.o.Keep = pawl.DefaultInboundKept
	}
	switch {
	case s.o.Tolerance < time.Second || s.o.Tolerance > pawl.DefaultInboundKept:
		return nil, pawl.Invalid("/tolerance_seconds", "must lie between 1 and %d", int(pawl.DefaultInboundKept/time.Second))
	case s.o.Keep < max(2*s.o.Tolerance, pawl.DefaultKeyLease) || s.o.Keep > pawl.MaxDelay:
		return nil, pawl.Invalid("/keep_seconds", "must be at least twice the tolerance and %d, and at most %d",
			int(pawl.DefaultKeyLease/time.Second), int(pawl.MaxDelay/time.Second))
	case o.ID != "" && o.ID != "body" && !isPointer(o.ID) && !isHeader(o.ID):
		return nil, pawl.Invalid("/id", `must be a JSON Pointer, "header:" and the name of a header, or "body"`)
	case len(o.Namespace) > pawl.MaxIDLen:
		return nil, pawl.Invalid("/namespace", "has more than %d bytes", pawl.MaxIDLen)
	case (o.Task == nil) == (o.Signal == nil):
		return nil, pawl.Invalid("/task", "give either a task or a signal")
	}
	return s, s.checkTarget()
}

func (s *Source) checkTarget() error {
	if t := s.o.Task; t != nil {
		switch {
		case t.Type == "" || len(t.Type) > pawl.MaxTypeLen:
			return pawl.Invalid("/task/type", "must have 1 to %d characters", pawl.MaxTypeLen)
		case t.Payload != "" && !isPointer(t.Payload):
			return pawl.Invalid("/task/payload", "must be a JSON Pointer")
		case int(int16(t.Priority)) != t.Priority:
			return pawl.Invalid("/task/priority", "must be a number of 16 bits")
		case t.MaxAttempts < 0:
			return pawl.Invalid("/task/max_attempts", "must not be negative")
		}
		return nil
	}
	switch g := s.o.Signal; {
	case g.Name == "" || len(g.Name) > pawl.MaxIDLen:
		return pawl.Invalid("/signal/name", "must have 1 to %d characters", pawl.MaxIDLen)
	case len(g.Key) > pawl.MaxIDLen:
		return pawl.Invalid("/signal/key", "has more than %d bytes", pawl.MaxIDLen)
	case strings.HasPrefix(g.Key, "/") && !isPointer(g.Key):
		return pawl.Invalid("/signal/key", "is no JSON Pointer")
	case g.Payload != "" && !isPointer(g.Payload):
		return pawl.Invalid("/signal/payload", "must be a JSON Pointer")
	}
	return nil
}

// Namespace returns the namespace of the tasks and signals.
func (s *Source) Namespace() string { return s.o.Namespace }

// Keep returns for how long a delivery is known.
func (s *Source) Keep() time.Duration { return s.o.Keep }

// Task returns the task that a delivery to the source of a name becomes; false if it becomes
// a signal.
func (s *Source) Task(name string, d Delivery) (pawl.NewTask, bool) {
	t := s.o.Task
	if t == nil {
		return pawl.NewTask{}, false
	}
	return pawl.NewTask{
		Type: t.Type, Payload: pick(d.Body, t.Payload), Title: t.Title, Priority: t.Priority, MaxAttempts: t.MaxAttempts,
		Metadata: d.metadata(name),
	}, true
}

// Signal returns the signal that a delivery becomes.
func (s *Source) Signal(d Delivery) pawl.SignalCall {
	g := s.o.Signal
	key := g.Key
	if strings.HasPrefix(key, "/") {
		key = text(pick(d.Body, key))
	}
	return pawl.SignalCall{Name: g.Name, Key: key, Payload: pick(d.Body, g.Payload)}
}
