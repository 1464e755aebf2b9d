package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/clock"
)

// Calls of the route receiveWebhook have paths that begin with inboundPath. They need no API key.
const (
	receiveWebhook = "receive_webhook"
	inboundPath    = "/v1/inbound/"
)

// verifiedHook is a webhook whose signature is right, in the context of its call.
type verifiedHook struct {
	name     string
	source   *inbound.Source
	delivery inbound.Delivery
}

type hookKey struct{}

// expected refuses a webhook, before its body is read, of an unknown source, or that has no
// signature.
func (s *server) expected(r *http.Request) error {
	source := s.opts.Inbound[r.PathValue("id")]
	if source == nil {
		return &pawl.Error{Code: pawl.CodeNotFound, Message: "this server has no source of webhooks of this name"}
	}
	if _, able := s.svc.(pawl.Idempotent); !able {
		return &pawl.Error{Code: pawl.CodeInvalid, Message: "this server receives no webhooks"}
	}
	return s.wrongly(r, source.Expect(r.Header, clock.Now()))
}

// wrongly counts an error of a signature, and returns limit in its place if there were too many.
func (s *server) wrongly(r *http.Request, err error) error {
	if pawl.CodeOf(err) == pawl.CodeUnauthenticated {
		return cmp.Or(s.gate.WrongSignature(access.From(r.Context(), r.RemoteAddr)), err)
	}
	return err
}

// verified checks a webhook's signature, and then its syntax. It returns the request of the caller inbound/NAME, and
// the idempotency key of the delivery; nil = the call has no effect.
func (s *server) verified(r *http.Request) (*http.Request, *pawl.KeyBegin, error) {
	h := verifiedHook{name: r.PathValue("id")}
	h.source = s.opts.Inbound[h.name]
	body, err := bodyOf(r)
	if err == nil {
		h.delivery, err = h.source.Verify(r.Header, body, clock.Now())
	}
	if err == nil {
		err = checkBody(r, body)
	}
	if err != nil {
		return r, nil, s.wrongly(r, err)
	}
	ctx := context.WithValue(r.Context(), hookKey{}, &h)
	ctx = pawl.As(ctx, pawl.Caller{Namespace: h.source.Namespace(), ActorType: pawl.ActorAPI, ActorID: "inbound/" + h.name})
	if h.delivery.Challenge != "" {
		return r.WithContext(ctx), nil, nil
	}
	if q, ok := s.svc.(quarantined); ok { // the original has the same delivery
		if err := q.Acts(ctx, "inbound"); err != nil {
			return r, nil, err
		}
	}
	return r.WithContext(ctx), &pawl.KeyBegin{
		Scope: pawl.ReservedPrefix + "inbound/" + h.name, Key: h.delivery.ID,
		RequestHash: "delivery", // its body may differ when it is sent again
		TTLSeconds:  int64(h.source.Keep() / time.Second),
	}, nil
}

// received answers a webhook: with the task, with the signal, or with Slack's challenge.
type received struct {
	TaskID    string  `json:"task_id,omitempty" doc:"The task that the delivery has become."`
	Signal    string  `json:"signal,omitempty" doc:"The name of the signal that was sent."`
	Key       *string `json:"key,omitempty" doc:"The signal's key."`
	Challenge string  `json:"challenge,omitempty" doc:"The text that Slack asks for."`
}

type receivedAnswer struct {
	Status int
	Body   received
}

// inboundRoutes registers the call that receives webhooks.
func (s *server) inboundRoutes() {
	change(s, receiveWebhook, func(ctx context.Context, svc pawl.Service, _ *struct {
		ID   string          `path:"id" doc:"The name of the source."`
		Body json.RawMessage `doc:"The webhook, in the form of its sender."`
	}) (*receivedAnswer, error) {
		h, _ := ctx.Value(hookKey{}).(*verifiedHook) // verified has set it
		if h.delivery.Challenge != "" {
			return &receivedAnswer{http.StatusOK, received{Challenge: h.delivery.Challenge}}, nil
		}
		out := &receivedAnswer{Status: api.RouteOf(receiveWebhook).Success}
		if task, is := h.source.Task(h.name, h.delivery); is {
			made, err := one(svc.CreateTasks(ctx, []pawl.NewTask{task}))
			out.Body.TaskID = made.ID
			return out, err
		}
		sent, err := one(svc.SendSignals(ctx, []pawl.SignalCall{h.source.Signal(h.delivery)}))
		out.Body.Signal, out.Body.Key = sent.Name, &sent.Key
		return out, err
	})
}

// CheckInboundName refuses a name of a source that its path could not have.
func CheckInboundName(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return pawl.Invalid("/serve/inbound", "a source's name must have 1 to 64 of the characters a-z, 0-9, - and _")
	}
	return nil
}
