package inbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-work/pawl"
)

// Delivery is one verified webhook.
type Delivery struct {
	ID        string // tells deliveries of one source apart
	Body      json.RawMessage
	Event     string // GitHub's name of the event; "" in other forms
	Challenge string // Slack asks only whether the address is the right one: answer with this text
}

const (
	github   = "github"
	slack    = "slack"
	standard = "standard"
	stripe   = "stripe"
)

// errSignature does not say more, so that it helps no one to find a signature.
var errSignature = &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "the webhook has no valid signature of this source"}

func (s *Source) checkSecrets() error {
	if !slices.Contains(Forms, s.o.Form) {
		return pawl.Invalid("/form", "must be one of %s", strings.Join(Forms, ", "))
	}
	if len(s.o.Secrets) == 0 {
		return pawl.Invalid("/secret", "a source of webhooks needs a secret")
	}
	for _, secret := range s.o.Secrets {
		if strings.TrimSpace(secret) == "" {
			return pawl.Invalid("/secret", "is empty")
		}
		if s.o.Form != standard {
			continue
		}
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil || !strings.HasPrefix(secret, "whsec_") || len(secret) < len("whsec_")+32 {
			return pawl.Invalid("/secret", "must be whsec_ followed by the base64 of 24 to 64 bytes")
		}
		s.standard = append(s.standard, key)
	}
	return nil
}

// Expect refuses, before the body is read, a delivery whose header has no signature or one of
// another time. The error is that of Verify.
func (s *Source) Expect(h http.Header, now time.Time) error {
	var signature, at string
	timed := true
	switch s.o.Form {
	case standard:
		signature, at = h.Get(standardwebhooks.HeaderWebhookSignature), h.Get(standardwebhooks.HeaderWebhookTimestamp)
	case github:
		signature, timed = h.Get("X-Hub-Signature-256"), false
	case slack:
		signature, at = h.Get("X-Slack-Signature"), h.Get("X-Slack-Request-Timestamp")
	case stripe:
		signature = h.Get("Stripe-Signature")
		at, _ = stripeSignature(signature)
	}
	if signature == "" || timed && !s.fresh(at, now) {
		return errSignature
	}
	return nil
}

// Verify checks the signature and its age. now is the time of the receipt. The error is
// unauthenticated if they are not right, and invalid if the body is not JSON.
func (s *Source) Verify(h http.Header, body []byte, now time.Time) (Delivery, error) {
	d := Delivery{Body: body}
	var ok bool
	var at string
	switch s.o.Form {
	case standard: // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
		d.ID, at = h.Get(standardwebhooks.HeaderWebhookID), h.Get(standardwebhooks.HeaderWebhookTimestamp)
		for _, key := range s.standard {
			ok = key.VerifyIgnoringTimestamp(body, h) == nil || ok
		}
		ok = ok && s.fresh(at, now)
	case github: // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
		d.ID, d.Event = h.Get("X-GitHub-Delivery"), h.Get("X-GitHub-Event")
		signature, found := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
		ok = found && s.signed([]string{signature}, body)
	case slack: // https://api.slack.com/authentication/verifying-requests-from-slack
		at = h.Get("X-Slack-Request-Timestamp")
		signature, found := strings.CutPrefix(h.Get("X-Slack-Signature"), "v0=")
		ok = found && s.signed([]string{signature}, []byte("v0:"+at+":"), body) && s.fresh(at, now)
	case stripe: // https://docs.stripe.com/webhooks#verify-manually
		var signatures []string
		at, signatures = stripeSignature(h.Get("Stripe-Signature"))
		ok = s.signed(signatures, []byte(at+"."), body) && s.fresh(at, now)
	}
	if !ok {
		return Delivery{}, errSignature
	}
	if !json.Valid(body) {
		return Delivery{}, pawl.Invalid("", "the body is no JSON")
	}
	s.identify(&d, h, at)
	return d, nil
}

// stripeSignature reads the time and the signatures of a header t=…,v1=…,v1=….
func stripeSignature(header string) (at string, signatures []string) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if at != "" {
				return "", nil // two times
			}
			at = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	return at, signatures
}

// maxSignatures bounds the work for one header.
const maxSignatures = 16

// signed reports whether one of the signatures is the HMAC-SHA256 of the text in hexadecimal,
// with one of the secrets. It compares in constant time.
func (s *Source) signed(signatures []string, text ...[]byte) (ok bool) {
	for _, secret := range s.o.Secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		for _, part := range text {
			mac.Write(part)
		}
		want := mac.Sum(nil)
		for _, signature := range signatures[:min(len(signatures), maxSignatures)] {
			got, err := hex.DecodeString(signature)
			ok = err == nil && hmac.Equal(got, want) || ok
		}
	}
	return ok
}

// fresh reports whether a time in seconds differs from now by no more than the tolerance.
func (s *Source) fresh(at string, now time.Time) bool {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || seconds < 0 || seconds > now.Unix()+int64(s.o.Tolerance/time.Second) {
		return false
	}
	return now.Unix()-seconds <= int64(s.o.Tolerance/time.Second)
}

// identify sets what tells the delivery apart from others.
func (s *Source) identify(d *Delivery, h http.Header, at string) {
	name, ofHeader := strings.CutPrefix(s.o.ID, headerID)
	switch {
	case ofHeader:
		d.ID = h.Get(name)
	case s.o.ID == "body":
		d.ID = ""
	case s.o.ID != "":
		d.ID = text(pick(d.Body, s.o.ID))
	case s.o.Form == stripe:
		d.ID = text(pick(d.Body, "/id"))
	case s.o.Form == slack:
		d.ID = text(pick(d.Body, "/event_id"))
	}
	if s.o.Form == slack && text(pick(d.Body, "/type")) == "url_verification" { // https://api.slack.com/events/url_verification
		d.Challenge = text(pick(d.Body, "/challenge"))
	}
	if s.o.ID != "" || s.o.Form != slack { // Slack sends the same request with the same time, others sign anew
		at = ""
	}
	if d.ID == "" {
		d.ID = hashed(at, d.Body)
	} else if !utf8.ValidString(d.ID) || utf8.RuneCountInString(d.ID) > pawl.MaxKeyLen || strings.ContainsRune(d.ID, 0) {
		d.ID = hashed(d.ID, nil)
	}
}

func hashed(at string, body []byte) string {
	sum := sha256.New()
	sum.Write([]byte(at + "\n"))
	sum.Write(body)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// metadata is that of the task of a delivery to the source of a name.
func (d Delivery) metadata(name string) json.RawMessage {
	m := map[string]string{"inbound": name, "delivery": d.ID}
	if d.Event != "" && len(d.Event) <= pawl.MaxIDLen {
		m["github_event"] = d.Event
	}
	raw, _ := json.Marshal(m) // a map of texts
	return raw
}
